// The value of an expression at every row: a port of smoothsynth/answer/evaluate.py. A value is a number or an array.

const TRUTHS = ["<", "<=", ">", ">=", "=", "!=", "and", "or", "not"];
const JUMPS = ["<", "<=", ">", ">=", "=", "!=", "case", "floor", "ceil", "round"];

const OPERATIONS = {
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b, minus: (a) => -a,
  power: (a, b) => a ** b, exp: Math.exp, ln: Math.log, log10: Math.log10, sqrt: Math.sqrt, abs: Math.abs, sin: Math.sin,
  cos: Math.cos, tan: Math.tan, tanh: Math.tanh, atan: Math.atan, erf: errorFunction, logistic: (x) => 0.5 * (1 + Math.tanh(0.5 * x)),
  floor: Math.floor, ceil: Math.ceil, round: roundHalfEven, least: Math.min, greatest: Math.max,
  "<": (a, b) => Number(a < b), "<=": (a, b) => Number(a <= b), ">": (a, b) => Number(a > b), ">=": (a, b) => Number(a >= b),
  "=": (a, b) => Number(a === b), "!=": (a, b) => Number(a !== b), and: Math.min, or: Math.max, not: (a) => 1 - a,
  case: (...values) => {
    for (let k = 0; k + 1 < values.length; k += 2) if (values[k] > 0.5) return values[k + 1];
    return values[values.length - 1];
  },
};

