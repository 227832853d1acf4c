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
  for (const tick of ticks) {
    const x = scale(tick);
    group.append(svg("line", { class: "axis", x1: x, x2: x, y1: y, y2: y + 4 }));
    const near = x < low + 14 ? "start" : x > high - 14 ? "end" : "middle";
    group.append(svg("text", { x: near === "start" ? low : near === "end" ? high : x, y: y + 5 + size, "font-size": size, "text-anchor": near }, shown(tick)));
  }
}

// One column: bars of the synthetic rows, the smooth curve with its band; the real rows' curve on an owner's page.
function columnChart(shape, { bars, curve, real, label }) {
  const width = 300, height = 132, bottom = 104;
  const x = scaler(shape.edges[0], shape.edges[shape.edges.length - 1], 2, width - 2);
  // A spike must not flatten the curve, nor a wide band its line.
  const most = Math.max(...curve.map((p) => p.value), ...(real || []));
  const tops = [...bars.map((bar) => Math.min(bar, 2.5 * most)), ...curve.map((p) => Math.min(p.high, 2 * most))];
  const y = scaler(0, Math.max(...tops) * 1.04 || 1, bottom, 4);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const clipped = (value) => Math.max(2, Math.min(bottom, y(Math.max(0, value))));
  bars.forEach((bar, k) => {
    const left = x(shape.edges[k]), right = x(shape.edges[k + 1]);
    drawn.append(svg("rect", { class: "bars", x: left.toFixed(2), y: clipped(bar).toFixed(2), width: Math.max(0.5, right - left - 0.8).toFixed(2), height: (bottom - clipped(bar)).toFixed(2) }));
  });
  const xs = curve.map((p) => x(p.at));
  drawn.append(svg("path", { class: "band", "fill-opacity": 0.75, d: bandPath(xs, curve.map((p) => clipped(p.low)), curve.map((p) => clipped(p.high))) }));
  drawn.append(svg("path", { class: "line", d: path(curve.map((p, k) => [xs[k], clipped(p.value)])) }));
  if (real) drawn.append(svg("path", { class: "real-line", d: path(real.map((v, k) => [xs[k], clipped(v)])) }));
  horizontalAxis(drawn, x, niceTicks(shape.edges[0], shape.edges[shape.edges.length - 1], 4), { y: bottom, size: 11, low: 2, high: width - 2 });
  return drawn;
}

