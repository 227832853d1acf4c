// The model-based interval: a port of smoothsynth/answer/model_interval.py.

function orthonormal(functions) {
  const basis = functions.map(centred);
  const lengths = basis.map((f) => Math.sqrt(dot(f, f) / f.length));
  basis.forEach((f, j) => {
    for (let again = 0; again < 2; again++) {
      const onto = basis.slice(0, j).map((g) => dot(g, f) / f.length);
      onto.forEach((share, k) => { for (let i = 0; i < f.length; i++) f[i] -= basis[k][i] * share; });
    }
    const length = Math.sqrt(dot(f, f) / f.length), scale = length > 1e-9 + 1e-7 * lengths[j] ? 1 / length : 0;
    for (let i = 0; i < f.length; i++) f[i] *= scale;
  });
  return basis;
}

function polynomials(c) {
  return once(`polynomials ${c}`, () => orthonormal(Array.from({ length: SETTINGS.degrees }, (_, k) => chebyshev(testCoordinates(c), k + 1))));
}

function products(first, second) {
  return first.flatMap((a) => second.map((b) => a.map((value, i) => value * b[i])));
}

function openShape(c) {
  return once(`shape ${c}`, () => {
    const left = posteriorDeviations(designMatrix([c]), polynomials(c).slice(0, SETTINGS.open_degrees));
    return Math.sqrt(dot(left, left) / left.length);
  });
}

function openPair(a, b) {
  return once(`pair ${a} ${b}`, () => {
    const [one, other] = [polynomials(a), polynomials(b)];
    const basis = orthonormal([...one, ...other, ...products(one.slice(0, 1), other.slice(0, 1))]);
    return posteriorDeviations(designMatrix([a, b]), basis.slice(-1))[0];
  });
}

// How uncertain unmeasured functions of two columns are; the scales of pairs are in the order 01, 02, ..., 12, 13, ...
function pairScale(a, b) {
  if (!FACTS.pair_scales) return SETTINGS.joint;
  const [low, high] = a < b ? [a, b] : [b, a];
  return once("pair scales", () => decoded(FACTS.pair_scales, Float64Array))[low * COLUMNS.length - (low * (low + 3)) / 2 + high - 1];
}

// Rows next to each other in a column, with those at one end of them: a port of smoothsynth/answer/spikes.py.
function windowsOf(c) {
  return once(`windows ${c}`, () => {
    const single = Float32Array.from(testCoordinates(c)), all = Array.from({ length: TEST_ROWS }, (_, i) => i).sort((a, b) => single[a] - single[b] || a - b);
    const beyond = Math.floor(TEST_ROWS / SETTINGS.beyond), order = all.slice(beyond, TEST_ROWS - beyond);
    return SETTINGS.windows.flatMap((parts) => Array.from({ length: parts }, (_, k) => {
      const window = order.slice(Math.floor((order.length * k) / parts), Math.floor((order.length * (k + 1)) / parts));
      const few = Math.max(1, Math.floor(window.length / SETTINGS.ends));
      return window.length > few ? [[window, window.slice(0, few)], [window, window.slice(-few)]] : [];
    }).flat());
  });
}

// What the means of values at the test rows change by if such rows have one value.
function changesBySpikes(columns, values) {
  const total = (places) => places.reduce((sum, i) => sum + values[i], 0);
  return Float64Array.from(columns.flatMap(windowsOf), ([window, end]) => ((total(end) * window.length) / end.length - total(window)) / TEST_ROWS);
}

