// The release that stands in this page: columns of synthetic rows in their own units, and as coordinates in [-1, 1].

const RELEASE = JSON.parse(document.getElementById("release-data").textContent);
const ROWS = RELEASE.rows.held;
const COLUMNS = RELEASE.columns;

const BYTES = (() => {
  const text = atob(RELEASE.rows.base64);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return bytes.buffer;
})();

const inUnits = new Map();

// Places are values in their own units, scaled so that the bounds are -1 and 1. Halves first: upper - lower may overflow.
function middle(column) { return column.lower / 2 + column.upper / 2; }
function halfWidth(column) { return column.upper / 2 - column.lower / 2; }
function toOwnUnits(column, place) { return place * halfWidth(column) + middle(column); }
function toPlace(column, value) { return (value - middle(column)) / halfWidth(column); }

// A coordinate of the cube in the column's own units (smoothsynth/schema/value.py); whole numbers are not rounded.
function fromCoordinate(column, coordinate) {
  const { transform, lower, upper } = column, within = (value) => Math.min(upper, Math.max(lower, value));
  if (!transform) return within(toOwnUnits(column, coordinate));
  if (coordinate <= -1) return lower;
  if (coordinate >= 1) return upper;
  const level = coordinate * (transform.high / 2 - transform.low / 2) + (transform.high / 2 + transform.low / 2);
  return within(TRANSFORMS[transform.name](level, transform));
}

const TRANSFORMS = {
  log: (level) => Math.exp(level),
  asinh: (level, { scale }) => Math.sinh(level) * scale,
  "rank-to-public-quantiles": (level, { knots }) => {
    const piece = Math.min(knots.length - 2, Math.max(0, Math.floor(level))), inside = level - piece;
    return knots[piece] * (1 - inside) + knots[piece + 1] * inside;
  },
};

function roundHalfEven(value) {
  const nearest = Math.round(value);
  return Math.abs(value % 1) === 0.5 && nearest % 2 !== 0 ? nearest - 1 : nearest;
}

function valuesOf(c) {
  if (!inUnits.has(c)) inUnits.set(c, read(c));
  return inUnits.get(c);
}

function read(c) {
  if (RELEASE.rows.encoding === "float64") return new Float64Array(BYTES, 8 * ROWS * c, ROWS);
  const column = COLUMNS[c], exactly = column.kind !== "number" ? roundHalfEven : (value) => value;
  return Float64Array.from(new Uint16Array(BYTES, 2 * ROWS * c, ROWS), (place) => exactly(fromCoordinate(column, (place / 65535) * 2 - 1)));
}
