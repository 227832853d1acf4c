// The explorer: sliders write an expression, the expression is answered, and the curve moves the first centre.

const CURVE_CENTRES = 61;
const explorer = { kernels: [], typed: false, pending: 0 };

function startExplorer() {
  const ready = document.getElementById("stored"), box = document.getElementById("expression");
  box.addEventListener("input", () => { explorer.typed = true; later(); });
  ready.addEventListener("change", () => { if (ready.value) { box.value = ready.value; explorer.typed = true; later(); } });
  document.getElementById("explorer").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("kernels").parentElement.hidden = !COLUMNS.length;
  if (!COLUMNS.length) {
    explorer.typed = true;
    box.value = RELEASE.stored[0]?.expression || "";
    return later();
  }
  for (let k = 0; k < Math.min(3, COLUMNS.length); k++) explorer.kernels.push({ column: k === 0 ? 0 : null, centre: 0, width: 0 });
  explorer.kernels.forEach(drawKernel);
  resetKernel(0);
  fromSliders();
}

function drawKernel(kernel, k) {
  const holder = element("div", { class: "kernel" });
  const select = element("select", { id: `column-${k}` });
  if (k) select.append(element("option", { value: "" }, "none"));
  COLUMNS.forEach((column, c) => select.append(element("option", { value: c }, column.name)));
  select.value = kernel.column === null ? "" : kernel.column;
  const sliders = element("div", { id: `sliders-${k}` }, slider(k, "centre"), slider(k, "width"));
  sliders.hidden = kernel.column === null;
  holder.append(element("label", { for: `column-${k}` }, k ? `Column ${k + 1} (may be left out)` : "Column 1"), select, sliders);
  document.getElementById("kernels").append(holder);
  select.addEventListener("change", () => {
    kernel.column = select.value === "" ? null : Number(select.value);
    sliders.hidden = kernel.column === null;
    if (kernel.column !== null) resetKernel(k);
    fromSliders();
  });
}

function slider(k, what) {
  const id = `${what}-${k}`;
  const input = element("input", { type: "range", id, min: 0, max: 200, step: 1 });
  input.addEventListener("input", () => { readSlider(k, what, Number(input.value)); fromSliders(); });
  const label = `${what === "centre" ? "Centre" : "Width"}`;
  return element("div", { class: "slider" }, element("label", { for: id }, label), element("output", { id: `${id}-shown`, for: id }), input);
}

// The centre runs over the shown range, the width over powers of two around that of the column's curve.
function readSlider(k, what, place) {
  const kernel = explorer.kernels[k], shape = COLUMNS[kernel.column];
  kernel[what] = what === "centre" ? shape.low + (place / 200) * (shape.high - shape.low) : shape.width * 2 ** (place / 40 - 1);
}

function resetKernel(k) {
  const kernel = explorer.kernels[k], shape = COLUMNS[kernel.column];
  const average = mean(valuesOf(kernel.column).map((value) => toPlace(shape, value)));
  const place = Math.round(200 * Math.min(1, Math.max(0, (average - shape.low) / (shape.high - shape.low))));
  document.getElementById(`centre-${k}`).value = place;
  document.getElementById(`width-${k}`).value = 80;
  readSlider(k, "centre", place);
  readSlider(k, "width", 80);
}

// Numbers as they are written into the expression: few digits, but enough to tell slider steps apart.
function written(value, step) {
  const digits = Math.max(0, Math.min(15, Math.ceil(-Math.log10(step)) + 1));
  const size = Math.abs(value);
  return size >= 1e15 || (size < 1e-6 && size > 0) || step < 1e-12 ? Number(value.toPrecision(5)).toString() : Number(value.toFixed(digits)).toString();
}

function kernelTexts() {
  return explorer.kernels.filter((kernel) => kernel.column !== null).map((kernel) => {
    const column = COLUMNS[kernel.column], step = (halfWidth(column) * (column.high - column.low)) / 200;
    const place = toOwnUnits(column, kernel.centre), centre = isDate(column) ? textOf(column, place, step) : written(place, step);
    const width = Number((kernel.width * halfWidth(column)).toPrecision(3)).toString();
    return { c: kernel.column, column, centre, width, at: isDate(column) ? dateNumber(column, centre) : Number(centre) };
  });
}

function kernelExpression(texts) {
  return `avg(exp(${texts.map((t) => `-power((${quoted(t.column.name)} - ${isDate(t.column) ? `'${t.centre}'` : t.centre.startsWith("-") ? `(${t.centre})` : t.centre}) / ${t.width}, 2)`).join(" ")}))`;
}

function fromSliders() {
  explorer.typed = false;
  document.getElementById("stored").value = "";
  const texts = kernelTexts();
  let k = 0;
  explorer.kernels.forEach((kernel, slot) => {
    if (kernel.column === null) return;
    document.getElementById(`centre-${slot}-shown`).textContent = isDate(texts[k].column) ? texts[k].centre : shown(Number(texts[k].centre));
    document.getElementById(`width-${slot}-shown`).textContent = shown(Number(texts[k].width));
    k += 1;
  });
  document.getElementById("expression").value = kernelExpression(texts);
  later();
}