// Orthonormal functions of some columns, how uncertain each is, and what was measured in them.
function basisOf(columns) {
  return once(`basis ${columns}`, () => {
    const { least, relative, joint } = SETTINGS;
    const functions = columns.flatMap(polynomials);
    const scales = columns.flatMap((c) => Array(SETTINGS.degrees).fill(Math.max(least, relative * openShape(c))));
    const degrees = columns.length <= 3 ? SETTINGS.pair_degrees : 1;
    columns.forEach((a, k) => columns.slice(k + 1).forEach((b) => {
      functions.push(...products(polynomials(a).slice(0, degrees), polynomials(b).slice(0, degrees)));
      scales.push(Math.max(least, relative * openPair(a, b)), ...Array(degrees ** 2 - 1).fill(pairScale(a, b)));
    }));
    if (columns.length === 3) {
      const [one, two, three] = columns.map((c) => polynomials(c).slice(0, SETTINGS.triple_degrees));
      functions.push(...products(products(one, two), three));
      scales.push(...Array(SETTINGS.triple_degrees ** 3).fill(joint));
    }
    const basis = orthonormal(functions), measured = designMatrix(columns), squared = scales.map((s) => s * s);
    const along = measured.matrix.map((phi) => Float64Array.from(basis, (f) => dot(f, phi) / TEST_ROWS));
    const across = measured.matrix.map((phi, r) => without(phi, basis, along[r]));
    const changed = measured.matrix.map((phi) => changesBySpikes(columns, phi));
    return { key: `factor ${columns}`, columns, basis, squared, along, across, changed, measured };
  });
}

// The factor of the system for the weights; it does not depend on the question.
function factorOf({ key, squared, along, across, changed, measured }, others) {
  return once(`${key} ${others}`, () => cholesky(along.map((a, i) => Float64Array.from(along, (b, j) => {
    let sum = (others * dot(across[i], across[j])) / TEST_ROWS + SETTINGS.spike ** 2 * dot(changed[i], changed[j]) + (i === j ? measured.variances[i] + 1e-18 : 0);
    for (let k = 0; k < a.length; k++) sum += a[k] * squared[k] * b[k];
    return sum;
  }))));
}

function without(values, basis, shares) {
  const left = Float64Array.from(values);
  basis.forEach((f, k) => { for (let i = 0; i < left.length; i++) left[i] -= f[i] * shares[k]; });
  return left;
}

// Standard deviations of noise, approximation error and sampling, and the residual shift, for a function given at the test rows.
function componentsOf(found, values, restScale) {
  const { columns, basis, squared, along, across, changed, measured } = found, rest = restScale ** 2, spike = SETTINGS.spike ** 2;
  const flat = centred(values), own = Float64Array.from(basis, (f) => dot(f, flat) / TEST_ROWS), beside = without(flat, basis, own);
  const bySpikes = changesBySpikes(columns, flat);
  const right = along.map((a, r) => a.reduce((sum, share, k) => sum + share * squared[k] * own[k], (rest * dot(across[r], beside)) / TEST_ROWS + spike * dot(changed[r], bySpikes)));
  const weights = solved(factorOf(found, rest), right);
  const left = own.map((share, k) => share - along.reduce((sum, a, r) => sum + a[k] * weights[r], 0));
  const leftRest = without(beside, across, weights);
  const spread = dot(leftRest, leftRest) / TEST_ROWS, leftSpikes = without(bySpikes, changed, weights);
  const unseen = left.reduce((sum, share, k) => sum + squared[k] * share * share, rest * spread + spike * dot(leftSpikes, leftSpikes));
  const noise = measured.variances.reduce((sum, variance, r) => sum + weights[r] ** 2 * variance, 0);
  const residual = dot(weights, measured.residuals);
  const fit = residual ** 2 > noise ? residual * (1 - noise / residual ** 2) : 0;
  const sampling = (dot(left, left) + spread) / FACTS.synthetic_rows;
  return { noise: Math.hypot(Math.sqrt(noise), residual - fit), unseen: Math.sqrt(unseen), sampling: Math.sqrt(sampling), fit };
}

// How many standard deviations a normal error stays within; by Newton's method.
function quantile(confidence) {
  let x = 1;
  for (let k = 0; k < 60; k++) x -= (errorFunction(x / Math.SQRT2) - confidence) / (Math.sqrt(2 / Math.PI) * Math.exp((-x * x) / 2));
  return x;
}

function heavyQuantile(confidence) { return Math.max(quantile(confidence), -Math.log1p(-confidence) / Math.SQRT2); }
