// Evidence: what the release says about a few columns. A port of smoothsynth/answer/evidence.py, equal to it up to
// rounding (tests/browser/test_answers.py). Columns of a matrix are arrays over the test rows.

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
const RESIDUALS = decoded(FACTS.residuals, Float64Array), VARIANCES = decoded(FACTS.variances, Float64Array);

function testCoordinates(c) { return TEST_CELLS.subarray(c * TEST_ROWS, (c + 1) * TEST_ROWS); }
function testValues(c) { return once(`units ${c}`, () => testCoordinates(c).map((x) => fromCoordinate(COLUMNS[c], x))); }

// All features of columns: the round and the terms, each a list of column, degree, column, degree, ...
const FEATURES = FACTS.rounds.flatMap((round, s) => round.features.map((terms, k) => ({ round: s, instead: round.instead?.[k], terms: Array.isArray(terms[0]) ? terms : [terms] })));
FEATURES.forEach((feature, place) => {
  feature.place = place;
  feature.columns = new Set(feature.terms.flatMap((term) => term.filter((_, k) => k % 2 === 0)));
});

// A coordinate of the test rows through the transformation of a round (smoothsynth/queries/transformation.py): a piecewise-linear
// map by its knots, then the whole row clipped to a norm.
function transformed(s, c) {
  const round = FACTS.rounds[s];
  if (!round.knots) return testCoordinates(c);
  return once(`transformed ${s} ${c}`, () => {
    const values = mapped(knotsOf(s, c), testCoordinates(c));
    const factors = round.factors && once(`factors ${s}`, () => decoded(round.factors, Float64Array));
    return values.map((value, k) => (factors ? Math.trunc(value * factors[k]) : value) / 65536);
  });
}

// Knots are whole numbers: their upper bits in one array, the two lowest ones packed in another, four knots to a byte.
function knotsOf(s, c) {
  const round = FACTS.rounds[s];
  const upper = once(`upper ${s}`, () => decoded(round.knots, Uint16Array)), bits = once(`bits ${s}`, () => decoded(round.bits, Uint8Array));
  return Float64Array.from({ length: SETTINGS.knots }, (_, k) => {
    const place = c * SETTINGS.knots + k;
    return 4 * upper[place] + ((bits[place >> 2] >> (6 - 2 * (place & 3))) & 3) - 65536;
  });
}

function mapped(knots, coordinates) {
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

// The first of two hat functions that are not 0 (smoothsynth/queries/bases.py), from 0, and the next one's value: whole numbers below 2^53.
function split(value, counts) {
  const place = Math.min(Math.max((roundHalfEven(value * 65536) + 65536) * counts - 65536, 0), 131072 * (counts - 1));
  const first = Math.min(Math.floor(place / 131072), counts - 2);
  return [first, Math.floor((place - 131072 * first) / 2)];
}

// The j-th of some hat functions.
function hat(x, number, counts) {
  return x.map((value) => {
    const [first, beyond] = split(value, counts);
    if (number - 1 === first) return (65536 - beyond) / 65536;
    return number === first + 2 ? beyond / 65536 : 0;
  });
}

// The k-th cosine made of hat functions; of so many as these, the last of them.
function hatCosine(x, number, counts) {
  if (number === counts) return hat(x, number, counts);
  const angle = (j) => (Math.PI / (2 * counts)) * (number * (2 * j + 1));
  const adds = Float64Array.from({ length: counts }, (_, j) => roundHalfEven(65536 * Math.cos(angle(j))));
  return x.map((value) => {
    const [first, beyond] = split(value, counts);
    return (adds[first] * (65536 - beyond) + adds[first + 1] * beyond) / 2 ** 32;
  });
}

// The weight of a soft cell of a table (smoothsynth/queries/soft_tables.py): hat functions of what is transformed, single values of what is not.
function cell(x, number, { hats, atoms }, unit, places) {
  return x.map((value, i) => {
    const atom = atoms.indexOf(roundHalfEven(places[i] * 65536));
    if (atom >= 0) return number === hats + atom ? 1 : 0;
    const place = Math.floor(((roundHalfEven(value * 65536) + 65536) * (hats - 1) * unit + 65536) / 131072);
    const first = Math.min(Math.floor(place / unit), hats - 2), beyond = place - first * unit;
    if (number === first) return (unit - beyond) / unit;
    return number === first + 1 ? beyond / unit : 0;
  });
}

// The bases of query families (smoothsynth/queries/bases.py), by their names.
const BASES = { chebyshev, hat, "hat cosines": hatCosine };

// What a factor of a term stands for at coordinates of a column, as they are and transformed.
function factorValues(s, c, places, x, number) {
  const { basis = "chebyshev", cells, unit } = FACTS.rounds[s];
  return basis === "cells" ? cell(x, number, cells[c], unit, places) : BASES[basis](x, number, cells);
}

function centred(values) {
  const average = mean(values);
  return values.map((value) => value - average);
}

function featureValues({ round, terms }) {
  const total = new Float64Array(TEST_ROWS);
  for (const term of terms) {
    const product = new Float64Array(TEST_ROWS).fill(1);
    for (let k = 0; k < term.length; k += 2) {
      const values = factorValues(round, term[k], testCoordinates(term[k]), transformed(round, term[k]), term[k + 1]);
      for (let i = 0; i < TEST_ROWS; i++) product[i] *= values[i];
    }
    for (let i = 0; i < TEST_ROWS; i++) total[i] += product[i] / terms.length;
  }
  return total;
}

// The design matrix of the features of these columns and of no others.
function designMatrix(columns) {
  const inside = new Set(columns);
  return once(`design ${[...inside].sort((a, b) => a - b)}`, () => {
    // A table of three columns is used as it is where all of them are, and summed up to two columns where only those are.
    const found = FEATURES.filter((f) => [...f.columns].every((c) => inside.has(c)) && !f.instead?.every((c) => inside.has(c)));
    return {
      matrix: found.map((f) => once(`feature ${f.place}`, () => centred(featureValues(f)))),
      variances: found.map((f) => VARIANCES[f.place]),
      residuals: found.map((f) => RESIDUALS[f.place]),
    };
  });
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
