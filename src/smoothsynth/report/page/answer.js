// Answers with intervals: a port of smoothsynth/answer/answer.py, and of what it needs of query.py and columns.py.

const NOT_FINITE = "A question must be a finite number wherever a row may be; look at divisions, logarithms and roots.";
const RISING = ["exp", "ln", "log10", "sqrt", "tanh", "atan", "erf", "logistic"];

function filledTo(values, count) {
  const found = typeof values === "number" ? new Float64Array(count).fill(values) : values;
  if (!found.every(Number.isFinite)) throw new Refusal(NOT_FINITE);
  return found;
}

function placeOf(name) {
  const c = COLUMNS.findIndex((column) => column.name === name);
  if (c >= 0) return c;
  throw new Refusal(`There is no column of numbers or days without missing values “${name.slice(0, 60)}” on this page.${nearest(name, COLUMNS.map((column) => column.name))}`);
}

const onRows = (name) => valuesOf(placeOf(name));
const onTestRows = (name) => testValues(placeOf(name));

// The interval around the mean of a function; `f` takes a table (a function from names to values).
function intervalOf(columns, f, confidence = FACTS.confidence, restScale = SETTINGS.rest) {
  const onEach = filledTo(f(onRows), ROWS), value = mean(onEach);
  const parts = componentsOf(basisOf(columns), filledTo(f(onTestRows), TEST_ROWS), restScale);
  const q = quantile(confidence), heavy = FACTS.gaussian ? q : heavyQuantile(confidence);
  let [noise, unseen, sampling] = [heavy * parts.noise, q * parts.unseen, q * Math.hypot(parts.sampling, thinning(onEach))];
  const tried = columns.length === 1 ? valuesAlone(columns[0], f) : null;
  // A share of the private rows may be where no synthetic row is.
  if (tried) unseen = Math.hypot(unseen, (SETTINGS.unmet / FACTS.synthetic_rows) * tried.reduce((most, one) => Math.max(most, Math.abs(one - value)), 0));
  let half = Math.hypot(noise, unseen, sampling), fit = parts.fit, how = "estimated";
  let [low, high] = [value + fit - half, value + fit + half];
  if (tried) {
    const sure = worstCaseInterval(columns[0], tried, confidence);
    if (sure.noise + sure.unseen <= half && ROWS === RELEASE.rows.rows) {
      half = sure.noise + sure.unseen;
      fit = sure.centre - value;
      [low, high, how, noise, unseen, sampling] = [sure.centre - half, sure.centre + half, "bounded", sure.noise, sure.unseen, 0];
    }
  }
  return { value, low: Math.min(low, value), high: Math.max(high, value), confidence, noise, fit, unseen, sampling, how, kind: "smooth", note: "" };
}

// The deviation of a mean over the rows that the page holds from the mean over all; 0 if it holds all.
function thinning(values) {
  if (ROWS === RELEASE.rows.rows) return 0;
  const level = centred(values);
  return Math.sqrt((dot(level, level) / ROWS) * (1 / ROWS - 1 / RELEASE.rows.rows));
}

// A column in which a function is not smooth along lines through some test rows.
function roughColumn(columns, f) {
  const { nodes, most_tail } = SETTINGS, turn = 2 * nodes;
  const cosines = once("cosines", () => Float64Array.from({ length: turn }, (_, k) => Math.cos((Math.PI * k) / nodes)));
  const values = filledTo(f(onTestRows), TEST_ROWS), level = centred(values), spread = Math.sqrt(dot(level, level) / TEST_ROWS) + 1e-300;
  for (const c of columns) {
    for (let a = 0; a < 4; a++) {
      const anchor = a === 3 ? TEST_ROWS - 1 : Math.trunc((a * (TEST_ROWS - 1)) / 3);
      const line = filledTo(f((name) => {
        const place = placeOf(name), at = testValues(place)[anchor];
        return Float64Array.from({ length: nodes + 1 }, (_, j) => (place === c ? fromCoordinate(COLUMNS[c], cosines[j]) : at));
      }), nodes + 1);
      // Without its first value: of a constant nothing is left, not even rounding.
      const bare = line.map((value) => value - line[0]);
      const size = (k) => {
        let sum = ((k % 2 ? -1 : 1) * bare[nodes]) / 2;
        for (let j = 1; j < nodes; j++) sum += bare[j] * cosines[(j * k) % turn];
        return Math.abs(sum) * (k === nodes ? 1 : 2) / nodes;
      };
      let tail = 0, all = 0;
      for (let k = 1; k <= nodes; k++) {
        const one = size(k);
        all = Math.max(all, one);
        if (k >= nodes / 4 && k < nodes / 2) tail = Math.max(tail, one);
      }
      if (tail > most_tail * Math.max(all, 1e-6 * spread)) return c;
    }
  }
  return null;
}

