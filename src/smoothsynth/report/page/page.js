// The rest of the page: theme, pairs, sections. Charts of columns, questions and shares stand in the page already.

function startPage() {
  startTheme();
  startPairs();
  startExplorer();
  markSections();
  window.addEventListener("resize", () => { clearTimeout(startPage.resized); startPage.resized = setTimeout(ask, 120); });
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
  });
}

function half(values, i, j) {
  return i > j ? values[(i * (i - 1)) / 2 + j] : values[(j * (j - 1)) / 2 + i];
}

function visible(i, j) {
  const noise = half(RELEASE.noise, i, j);
  return noise !== null && Math.abs(half(RELEASE.correlations, i, j)) > 1.96 * noise;
}

function startPairs() {
  const across = document.getElementById("pair-x"), up = document.getElementById("pair-y"), caption = document.getElementById("matrix-caption");
  if (!across) return;
  for (const select of [across, up]) {
    select.value = select.dataset.chosen;
    select.addEventListener("change", drawScatter);
  }
  const choose = (i, j) => { across.value = i; up.value = j; drawScatter(); };
  document.querySelectorAll("[data-pair]").forEach((button) => button.addEventListener("click", () => choose(...button.dataset.pair.split(" "))));
  const matrix = document.getElementById("matrix");
  matrix.addEventListener("pointermove", (event) => { const [i, j] = cellAt(matrix, event); caption.textContent = pairWords(j, i); });
  matrix.addEventListener("click", (event) => { const [i, j] = cellAt(matrix, event); if (i !== j) choose(j, i); });
  document.getElementById("pair-caption").textContent = pairWords(Number(across.value), Number(up.value));
}

function cellAt(matrix, event) {
  const box = matrix.getBoundingClientRect(), count = RELEASE.axes.length;
  const scale = box.width / Number(matrix.dataset.width), margin = Number(matrix.dataset.margin) * scale;
  const place = (at, size) => Math.max(0, Math.min(count - 1, Math.floor((at / size) * count)));
  return [place(event.clientY - box.top, box.height), place(event.clientX - box.left - margin, box.width - margin)];
}

function pairWords(i, j) {
  const named = (a, b) => { const level = RELEASE.levels[a]?.[b]; return level ? `${RELEASE.axes[a].name} = ${level}` : RELEASE.axes[a].name; };
  if (i === j) return RELEASE.axes[i].name;
  const r = half(RELEASE.correlations, i, j), noise = half(RELEASE.noise, i, j);
  const sure = noise === null ? "this pair was not measured" : visible(i, j) ? `noise ± ${(1.96 * noise).toFixed(2)}` : `below the noise, ± ${(1.96 * noise).toFixed(2)}`;
  const real = RELEASE.private ? ` Private rows: ${half(RELEASE.private.correlations, i, j).toFixed(2)}.` : "";
  return `${named(i, j)} and ${named(j, i)}: correlation ${r.toFixed(2)} in the synthetic rows (${sure}).${real}`;
}

function drawScatter() {
  const i = Number(document.getElementById("pair-x").value), j = Number(document.getElementById("pair-y").value);
  document.getElementById("scatter").replaceChildren(scatterChart(RELEASE.axes[i], RELEASE.axes[j]));
  document.getElementById("pair-caption").textContent = pairWords(i, j);
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
