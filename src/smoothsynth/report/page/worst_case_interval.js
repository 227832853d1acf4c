// The worst-case interval, which holds for every table: a port of smoothsynth/answer/worst_case_interval.py.

const PRICES = [1e-4, 1e-2, 1, 1e2, 1e4];
const RELEASED = decoded(FACTS.released, Float64Array);

// Places of one column, and what was measured of it alone at these places; the same for every question.
function alone(c) {
  return once(`alone ${c}`, () => {
    const places = coordinatesToTry(c), count = places.length;
    const found = FEATURES.filter(({ round, terms }) => terms.length === 1 && terms[0].length === 2 && terms[0][0] === c && !FACTS.rounds[round].factors);
    const matrix = found.map(({ round, terms }) => {
      const values = FACTS.rounds[round].knots ? mapped(knotsOf(round, c), places).map((value) => value / 65536) : places;
      return factorValues(round, c, places, values, terms[0][1]);
    });
    if (!found.length) return { places, matrix: [new Float64Array(count)], flat: [new Float64Array(count)], released: [0], variances: [1], factors: [] };
    const flat = matrix.map(centred), variances = found.map((f) => VARIANCES[f.place]);
    return { places, matrix, flat, variances, released: found.map((f) => RELEASED[f.place]), factors: [] };
  });
}

// The coordinates that a column can take, or a fine grid of them, finer at the bounds, with single values and the places beside them.
function coordinatesToTry(c) {
  const column = COLUMNS[c];
  const whole = column.kind !== "number" && column.upper - column.lower + 1 <= SETTINGS.grid;
  if (whole && column.transform) return Float64Array.from(column.transform.levels);
  if (whole) return Float64Array.from({ length: column.upper - column.lower + 1 }, (_, k) => toPlace(column, column.lower + k));
  const even = Array.from({ length: SETTINGS.grid }, (_, k) => (k === SETTINGS.grid - 1 ? 1 : -1 + (k * 2) / (SETTINGS.grid - 1)));
  const nodes = Array.from({ length: SETTINGS.nodes - 1 }, (_, k) => Math.cos((Math.PI * (k + 1)) / SETTINGS.nodes));
  const singles = new Set(FACTS.rounds.flatMap(({ basis, cells }) => (basis === "cells" ? cells[c]?.atoms ?? [] : [])));
  const beside = [...singles].flatMap((atom) => [atom - 1, atom, atom + 1].map((place) => Math.min(65536, Math.max(-65536, place)) / 65536));
  return Float64Array.from([...even, ...nodes, ...beside]);
}

// A function of one column at the places to try.
function valuesAlone(c, f) {
  const { places } = alone(c), units = places.map((x) => fromCoordinate(COLUMNS[c], x));
  return filledTo(f(() => units), places.length);
}

function worstCaseInterval(c, values, confidence) {
  const { matrix, flat, variances, released, factors } = alone(c), level = centred(values);
  const heavy = heavyQuantile(confidence);
  return PRICES.map((price, p) => {
    factors[p] ||= cholesky(flat.map((a, i) => Float64Array.from(flat, (b, j) => dot(a, b) / a.length + (i === j ? price * variances[i] : 0))));
    const weights = solved(factors[p], flat.map((a) => dot(a, level) / a.length)), rest = without(values, matrix, weights);
    let [least, most] = [Infinity, -Infinity];
    for (const r of rest) { least = Math.min(least, r); most = Math.max(most, r); }
    const noise = heavy * Math.sqrt(weights.reduce((sum, w, r) => sum + w * w * variances[r], 0));
    return { centre: (most + least) / 2 + dot(weights, released), noise, unseen: (most - least) / 2 };
  }).reduce((best, one) => (one.noise + one.unseen < best.noise + best.unseen ? one : best));
}