function smoothInterval(columns, f, confidence) {
  const rough = roughColumn(columns, f);
  if (rough === null) return intervalOf(columns, f, confidence);
  throw new Refusal(`The question is not smooth in “${COLUMNS[rough].name}”: it jumps, or it changes within less than a fiftieth of the range. Ask for a wider kernel, or for counts such as avg(${quoted(COLUMNS[rough].name)} >= ...).`);
}

function columnsOf(node) {
  const names = new Set([...walk(node)].filter((one) => one.column !== undefined).map((one) => one.column));
  const places = [...names].map(placeOf).sort((a, b) => a - b);
  if (places.length > SETTINGS.most_columns) throw new Refusal(`A question may use ${SETTINGS.most_columns} columns; this one uses ${places.length}.`);
  return places.length ? places : [0];
}

function averageOf(inner, confidence) {
  const columns = columnsOf(inner);
  if (!hasJumps(inner)) return smoothInterval(columns, (table) => exact(inner, table), confidence);
  return between(columns, inner, confidence);
}

function between(columns, tree, confidence) {
  const scales = scalesOf(tree, onTestRows), truth = TRUTHS.includes(tree.name);
  const best = SETTINGS.steps.map((width) => envelope(columns, tree, { scales, width, confidence })).reduce((a, b) => (b.high - b.low < a.high - a.low ? b : a));
  const values = filledTo(exact(tree, onRows), ROWS), value = mean(values);
  let { low, high } = best;
  // A share is a number of private rows: it is rounded outwards to one.
  const count = FACTS.private_rows;
  if (truth) [low, high] = [Math.max(Math.floor(low * count) / count, 0), Math.min(Math.ceil(high * count) / count, 1)];
  const reach = truth ? 1 : values.reduce((a, b) => Math.max(a, b), -Infinity) - values.reduce((a, b) => Math.min(a, b), Infinity);
  const note = high - low > SETTINGS.most_of_all * reach && reach > 0 ? SETTINGS.vacuous : "";
  return { ...best, value, low: Math.min(low, value), high: Math.max(high, value), note };
}

function envelope(columns, tree, { scales, width, confidence }) {
  const [below, above] = [0, 1].map((side) => intervalOf(columns, (table) => bounds(tree, table, { scales, width })[side], confidence, SETTINGS.rough));
  return {
    low: below.low, high: above.high, confidence, noise: Math.max(below.noise, above.noise), fit: (below.fit + above.fit) / 2,
    unseen: Math.max(below.unseen, above.unseen) + (above.value - below.value) / 2, sampling: Math.max(below.sampling, above.sampling),
    how: below.how === "bounded" && above.how === "bounded" ? "bounded" : "estimated", kind: "envelopes",
  };
}

// The tree with numbers in the place of averages; equal averages are one.
function filledTree(node, values) {
  if (!node.name) return node;
  if (node.name === "avg") return { value: values.get(JSON.stringify(node)) };
  return { ...node, args: node.args.map((argument) => filledTree(argument, values)) };
}

function outer(tree, keys, values) {
  const value = exact(filledTree(tree, new Map(keys.map((key, k) => [key, values[k]]))), () => NaN);
  if (!Number.isFinite(value)) throw new Refusal("The answer is not a finite number on the synthetic rows: look at divisions and roots.");
  return value;
}

function outside(node) {
  return node.name ? node.name !== "avg" && node.args.some(outside) : node.column !== undefined;
}

// A day in quotes as days or seconds since 1970; NaN if it is none.
function dateNumber(column, text) {
  const whole = text.trim(), day = /^\d{4}-\d\d-\d\d$/.test(whole);
  const time = day ? Date.parse(`${whole}T00:00:00Z`) : column.kind === "datetime" && /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?$/.test(whole) ? Date.parse(`${whole.replace(" ", "T")}Z`) : NaN;
  // The 30th of February is no day.
  const real = Number.isFinite(time) && new Date(time).toISOString().startsWith(whole.slice(0, 10));
  return real ? time / (column.kind === "date" ? 86400000 : 1000) : NaN;
}

// Texts beside columns of days become numbers; what is left is about levels.
function settled(node) {
  if (node.text !== undefined) throw new Refusal(`The text '${node.text.slice(0, 40)}' is about a level, or it is no day. Beside numbers and days without missing values this page answers the questions of the list; ask others with release.answer, or with the command smoothsynth answer.`);
  if (!node.args) return node;
  const args = [...node.args], dated = ["<", "<=", ">", ">=", "=", "!=", "-"].includes(node.name);
  for (const [one, other] of dated ? [[0, 1], [1, 0]] : []) {
    const column = COLUMNS.find((c) => c.name === args[one].column);
    if (column && isDate(column) && args[other].text !== undefined && Number.isFinite(dateNumber(column, args[other].text))) args[other] = { value: dateNumber(column, args[other].text) };
  }
  return { ...node, args: args.map(settled) };
}