// A category: a bar for each of its most frequent levels.
function levelsChart({ name, labels, shares, noise, real }) {
  const width = 300, line = 19, from = 118, to = width - 44, most = Math.max(...shares, ...(real || []), 1e-9);
  const x = scaler(0, most, from, to);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${labels.length * line + 4}`, role: "img", "aria-label": `Shares of the levels of ${name}` });
  labels.forEach((label, k) => {
    const y = k * line, share = shares[k], room = noise[k] === null ? 0 : 1.96 * noise[k];
    drawn.append(svg("text", { x: from - 6, y: y + 13, "font-size": 11, "text-anchor": "end" }, shortened(label, 18)));
    drawn.append(svg("rect", { class: "level", x: from, y: y + 4, width: Math.max(0.5, x(share) - from), height: line - 8 }));
    if (room) drawn.append(svg("line", { class: "here", x1: Math.max(from, x(share - room)), x2: Math.min(to + 6, x(share + room)), y1: y + line / 2, y2: y + line / 2 }));
    if (real) drawn.append(svg("line", { class: "real-line", x1: x(real[k]), x2: x(real[k]), y1: y + 1, y2: y + line - 1 }));
    drawn.append(svg("text", { x: width, y: y + 13, "font-size": 11, "text-anchor": "end" }, `${shown(100 * share, 2)} %`));
  });
  return drawn;
}

// Bins between two bounds, without a band.
function binsChart({ name, shares, labels, real }) {
  const width = 300, bottom = 104, step = (width - 4) / shares.length, most = Math.max(...shares, ...(real || []), 1e-9);
  const drawn = svg("svg", { viewBox: `0 0 ${width} 112`, role: "img", "aria-label": `Distribution of ${name} from ${labels[0]} to ${labels[labels.length - 1]}` });
  shares.forEach((share, k) => {
    const height = (share / most) * 98;
    drawn.append(svg("rect", { class: "level", x: 2 + k * step, y: bottom - height, width: step - 0.8, height }));
  });
  const steps = (real || []).flatMap((share, k) => [k, k + 1].map((at) => [2 + at * step, bottom - (share / most) * 98]));
  if (real) drawn.append(svg("path", { class: "real-line", d: path(steps) }));
  drawn.append(svg("line", { class: "axis", x1: 2, x2: width - 2, y1: bottom, y2: bottom }));
  return drawn;
}

// The answer as a function of the centre of its first kernel.
function curveChart(points, { here, value, label, width }) {
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
  horizontalAxis(drawn, x, niceTicks(points[0].at, points[points.length - 1].at, width < 480 ? 4 : 6), { y: bottom, size: 13, low: left, high: right });
  return drawn;
}

// An interval on a line, with the value as a dot; the true value too on an owner's page.
function intervalChart({ value, low, high, from, to, truth, label }) {
  const width = 240, height = 22;
  const x = scaler(from, to, 8, width - 8);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  drawn.append(svg("line", { class: "gridline", x1: 0, x2: width, y1: 11, y2: 11 }));
  drawn.append(svg("rect", { class: "band", x: x(low), y: 6, width: Math.max(1, x(high) - x(low)), height: 10, rx: 2 }));
  drawn.append(svg("circle", { class: "dot", cx: x(value), cy: 11, r: 5 }));
  if (truth !== undefined) drawn.append(svg("path", { class: "real-dot", d: `M${x(truth)} 5l4 6l-4 6l-4-6Z` }));
  return drawn;
}

// Shares of the budget as one bar.
function sharesChart(shares, label) {
  const drawn = svg("svg", { viewBox: "0 0 720 34", role: "img", "aria-label": label, preserveAspectRatio: "none" });
  let start = 0;
  shares.forEach((share, k) => {
    drawn.append(svg("rect", { class: `share-${k % 4}`, x: start * 720, y: 4, width: Math.max(0, share * 720 - 2), height: 22 }));
    start += share;
  });
  return drawn;
}

// A canvas as sharp as the screen, and its drawing context in CSS pixels.
function prepared(canvas, width, height) {
  const ratio = Math.max(2, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.clearRect(0, 0, width, height);
  return context;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function scatter(canvas, xs, ys, { xRange, yRange, xName, yName }) {
  const width = Math.min(560, canvas.parentElement.clientWidth), height = Math.round(width * 0.86);
  const context = prepared(canvas, width, height);
  const left = 58, bottom = height - 44, right = width - 8, top = 10;
  const x = scaler(xRange[0], xRange[1], left, right), y = scaler(yRange[0], yRange[1], bottom, top);
  context.font = `12px ${colour("--sans")}`;
  context.strokeStyle = colour("--grid");
  context.fillStyle = colour("--soft");
  for (const tick of niceTicks(xRange[0], xRange[1], width < 420 ? 4 : 6)) {
    context.beginPath(); context.moveTo(x(tick), top); context.lineTo(x(tick), bottom); context.stroke();
    context.textAlign = "center"; context.fillText(shown(tick), Math.min(x(tick), right - 12), bottom + 17);
  }
  for (const tick of niceTicks(yRange[0], yRange[1], 5)) {
    context.beginPath(); context.moveTo(left, y(tick)); context.lineTo(right, y(tick)); context.stroke();
    context.textAlign = "right"; context.fillText(shown(tick), left - 7, y(tick) + 4);
  }
  context.fillStyle = colour("--ink");
  context.textAlign = "center"; context.fillText(shortened(xName), (left + right) / 2, height - 6, right - left);
  context.save(); context.translate(11, (top + bottom) / 2); context.rotate(-Math.PI / 2);
  context.fillText(shortened(yName), 0, 0, bottom - top); context.restore();
  context.fillStyle = colour("--accent");
  context.globalAlpha = Math.max(0.08, Math.min(0.55, 250 / Math.sqrt(xs.length) / 14));
  const size = xs.length > 4000 ? 1.3 : 2.1;
  for (let k = 0; k < xs.length; k++) {
    if (xs[k] < xRange[0] || xs[k] > xRange[1] || ys[k] < yRange[0] || ys[k] > yRange[1]) continue;
    context.beginPath(); context.arc(x(xs[k]), y(ys[k]), size, 0, 7); context.fill();
  }
  context.globalAlpha = 1;
}

function shortened(name, most = 42) {
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

// Lower half: synthetic rows; what does not stand above its noise is grey. Upper half: real rows, for the owner.
// Returns where the cells begin and how wide all of them are.
function matrix(canvas, { names, value, visible, real }) {
  const size = names.length, width = Math.min(600, 96 + 64 * size, canvas.parentElement.clientWidth);
  const margin = (width - 96) / size >= 11 ? 96 : 0, cell = (width - margin) / size;
  const context = prepared(canvas, width, width - margin);
  const plus = colour("--accent"), minus = colour("--negative"), muted = colour("--muted"), paper = colour("--paper");
  const gap = cell > 6 ? 1 : 0;
  for (let i = 0; i < size; i++) {
    if (margin) {
      context.globalAlpha = 1;
      context.font = `11px ${colour("--sans")}`;
      context.fillStyle = colour("--soft");
      context.textAlign = "right";
      context.fillText(shortened(names[i], 17), margin - 6, (i + 0.5) * cell + 4, margin - 8);
    }
    for (let j = 0; j < size; j++) {
      const upper = real && j > i, r = upper ? real(i, j) : value(i, j);
      const seen = upper || i === j || visible(i, j), box = [margin + j * cell, i * cell, cell - gap, cell - gap];
      context.globalAlpha = 1;
      context.fillStyle = seen ? paper : muted;
      context.fillRect(...box);
      if (!seen) continue;
      context.globalAlpha = i === j ? 0.35 : Math.min(1, 0.06 + Math.abs(r));
      context.fillStyle = i === j ? colour("--soft") : r >= 0 ? plus : minus;
      context.fillRect(...box);
    }
  }
  context.globalAlpha = 1;
  return { margin, width };
}