// At most one answer for each picture of the screen; typing waits a little longer.
function later() {
  clearTimeout(explorer.pending);
  explorer.pending = setTimeout(() => requestAnimationFrame(ask), explorer.typed ? 180 : 0);
}

function ask() {
  const box = document.getElementById("expression"), text = box.value;
  if (!text && !COLUMNS.length) return;
  const problem = document.getElementById("expression-error");
  try {
    const answer = storedAnswer(text) || answerExpression(text);
    problem.textContent = "";
    box.removeAttribute("aria-invalid");
    showAnswer(text, answer);
    showCurve(answer);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    problem.textContent = error.message;
    box.setAttribute("aria-invalid", "true");
  }
}

// Answers of the library that stand in the page: to questions that its script cannot answer.
function storedAnswer(text) {
  const found = RELEASE.stored.find((one) => one.expression === text.trim());
  return found && { ...found, how: found.unseen_is };
}

function showAnswer(text, answer) {
  const half = (answer.high - answer.low) / 2, column = { kind: answer.scale || "number" };
  const written = (value) => (isDate(column) ? textOf(column, value, half) : shownWith(value, half));
  document.getElementById("asked").textContent = text.trim();
  document.getElementById("value").textContent = written(answer.value);
  document.getElementById("value").dataset.exact = answer.value;
  const interval = document.getElementById("interval");
  interval.textContent = `${100 * answer.confidence} % interval: ${written(answer.low)} to ${written(answer.high)}`;
  interval.dataset.low = answer.low;
  interval.dataset.high = answer.high;
  const parts = document.getElementById("parts");
  const unit = { date: " days", datetime: " seconds" }[answer.scale] || "";
  const plusMinus = (size) => `± ${shown(size, 2)}${unit}`;
  const sizes = [["from noise", plusMinus(answer.noise)], [`from what was not measured (${answer.how})`, plusMinus(answer.unseen)], ["from drawing rows", plusMinus(answer.sampling)], ["known difference to the released numbers", `${shown(answer.fit, 2)}${unit}`]];
  parts.replaceChildren(...sizes.map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text))));
  const note = document.getElementById("answer-note");
  const notes = [...KIND_NOTES[answer.kind], answer.note, ...heldNote()].filter(Boolean);
  note.hidden = notes.length === 0;
  note.textContent = notes.join(" ");
  document.getElementById("command").textContent =
    `smoothsynth answer out/ '${text.trim().replaceAll("'", "'\\''")}'\n\nimport smoothsynth as ss\nss.load("out/").answer(${JSON.stringify(text.trim())})`;
}

const KIND_NOTES = {
  smooth: [],
  linearised: [],
  envelopes: ["The question has jumps, so it was put between two smooth ones, and the interval holds for both."],
};

function heldNote() {
  const { held, rows, encoding } = RELEASE.rows;
  if (held === rows && encoding === "float64") return [];
  const some = held < rows ? `from ${held.toLocaleString("en")} of ${rows.toLocaleString("en")} synthetic rows` : "from all synthetic rows";
  return [`This page answers ${some}, rounded to 65,536 places between the bounds; the command below takes all rows as they are.`];
}

function showCurve(answer) {
  const holder = document.getElementById("curve"), caption = document.getElementById("curve-caption");
  if (explorer.typed) {
    holder.replaceChildren();
    caption.textContent = "";
    return;
  }
  const texts = kernelTexts(), first = texts[0], places = [];
  for (let k = 0; k < CURVE_CENTRES; k++) places.push(toOwnUnits(first.column, first.column.low + (k / (CURVE_CENTRES - 1)) * (first.column.high - first.column.low)));
  // The other kernels do not move: their product is computed once for each table.
  const others = new Map();
  const fixed = (table) => {
    if (!others.has(table)) others.set(table, texts.slice(1).map((t) => each((v) => -(((v - t.at) / Number(t.width)) ** 2), [table(t.column.name)])).reduce((a, b) => each((x, y) => x + y, [a, b]), 0));
    return others.get(table);
  };
  const kernel = (place) => (table) => each((v, rest) => Math.exp(rest - ((v - place) / Number(first.width)) ** 2), [table(first.column.name), fixed(table)]);
  const answers = places.map((place) => intervalOf([...new Set(texts.map((t) => t.c))].sort((a, b) => a - b), kernel(place)));
  const points = answers.map((a, k) => ({ at: places[k], ...a }));
  const label = `The answer for every centre of ${first.column.name}, with its interval`;
  holder.replaceChildren(curveChart(points, { column: first.column, here: first.at, value: answer.value, label, width: Math.max(280, holder.clientWidth) }));
  caption.textContent = `The answer (line) and its ${100 * answer.confidence} % interval (band) for every centre in ${first.column.name}.`;
}
