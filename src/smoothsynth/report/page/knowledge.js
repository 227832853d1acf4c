// What the release knows about a few columns: a port of smoothsynth/answer/knowledge.py and interval.py, equal to it
// up to rounding (tests/browser/test_answers.py). Columns of a matrix are arrays over the test rows.

const FACTS = RELEASE.answering, SETTINGS = FACTS.settings, TEST_ROWS = FACTS.test_rows;

function decoded(text, kind) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let k = 0; k < letters.length; k++) bytes[k] = letters.charCodeAt(k);
  return new kind(bytes.buffer);
}

const kept = new Map();

function once(key, make) {
  if (!kept.has(key)) kept.set(key, make());
  return kept.get(key);
}

const TEST_CELLS = Float64Array.from(decoded(FACTS.test, FACTS.test_encoding === "float64" ? Float64Array : Float32Array));
const GAPS = decoded(FACTS.gaps, Float64Array), VARIANCES = decoded(FACTS.variances, Float64Array);

function testCoordinates(c) { return TEST_CELLS.subarray(c * TEST_ROWS, (c + 1) * TEST_ROWS); }
function testValues(c) { return once(`units ${c}`, () => testCoordinates(c).map((x) => fromCoordinate(COLUMNS[c], x))); }

// All features of columns: the stage and the terms, each a list of column, degree, column, degree, ...
const FEATURES = FACTS.stages.flatMap((stage, s) => stage.features.map((terms) => ({ stage: s, terms: Array.isArray(terms[0]) ? terms : [terms] })));
FEATURES.forEach((feature, place) => {
  feature.place = place;
  feature.columns = new Set(feature.terms.flatMap((term) => term.filter((_, k) => k % 2 === 0)));
});

// A coordinate of the test rows as a stage saw it (smoothsynth/view.py): bent by its knots, the whole row kept short.
function seenBy(s, c) {
  const stage = FACTS.stages[s];
  if (!stage.knots) return testCoordinates(c);
  return once(`seen ${s} ${c}`, () => {
    const bent = bend(knotsOf(s, c), testCoordinates(c));
    const factors = stage.factors && once(`factors ${s}`, () => decoded(stage.factors, Float64Array));
    return bent.map((value, k) => (factors ? Math.trunc(value * factors[k]) : value) / 65536);
  });
}

// Knots are whole numbers: their upper bits in one array, the two lowest ones packed in another, four knots to a byte.
function knotsOf(s, c) {
  const stage = FACTS.stages[s];
  const upper = once(`upper ${s}`, () => decoded(stage.knots, Uint16Array)), bits = once(`bits ${s}`, () => decoded(stage.bits, Uint8Array));
  return Float64Array.from({ length: SETTINGS.knots }, (_, k) => {
    const place = c * SETTINGS.knots + k;
    return 4 * upper[place] + ((bits[place >> 2] >> (6 - 2 * (place & 3))) & 3) - 65536;
  });
}

function bend(knots, coordinates) {
  return coordinates.map((x) => {
    const shifted = roundHalfEven(x * 65536) + 65536;
    const piece = Math.min(Math.floor(shifted / 256), knots.length - 2), inside = shifted - piece * 256;
    return Math.floor((knots[piece] * (256 - inside) + knots[piece + 1] * inside) / 256);
  });
}

function chebyshev(x, degree) {
  let before = new Float64Array(x.length).fill(1), now = x;
  for (let k = 1; k < degree; k++) {
    const next = now.map((value, i) => 2 * x[i] * value - before[i]);
    before = now;
    now = next;
  }
  return degree ? now : before;
}

// The j-th of some soft counts (smoothsynth/queries/bases.py): whole numbers below 2^53.
function softCount(x, number, counts) {
  return x.map((value) => {
    const place = Math.min(Math.max((roundHalfEven(value * 65536) + 65536) * counts - 65536, 0), 131072 * (counts - 1));
    const first = Math.min(Math.floor(place / 131072), counts - 2), beyond = Math.floor((place - 131072 * first) / 2);
    if (number - 1 === first) return (65536 - beyond) / 65536;
    return number === first + 2 ? beyond / 65536 : 0;
  });
}

// The first or the second wave (smoothsynth/queries/bases.py): straight lines between seven places, rounded towards 0.
const HALF = Math.floor(65536 / Math.SQRT2);
const WAVE_PLACES = [[-HALF, -65536, -HALF, 0, HALF, 65536, HALF], [HALF, 0, -HALF, -65536, -HALF, 0, HALF]];

function wave(x, number) {
  const places = WAVE_PLACES[number - 1];
  return x.map((value) => {
    const along = (roundHalfEven(value * 65536) + 65536) * 3, piece = Math.min(Math.floor(along / 65536), 5);
    return Math.trunc(((places[piece + 1] - places[piece]) * (along - piece * 65536)) / 65536 + places[piece]) / 65536;
  });
}

// The bases of query families (smoothsynth/queries/bases.py), by their names.
const BASES = { chebyshev, hat: softCount, fourier: wave };

// What a factor of a term stands for at coordinates as a stage sees them.
function factorValues(s, x, number) {
  const { basis = "chebyshev", cells } = FACTS.stages[s];
  return BASES[basis](x, number, cells);
}

function centred(values) {
  const average = mean(values);
  return values.map((value) => value - average);
}

