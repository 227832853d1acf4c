// The rest of the page: theme, columns, pairs, questions, shares.

function startPage() {
  startTheme();
  drawShares();
  drawQuestions();
  startPairs();
  startShapes();
  startExplorer();
  markSections();
  window.addEventListener("resize", () => { clearTimeout(startPage.resized); startPage.resized = setTimeout(redraw, 120); });
  window.addEventListener("beforeprint", () => { drawAllShapes(); printing(true); });
  window.addEventListener("afterprint", () => printing(false));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

// Canvases are pictures: for paper they are drawn in the colours of paper.
function printing(starts) {
  const root = document.documentElement;
  if (starts) {
    printing.theme = root.dataset.theme;
    root.dataset.theme = "light";
  } else if (printing.theme) root.dataset.theme = printing.theme;
  else delete root.dataset.theme;
  redraw();
}

function redraw() {
  ask();
  drawScatter();
  drawMatrix();
}

function startTheme() {
  const button = document.getElementById("theme"), root = document.documentElement;
  const themes = ["automatic", "light", "dark"];
  let chosen = 0;
  button.hidden = false;
  button.addEventListener("click", () => {
    chosen = (chosen + 1) % themes.length;
    if (chosen) root.dataset.theme = themes[chosen];
    else delete root.dataset.theme;
    button.textContent = `Theme: ${themes[chosen]}`;
    redraw();
  });
}

function drawShares() {
  const words = RELEASE.shares.map((share) => `${(100 * share).toPrecision(3)} %`).join(", ");
  document.getElementById("shares").append(sharesChart(RELEASE.shares, `Shares of the budget, in the order of the table: ${words}`));
}

function drawQuestions() {
  const truths = RELEASE.private ? RELEASE.private.answers : [];
  document.querySelectorAll("[data-question]").forEach((cell) => {
    const k = Number(cell.dataset.question), { value, low, high, reach } = RELEASE.questions[k];
    const label = `${shown(value)} within ${shown(low)} to ${shown(high)}, of what could be from ${shown(reach[0])} to ${shown(reach[1])}`;
    const [from, to] = [Math.min(reach[0], low), Math.max(reach[1], high)];
    cell.append(intervalChart({ value, low, high, from, to, truth: truths[k], label }));
  });
}

const shapesToDraw = [];

function startShapes() {
  const holder = document.getElementById("shapes");
  COLUMNS.forEach((column, c) => {
    const figure = element("figure", {}, element("h3", {}, column.name), element("div", { class: "chart" }), element("figcaption", {}, "…"));
    holder.append(figure);
    shapesToDraw.push(() => drawShape(figure, column, c));
  });
  RELEASE.others.forEach((column, k) => holder.append(plainFigure(column, RELEASE.private ? RELEASE.private.others[k] : null)));
  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 20));
  const next = () => { if (shapesToDraw.length) { shapesToDraw.shift()(); idle(next); } };
  idle(next);
}

// A column that is not asked about: shares at its levels or in bins, and how much is missing.
function plainFigure(column, real) {
  const truth = real && real.missing !== null ? ` Private rows: ${shown(100 * real.missing, 2)} % missing or no level.` : "";
  const missing = (column.missing === null ? "" : ` Missing: ${shown(100 * column.missing, 2)} %.`) + truth;
  const drawn = { ...column, real: real && real.shares };
  const chart = element("div", { class: "chart" }, column.kind === "category" ? levelsChart(drawn) : binsChart(drawn));
  const words = column.kind === "category" ? "Share of rows; the line is its noise (95 %), where the share was measured." : `${column.labels[0]} to ${column.labels[column.labels.length - 1]}.`;
  return element("figure", {}, element("h3", {}, column.name), chart, element("figcaption", {}, words + missing));
}

function drawAllShapes() {
  while (shapesToDraw.length) shapesToDraw.shift()();
}

