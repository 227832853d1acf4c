// Charts as SVG elements. Text only ever enters as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  return filled(made, attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Four significant digits, few enough to read.
function shown(value, digits = 4) {
  if (!Number.isFinite(value)) return "not a number";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  return value.toLocaleString("en", { maximumSignificantDigits: size >= 10 ** digits ? Math.ceil(Math.log10(size)) : digits });
}

// An interval is shown to two digits of its half width, so that no figure pretends to more.
function shownWith(value, half) {
  if (!(half > 0) || !Number.isFinite(half)) return shown(value);
  const decimals = Math.max(0, 1 - Math.floor(Math.log10(half)));
  if (decimals <= 6 && Math.abs(value) < 1e12) return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const digits = Math.floor(Math.log10(Math.max(Math.abs(value), half))) - Math.floor(Math.log10(half)) + 2;
  return shown(value, Math.min(12, Math.max(2, digits)));
}

function niceTicks(low, high, count) {
  const raw = high / count - low / count;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(k * step);
  return ticks;
}

// Ticks with their texts; of days the ends and the middle.
function ticksOf(column, low, high, count) {
  const within = column.kind === "datetime" && high - low < DAY;
  return (isDate(column) ? [low, low / 2 + high / 2, high] : niceTicks(low, high, count)).map((tick) => [tick, within ? textOf(column, tick, 1).slice(11) : textOf(column, tick)]);
}

// The first and the last day that Python's calendar has: ends of intervals may lie beyond.
const [FIRST_DAY, LAST_DAY] = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"].map(Date.parse);
const DAY = 86400;

function isDate(column) { return column.kind === "date" || column.kind === "datetime"; }

// Days and seconds since 1970 as days, or as moments if steps are shorter.
function textOf(column, value, step = DAY) {
  if (!isDate(column)) return shown(value);
  const time = Math.round(value) * (column.kind === "date" ? 86400000 : 1000);
  return new Date(Math.min(Math.max(time, FIRST_DAY), LAST_DAY)).toISOString().slice(0, column.kind === "datetime" && step < DAY ? 19 : 10);
}

function path(points) {
  return points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
}

function bandPath(xs, lows, highs) {
  const up = xs.map((x, k) => [x, highs[k]]);
  const down = xs.map((x, k) => [x, lows[k]]).reverse();
  return path([...up, ...down]) + "Z";
}

function scaler(from, to, low, high) {
  // Halves first: to - from may overflow.
  const span = to / 2 - from / 2 || 1;
  return (value) => low + ((value / 2 - from / 2) / span) * (high - low);
}

function horizontalAxis(group, scale, ticks, { y, size, low, high }) {
  group.append(svg("line", { class: "axis", x1: low, x2: high, y1: y, y2: y }));
  for (const [tick, text] of ticks) {
    const x = scale(tick);
    group.append(svg("line", { class: "axis", x1: x, x2: x, y1: y, y2: y + 4 }));
    const near = x < low + 14 ? "start" : x > high - 14 ? "end" : "middle";
    group.append(svg("text", { x: near === "start" ? low : near === "end" ? high : x, y: y + 5 + size, "font-size": size, "text-anchor": near }, text));
  }
}

// The answer as a function of the centre of its first kernel.
function curveChart(points, { column, here, value, label, width }) {
  const height = 300, left = 52, right = width - 10, top = 14, bottom = 262;
  const x = scaler(points[0].at, points[points.length - 1].at, left, right);
  const lows = points.map((p) => p.low), highs = points.map((p) => p.high), values = points.map((p) => p.value);
  const room = Math.max(...values) - Math.min(...values) || 1;
  const least = Math.max(Math.min(...lows), Math.min(...values) - room), most = Math.min(Math.max(...highs), Math.max(...values) + room);
  const y = scaler(least, most, bottom, top);
  const inside = (v) => Math.max(top - 6, Math.min(bottom, y(v)));
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const tick of niceTicks(least, most, 4)) {
    drawn.append(svg("line", { class: "gridline", x1: left, x2: right, y1: y(tick), y2: y(tick) }));
    drawn.append(svg("text", { x: left - 8, y: y(tick) + 4.5, "font-size": 13, "text-anchor": "end" }, shown(tick, 3)));
  }
  const xs = points.map((p) => x(p.at));
  drawn.append(svg("path", { class: "band", d: bandPath(xs, lows.map(inside), highs.map(inside)) }));
  drawn.append(svg("path", { class: "line", d: path(points.map((p, k) => [xs[k], inside(p.value)])) }));
  drawn.append(svg("line", { class: "here", x1: x(here), x2: x(here), y1: top, y2: bottom }));
  drawn.append(svg("circle", { class: "dot", cx: x(here), cy: inside(value), r: 6 }));
  horizontalAxis(drawn, x, ticksOf(column, points[0].at, points[points.length - 1].at, width < 480 ? 4 : 6), { y: bottom, size: 13, low: left, high: right });
  return drawn;
}

// The rows of two columns: a port of scatter_chart of smoothsynth/report/charts.py.
function scatterChart(first, second) {
  const [left, right, top, bottom, most] = [96, 552, 10, 436, 65534];
  const x = scaler(0, most, left, right), y = scaler(0, most, bottom, top);
  const drawn = svg("svg", { viewBox: "0 0 560 484", role: "img", "aria-label": `Scatter of ${first.name} and ${second.name} in the synthetic rows` });
  for (const [at, text] of second.ticks) {
    drawn.append(svg("line", { class: "gridline", x1: left, x2: right, y1: y(at), y2: y(at) }));
    drawn.append(svg("text", { x: left - 7, y: y(at) + 4, "font-size": 12, "text-anchor": "end" }, shortened(text, 10)));
  }
  const [across, up] = [first, second].map((axis) => decoded(axis.points, Uint16Array));
  const dots = Array.from(across, (a, k) => (a > most || up[k] > most ? "" : `M${x(a).toFixed(1)} ${y(up[k]).toFixed(1)}h0`));
  drawn.append(svg("path", { class: "dots", d: dots.join("") }));
  horizontalAxis(drawn, x, first.ticks, { y: bottom, size: 12, low: left, high: right });
  drawn.append(svg("text", { class: "name", x: 324, y: 476, "font-size": 13, "text-anchor": "middle" }, shortened(first.name)));
  drawn.append(svg("text", { class: "name", transform: "translate(12 223) rotate(-90)", "font-size": 13, "text-anchor": "middle" }, shortened(second.name)));
  return drawn;
}

function shortened(name, most = 42) {
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}