function featureValues({ stage, terms }) {
  const total = new Float64Array(TEST_ROWS);
  for (const term of terms) {
    const product = new Float64Array(TEST_ROWS).fill(1);
    for (let k = 0; k < term.length; k += 2) {
      const values = factorValues(stage, seenBy(stage, term[k]), term[k + 1]);
      for (let i = 0; i < TEST_ROWS; i++) product[i] *= values[i];
    }
    for (let i = 0; i < TEST_ROWS; i++) total[i] += product[i] / terms.length;
  }
  return total;
}

// What was measured of these columns and of no others.
function seen(columns) {
  const inside = new Set(columns);
  return once(`seen of ${[...inside].sort((a, b) => a - b)}`, () => {
    const found = FEATURES.filter((f) => [...f.columns].every((c) => inside.has(c)));
    return {
      matrix: found.map((f) => once(`feature ${f.place}`, () => centred(featureValues(f)))),
      variances: found.map((f) => VARIANCES[f.place]),
      gaps: found.map((f) => GAPS[f.place]),
    };
  });
}

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

// sqrt of  min over c of  c' N c + vague^2 E (t - c . phi)^2  for each target t.
function posteriorDeviations({ matrix, variances }, targets) {
  const vague = SETTINGS.vague ** 2;
  const lower = cholesky(matrix.map((a, i) => Float64Array.from(matrix, (b, j) => (vague * dot(a, b)) / TEST_ROWS + (i === j ? variances[i] : 0))));
  return targets.map((target) => {
    const cross = Float64Array.from(matrix, (a) => (vague * dot(a, target)) / TEST_ROWS);
    return Math.sqrt(Math.max(0, (vague * dot(target, target)) / TEST_ROWS - dot(cross, solved(lower, cross))));
  });
}

function openShape(c) {
  return once(`shape ${c}`, () => {
    const left = posteriorDeviations(seen([c]), polynomials(c).slice(0, SETTINGS.open_degrees));
    return Math.sqrt(dot(left, left) / left.length);
  });
}

function openPair(a, b) {
  return once(`pair ${a} ${b}`, () => {
    const [one, other] = [polynomials(a), polynomials(b)];
    const basis = orthonormal([...one, ...other, ...products(one.slice(0, 1), other.slice(0, 1))]);
    return posteriorDeviations(seen([a, b]), basis.slice(-1))[0];
  });
}

// How uncertain unmeasured functions of two columns are; the scales of pairs are in the order 01, 02, ..., 12, 13, ...
function pairScale(a, b) {
  if (!FACTS.pair_scales) return SETTINGS.joint;
  const [low, high] = a < b ? [a, b] : [b, a];
  return once("pair scales", () => decoded(FACTS.pair_scales, Float64Array))[low * COLUMNS.length - (low * (low + 3)) / 2 + high - 1];
}

// Orthonormal functions of some columns, how uncertain each is, and what was measured in them.
function frameOf(columns) {
  return once(`frame ${columns}`, () => {
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
    const basis = orthonormal(functions), measured = seen(columns), squared = scales.map((s) => s * s);
    const along = measured.matrix.map((phi) => Float64Array.from(basis, (f) => dot(f, phi) / TEST_ROWS));
    const across = measured.matrix.map((phi, r) => without(phi, basis, along[r]));
    return { key: `factor ${columns}`, basis, squared, along, across, measured };
  });
}

// The factor of the system for the weights; it does not depend on the question.
function factorOf({ key, squared, along, across, measured }, others) {
  return once(`${key} ${others}`, () => cholesky(along.map((a, i) => Float64Array.from(along, (b, j) => {
    let sum = (others * dot(across[i], across[j])) / TEST_ROWS + (i === j ? measured.variances[i] + 1e-18 : 0);
    for (let k = 0; k < a.length; k++) sum += a[k] * squared[k] * b[k];
    return sum;
  }))));
}

function without(values, basis, shares) {
  const left = Float64Array.from(values);
  basis.forEach((f, k) => { for (let i = 0; i < left.length; i++) left[i] -= f[i] * shares[k]; });
  return left;
}

// Standard deviations of noise, unseen and sampling, and the known shift, for a function given at the test rows.
function partsOf(frame, values, restScale) {
  const { basis, squared, along, across, measured } = frame, rest = restScale ** 2;
  const flat = centred(values), own = Float64Array.from(basis, (f) => dot(f, flat) / TEST_ROWS), beside = without(flat, basis, own);
  const right = along.map((a, r) => a.reduce((sum, share, k) => sum + share * squared[k] * own[k], (rest * dot(across[r], beside)) / TEST_ROWS));
  const weights = solved(factorOf(frame, rest), right);
  const left = own.map((share, k) => share - along.reduce((sum, a, r) => sum + a[k] * weights[r], 0));
  const leftRest = without(beside, across, weights);
  const spread = dot(leftRest, leftRest) / TEST_ROWS;
  const unseen = left.reduce((sum, share, k) => sum + squared[k] * share * share, rest * spread);
  const noise = measured.variances.reduce((sum, variance, r) => sum + weights[r] ** 2 * variance, 0);
  const gap = dot(weights, measured.gaps);
  const fit = gap ** 2 > noise ? gap * (1 - noise / gap ** 2) : 0;
  const sampling = (dot(left, left) + spread) / FACTS.synthetic_rows;
  return { noise: Math.hypot(Math.sqrt(noise), gap - fit), unseen: Math.sqrt(unseen), sampling: Math.sqrt(sampling), fit };
}