function drawShape(figure, column, c) {
  const bins = column.counts.length, step = (column.high - column.low) / bins;
  const edges = Array.from({ length: bins + 1 }, (_, k) => toOwnUnits(column, column.low + k * step));
  const total = RELEASE.rows.rows;
  const bars = column.counts.map((count) => count / (total * step));
  const places = Array.from({ length: 49 }, (_, k) => column.low + (k / 48) * (column.high - column.low));
  const area = column.width * Math.sqrt(Math.PI), width = column.width * halfWidth(column);
  const kernel = (place) => (table) => each((v) => Math.exp(-(((v - place) / width) ** 2)), [table(column.name)]);
  const [average, ...answers] = [(table) => table(column.name), ...places.map((place) => kernel(toOwnUnits(column, place)))].map((f) => intervalOf([c], f));
  const curve = answers.map((a, k) => ({ at: toOwnUnits(column, places[k]), value: a.value / area, low: a.low / area, high: a.high / area }));
  const real = RELEASE.private ? RELEASE.private.curves[c].map((value) => value / area) : null;
  const label = `Distribution of ${column.name}: synthetic rows and 95 % band`;
  const truths = { name: column.name, labels: ["true", "false"], shares: [average.value, 1 - average.value], noise: [1, 1].map(() => (average.high - average.low) / 2 / 1.96) };
  if (RELEASE.private) truths.real = [RELEASE.private.means[c], 1 - RELEASE.private.means[c]];
  figure.querySelector(".chart").replaceChildren(column.kind === "boolean" ? levelsChart(truths) : columnChart({ edges }, { bars, curve, real, label }));
  const room = (average.high - average.low) / 2;
  figure.querySelector("figcaption").textContent = `Mean ${shownWith(average.value, room)} (${shownWith(average.low, room)} to ${shownWith(average.high, room)}). Bounds ${shown(column.lower)} to ${shown(column.upper)}.`;
}

function half(values, i, j) {
  return i > j ? values[(i * (i - 1)) / 2 + j] : values[(j * (j - 1)) / 2 + i];
}

function visible(i, j) {
  const noise = half(RELEASE.noise, i, j);
  return noise !== null && Math.abs(half(RELEASE.correlations, i, j)) > 1.96 * noise;
}

function startPairs() {
  const across = document.getElementById("pair-x"), up = document.getElementById("pair-y");
  if (!across) return;
  for (const select of [across, up]) {
    COLUMNS.forEach((column, c) => select.append(element("option", { value: c }, column.name)));
    select.value = select.dataset.chosen;
    select.addEventListener("change", drawScatter);
  }
  const choose = (i, j) => { across.value = i; up.value = j; drawScatter(); };
  document.querySelectorAll("[data-pair]").forEach((button) => button.addEventListener("click", () => choose(...button.dataset.pair.split(" "))));
  const canvas = document.getElementById("matrix");
  canvas.addEventListener("pointermove", (event) => { const [i, j] = cellAt(canvas, event); document.getElementById("matrix-caption").textContent = pairWords(j, i); });
  canvas.addEventListener("click", (event) => { const [i, j] = cellAt(canvas, event); if (i !== j) choose(j, i); });
  drawScatter();
  drawMatrix();
}

function cellAt(canvas, event) {
  const box = canvas.getBoundingClientRect(), last = COLUMNS.length - 1;
  const { margin, width } = drawMatrix.placed, scale = box.width / width;
  const place = (at) => Math.max(0, Math.min(last, Math.floor((at / scale / (width - margin)) * COLUMNS.length)));
  return [place(event.clientY - box.top), place(event.clientX - box.left - margin * scale)];
}

function pairWords(i, j) {
  if (i === j) return COLUMNS[i].name;
  const r = half(RELEASE.correlations, i, j), noise = half(RELEASE.noise, i, j);
  const sure = noise === null ? "this pair was not measured" : visible(i, j) ? `noise ± ${(1.96 * noise).toFixed(2)}` : `below the noise, ± ${(1.96 * noise).toFixed(2)}`;
  const real = RELEASE.private ? ` Private rows: ${half(RELEASE.private.correlations, i, j).toFixed(2)}.` : "";
  return `${COLUMNS[i].name} and ${COLUMNS[j].name}: correlation ${r.toFixed(2)} in the synthetic rows (${sure}).${real}`;
}

function drawScatter() {
  const canvas = document.getElementById("scatter");
  if (!canvas) return;
  const i = Number(document.getElementById("pair-x").value), j = Number(document.getElementById("pair-y").value);
  const range = (c) => [COLUMNS[c].low, COLUMNS[c].high].map((x) => toOwnUnits(COLUMNS[c], x));
  const step = Math.max(1, Math.ceil(ROWS / 8000)), every = (values) => values.filter((_, k) => k % step === 0);
  scatter(canvas, every(valuesOf(i)), every(valuesOf(j)), { xRange: range(i), yRange: range(j), xName: COLUMNS[i].name, yName: COLUMNS[j].name });
  document.getElementById("pair-caption").textContent = pairWords(i, j);
}

function drawMatrix() {
  const canvas = document.getElementById("matrix");
  if (!canvas) return;
  const real = RELEASE.private ? (i, j) => half(RELEASE.private.correlations, i, j) : null;
  drawMatrix.placed = matrix(canvas, { names: COLUMNS.map((column) => column.name), value: (i, j) => (i === j ? 1 : half(RELEASE.correlations, i, j)), visible, real });
}

function markSections() {
  const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.getAttribute("href").slice(1), link]));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-30% 0px -60% 0px" });
  document.querySelectorAll("main section").forEach((section) => watcher.observe(section));
}

startPage();