function answerExpression(text) {
  const tree = settled(parse(text));
  for (const one of walk(tree)) if (one.column !== undefined) placeOf(one.column);
  const found = answerTree(tree), column = tree.name === "avg" && COLUMNS.find((one) => one.name === tree.args[0].column);
  return tree.name === "avg" ? { ...found, scale: column ? column.kind : "number" } : found;
}

function answerTree(tree) {
  const found = new Map([...walk(tree)].filter((one) => one.name === "avg").map((one) => [JSON.stringify(one), one]));
  checkMeaning(tree);
  if (!found.size || outside(tree)) throw new Refusal("A question is about averages: put every column inside avg(...), as in avg(age).");
  if (tree.name === "avg") return averageOf(tree.args[0], FACTS.confidence);
  const keys = [...found.keys()], averages = [...found.values()], bare = filledTree(tree, new Map(keys.map((key) => [key, 0])));
  return averages.some(hasJumps) || hasJumps(bare) ? combined(tree, keys, averages) : linearised(tree, keys, averages);
}

function linearised(tree, keys, averages) {
  const columns = columnsOf(tree), inner = averages.map((one) => one.args[0]);
  const values = inner.map((f) => mean(filledTo(exact(f, onRows), ROWS))), value = outer(tree, keys, values);
  const slopes = values.map((one, j) => {
    const step = 1e-6 * (1 + Math.abs(one)), at = (moved) => outer(tree, keys, values.map((v, k) => (k === j ? moved : v)));
    return (at(one + step) - at(one - step)) / (2 * step);
  });
  const linear = (table) => inner.map((f, j) => each((x) => slopes[j] * x, [exact(f, table)])).reduce((a, b) => each((x, y) => x + y, [a, b]));
  const part = smoothInterval(columns, linear, FACTS.confidence), wider = divisorsOf(tree).reduce((all, one) => all * widerBy(answerTree(one)), 1);
  const [low, high] = [part.low, part.high].map((end) => wider * (end - part.value));
  const sizes = inner.map((f) => averageOf(f, FACTS.confidence)).map((one) => (one.high - one.low) / 2);
  const ways = slopes.map((slope, j) => slope * sizes[j] ** 2), along = ways.map((way) => way / Math.max(dot(slopes, ways), 1e-300));
  const reached = curved((t) => exact(filledTree(tree, new Map(keys.map((key, k) => [key, values[k] + t * along[k]]))), () => NaN), low, high);
  return { ...part, value, low: Math.min(value + low, ...reached), high: Math.max(value + high, ...reached), how: "estimated", kind: "linearised" };
}

// What is divided by and hangs on averages.
function divisorsOf(node) {
  if (!node.name || node.name === "avg") return [];
  const own = node.name === "/" && [...walk(node.args[1])].some((one) => one.name === "avg") ? [node.args[1]] : [];
  return [...own, ...node.args.flatMap(divisorsOf)];
}

function widerBy({ value, low, high }) {
  const size = Math.abs(value), share = Math.min(Math.max(value - low, high - value), SETTINGS.most_uncertain * size) / Math.max(size, 1e-300);
  return 1 / (1 - Math.max(2 * share - 1, 0) ** 2);
}

// Values of a function of one number between two, as far as it is finite around 0.
function curved(onLine, low, high) {
  const { places, halvings } = SETTINGS, found = [onLine(0)];
  for (const end of [low, high]) {
    for (let k = 1; k < places; k++) {
      const value = onLine((end * k) / (places - 1));
      if (!Number.isFinite(value)) {
        let [inside, outside] = [(end * (k - 1)) / (places - 1), (end * k) / (places - 1)];
        for (let h = 0; h < halvings; h++) {
          const middle = (inside + outside) / 2;
          [inside, outside] = Number.isFinite(onLine(middle)) ? [middle, outside] : [inside, middle];
        }
        found.push(onLine(inside));
        break;
      }
      found.push(value);
    }
  }
  return found;
}

function combined(tree, keys, averages) {
  const share = 1 - (1 - FACTS.confidence) / averages.length;
  const parts = averages.map((one) => averageOf(one.args[0], share)), found = new Map(keys.map((key, k) => [key, parts[k]]));
  const [low, high] = intervalOfTree(tree, found), value = outer(tree, keys, parts.map((part) => part.value));
  if (!Number.isFinite(low) || !Number.isFinite(high)) throw new Refusal("The interval of this arithmetic has no bounds. Ask for its averages one by one.");
  const largest = (name) => Math.max(...parts.map((part) => part[name]));
  return { value, low: Math.min(low, value), high: Math.max(high, value), confidence: FACTS.confidence, fit: 0, noise: largest("noise"), unseen: largest("unseen"), sampling: largest("sampling"), how: "estimated", kind: "envelopes", note: "" };
}

function intervalOfTree(node, found) {
  if (node.value !== undefined) return [node.value, node.value];
  if (node.name === "avg") return [found.get(JSON.stringify(node)).low, found.get(JSON.stringify(node)).high];
  return combine(node, node.args.map((argument) => intervalOfTree(argument, found)), 1);
}