// 2/sqrt(pi) exp(-x^2) sum of 2^k x^(2k+1) / (2k+1)!!: all terms have one sign.
function errorFunction(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x, sum = x;
  for (let k = 1; Math.abs(term) > 1e-17 * Math.abs(sum); k++) {
    term *= (2 * x * x) / (2 * k + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

function each(operation, parts) {
  const arrays = parts.filter((part) => typeof part !== "number");
  if (!arrays.length) return operation(...parts);
  const [a, b] = parts, result = new Float64Array(arrays[0].length);
  if (parts.length === 1) for (let k = 0; k < result.length; k++) result[k] = operation(a[k]);
  else if (parts.length === 2 && arrays.length === 2) for (let k = 0; k < result.length; k++) result[k] = operation(a[k], b[k]);
  else if (parts.length === 2 && typeof b === "number") for (let k = 0; k < result.length; k++) result[k] = operation(a[k], b);
  else for (let k = 0; k < result.length; k++) result[k] = operation(...parts.map((part) => (typeof part === "number" ? part : part[k])));
  return result;
}

// `table` gives the values of a column by its name.
function exact(node, table) {
  if (node.value !== undefined) return node.value;
  if (node.column !== undefined) return table(node.column);
  return each(OPERATIONS[node.name], node.args.map((argument) => exact(argument, table)));
}

function hasJumps(node) {
  return [...walk(node)].some((one) => JUMPS.includes(one.name));
}

function checkMeaning(node) {
  for (const one of walk(node)) {
    if (!one.name) continue;
    const conditions = ["and", "or", "not"].includes(one.name) ? one.args : one.name === "case" ? one.args.slice(0, -1).filter((_, k) => k % 2 === 0) : [];
    if (conditions.some((condition) => !TRUTHS.includes(condition.name))) throw new Refusal(`“${one.name}” needs comparisons such as age >= 50; it was given a number.`);
    if (one.name === "avg" && [...walk(one.args[0])].some((inner) => inner.name === "avg")) throw new Refusal("An average of an average has no meaning here. Write one avg(...) inside no other.");
  }
}

// The spread of the difference of both sides of every comparison: the unit of its steps.
function scalesOf(tree, table) {
  const found = new Map();
  for (const one of walk(tree)) {
    if (!STEPPED.includes(one.name)) continue;
    const values = exact(apply("-", ...one.args), table), difference = typeof values === "number" ? [values] : values;
    if (!difference.every(Number.isFinite)) throw new Refusal("Both sides of a comparison must be finite numbers wherever a row may be; one is not.");
    const average = difference.reduce((a, b) => a + b, 0) / difference.length;
    const spread = Math.sqrt(difference.reduce((sum, x) => sum + (x - average) ** 2, 0) / difference.length);
    const largest = difference.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    found.set(one, Math.max(spread, 1e-9 * (1 + largest)));
  }
  return found;
}

const STEPPED = ["<", "<=", ">", ">=", "=", "!="];

// A lower and an upper function of an expression; steps have `width` times their scale.
function bounds(node, table, { scales, width }) {
  if (!hasJumps(node)) {
    const value = exact(node, table);
    return [value, value];
  }
  return combine(node, node.args.map((argument) => bounds(argument, table, { scales, width })), (scales.get(node) || 1) * width);
}

function smoothStep(u) {
  const x = Math.min(1, Math.max(0, u));
  return x ** 3 * (10 + x * (6 * x - 15));
}

const on = (operation, ...parts) => each(operation, parts);
const least = (...parts) => each(Math.min, parts), greatest = (...parts) => each(Math.max, parts);
const minus = (a, b) => [on((x, y) => x - y, a[0], b[1]), on((x, y) => x - y, a[1], b[0])];
const times = (a, b) => {
  const corners = a.flatMap((x) => b.map((y) => on((p, q) => p * q, x, y)));
  return [least(...corners), greatest(...corners)];
};

const BOUNDED = {
  "+": (a, b) => [on((x, y) => x + y, a[0], b[0]), on((x, y) => x + y, a[1], b[1])],
  "-": minus,
  "*": times,
  "/": (a, b) => {
    const crosses = on((low, high) => Number(low <= 0 && high >= 0), b[0], b[1]);
    if (typeof crosses === "number" ? crosses : crosses.some(Boolean)) throw new Refusal("What is divided by may be zero within its uncertainty, so the quotient has no bounds.");
    return times(a, [on((x) => 1 / x, b[1]), on((x) => 1 / x, b[0])]);
  },
  minus: (a) => [on((x) => -x, a[1]), on((x) => -x, a[0])],
  abs: (a) => [on((low, high) => (low <= 0 && high >= 0 ? 0 : Math.min(Math.abs(low), Math.abs(high))), ...a), on((low, high) => Math.max(Math.abs(low), Math.abs(high)), ...a)],
  power: (a, b) => {
    const exponents = new Set(b.flatMap((part) => (typeof part === "number" ? [part] : [...part]))), exponent = [...exponents][0];
    if (exponents.size !== 1 || !(exponent > 0)) throw new Refusal("A power of something uncertain needs a fixed exponent above 0. Write the question without it.");
    const inner = Number.isInteger(exponent) ? (exponent % 2 ? a : BOUNDED.abs(a)) : a.map((part) => on((x) => Math.max(x, 0), part));
    return inner.map((part) => on((x) => x ** exponent, part));
  },
  floor: (a) => [on((x) => x - 1, a[0]), a[1]],
  ceil: (a) => [a[0], on((x) => x + 1, a[1])],
  round: (a) => [on((x) => x - 0.5, a[0]), on((x) => x + 0.5, a[1])],
  least: (...parts) => [0, 1].map((side) => least(...parts.map((part) => part[side]))),
  greatest: (...parts) => [0, 1].map((side) => greatest(...parts.map((part) => part[side]))),
  and: (a, b) => [0, 1].map((side) => on((x, y) => x * y, a[side], b[side])),
  or: (a, b) => [0, 1].map((side) => on((x, y) => 1 - (1 - x) * (1 - y), a[side], b[side])),
  not: (a) => [on((x) => 1 - x, a[1]), on((x) => 1 - x, a[0])],
};

function combine(node, parts, step) {
  const { name } = node;
  if (STEPPED.includes(name)) return compared(name, minus(parts[0], parts[1]), step);
  if (name === "case") return casesBounds(parts);
  if (BOUNDED[name]) return BOUNDED[name](...parts);
  if (RISING.includes(name)) return [on(OPERATIONS[name], parts[0][0]), on(OPERATIONS[name], parts[0][1])];
  if (parts.every(([low, high]) => low === high)) {
    const value = each(OPERATIONS[name], parts.map(([low]) => low));
    return [value, value];
  }
  throw new Refusal(`“${name}” of something with jumps cannot be bounded. Write the question without it.`);
}

function compared(name, [lowest, highest], step) {
  const turned = name === "<" || name === "<=";
  const low = turned ? on((x) => -x, highest) : lowest, high = turned ? on((x) => -x, lowest) : highest;
  if (name !== "=" && name !== "!=") return [on((x) => smoothStep(x / step), low), on((x) => smoothStep(1 + x / step), high)];
  const upper = on((above, below) => smoothStep(1 + above / step) * smoothStep(1 - below / step), high, low);
  return name === "=" ? [on(() => 0, upper), upper] : [on((x) => 1 - x, upper), on(() => 1, upper)];
}

function casesBounds(parts) {
  let [low, high] = parts[parts.length - 1];
  for (let k = parts.length - 3; k >= 0; k -= 2) {
    const [unlikely, likely] = parts[k], [thenLow, thenHigh] = parts[k + 1];
    const mixed = (share, then, otherwise) => on((s, a, b) => s * a + (1 - s) * b, share, then, otherwise);
    [low, high] = [least(mixed(unlikely, thenLow, low), mixed(likely, thenLow, low)), greatest(mixed(unlikely, thenHigh, high), mixed(likely, thenHigh, high))];
  }
  return [low, high];
}
