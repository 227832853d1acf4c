"use strict";
// The walk: open, check, plan, review, release, verify. Text only ever enters the page as text.

const by = (id) => document.getElementById(id);
let columns = [];
let file = {};
// The number of the table that the form is for, and the form as the studio knows it.
let opened = null;
let kept = "";

class Refused extends Error {
  constructor(answer) {
    super(answer.error || "The studio does not answer. Is it still running?");
    this.columns = answer.columns || {};
  }
}

async function ask(route, body) {
  const sent = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return answered(await reached(fetch(`api/${route}`, sent)));
}

async function reached(request) {
  try {
    return await request;
  } catch {
    throw new Refused({});
  }
}

async function answered(response) {
  const found = await response.json();
  if (!response.ok) throw new Refused(found);
  return found;
}

const pause = (time) => new Promise((done) => setTimeout(done, time));

// Begins with some work and tells how far it is until it is done.
async function work(route, body) {
  const done = await followed(await ask(route, body));
  if (body.form) kept = JSON.stringify(body.form);
  return done;
}

async function followed(job) {
  for (let wait = 60; job.state === "running"; wait = Math.min(500, wait * 1.3)) {
    tell(job.phase ? `${job.phase} …` : "working …", job.total ? job.done / job.total : null);
    await pause(wait);
    job = await ask(`job/${job.number}`);
  }
  if (job.state === "failed") throw new Refused(job);
  return job.result;
}

// A phase is announced once, however often its bar moves.
function tell(words, share) {
  const status = by("status"), bar = by("progress");
  if (status.textContent !== words) status.textContent = words;
  bar.hidden = share === undefined;
  if (share === null) bar.removeAttribute("value");
  else if (share !== undefined) bar.value = share;
}

// Does something with a button switched off; what goes wrong stands at its place.
async function attempt(place, act, button) {
  by(place).textContent = "";
  if (button) button.disabled = true;
  try {
    await act();
    return true;
  } catch (error) {
    tell("");
    by(place).textContent = error instanceof Refused ? error.message : "The page failed. Reload it; the form is kept as it was checked last.";
    if (!(error instanceof Refused)) console.error(error);
    else refuseColumns(error);
    return false;
  } finally {
    if (button) button.disabled = false;
  }
}

function refuseColumns({ columns: problems }) {
  // A column may be called constructor.
  const of = (column) => (Object.hasOwn(problems, column.name) ? problems[column.name] : "");
  const wrong = columns.map((column) => [column, column.refuse(of(column))]).filter(([column]) => of(column));
  if (wrong.length) {
    by("schema-error").textContent = wrong.length === 1 ? "1 column needs another look." : `${wrong.length} columns need another look.`;
    wrong[0][1].focus();
  }
}

function form() {
  return { columns: columns.map((column) => column.values), person: by("person").value, constraints: by("constraints").value, file, table: opened };
}

// 1. Table

function listFiles(names, chosen) {
  by("file").replaceChildren(...names.map((name) => element("option", {}, name)));
  if (chosen) by("file").value = chosen;
  if (!names.length) by("file").append(element("option", { value: "" }, "no table in this folder"));
}

// What the owner says of how the file is written; the rest is guessed.
const WRITTEN = ["delimiter", "encoding", "sheet"];

function saidOfFile() {
  return Object.fromEntries(WRITTEN.map((key) => [key, by(key).value.trim()]).filter(([, value]) => value));
}

async function openTable() {
  const { table, form: drafted } = await work("open", { name: by("file").value, file: saidOfFile() });
  showTable(table, drafted);
  tell(`Opened ${table.name}: ${table.columns.length} columns.`);
  by("schema").scrollIntoView();
  columns[0].box.querySelector("summary").focus({ preventScroll: true });
}

function showTable(table, given) {
  columns = table.columns.map((one, k) => new ColumnForm(given.columns[k], one.holds, one.findings, `column-${k}`));
  by("columns").replaceChildren(...columns.map((column) => column.box));
  const names = table.columns.map((one) => one.name);
  by("person").replaceChildren(element("option", { value: "" }, "none: each row is another person"), ...names.map((name) => element("option", { value: name }, name)));
  by("person").value = given.person;
  by("constraints").value = given.constraints;
  file = given.file;
  opened = given.table;
  kept = JSON.stringify(form());
  by("schema").hidden = false;
  for (const id of ["checked", "budget", "release"]) by(id).hidden = true;
}

async function upload(file) {
  tell(`copying ${file.name} …`, null);
  const sent = { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file };
  const { name } = await answered(await reached(fetch(`api/upload?name=${encodeURIComponent(file.name)}`, sent)));
  listFiles((await ask("state")).files, name);
  tell(`Copied ${file.name}. Open it.`);
  by("open").querySelector("button").focus();
}

// 2. Schema

async function check() {
  refuseColumns({ columns: {} });
  const { check: found, schema } = await work("check", { form: form() });
  showCheck(found);
  by("schema-text").textContent = schema;
  for (const id of ["checked", "budget", "release"]) by(id).hidden = false;
  showPictured();
  tell(found.passed ? "Checked." : "Checked: most cells of a column would be lost.");
  by("checked").focus();
  plan();
}

function showCheck(found) {
  const named = new Map(found.columns.map((one) => [one.name, one]));
  for (const column of columns) if (named.has(column.name)) column.show(named.get(column.name));
  by("check-words").textContent = found.in_words;
  by("check-words").className = found.passed ? "" : "bad";
  by("check-table").replaceChildren(checkTable(found));
}

function checkTable(found) {
  const share = (count, rows) => (count === null ? "" : percent(count / rows));
  const lines = found.columns.map((one) => [one.name, one.type, share(one.missing, one.rows), share(one.unreadable, one.rows), share(one.outside, one.rows), share(one.no_level, one.rows)]);
  return table(["Column", "Type", "Missing", "Unreadable", "Outside", "No level"], lines, "What a release would read, in shares of all cells (private)");
}

// The first cell of a line is its head; cells from the third on are numbers.
function table(heads, lines, label, from = 2) {
  const numeric = (k) => (k >= from ? { class: "number" } : {});
  const head = element("tr", {}, ...heads.map((text, k) => element("th", { scope: "col", ...numeric(k) }, text)));
  const cell = (text, k) => (k ? element("td", { ...numeric(k), "data-label": heads[k] }, text) : element("th", { scope: "row" }, text));
  const body = lines.map((line) => element("tr", {}, ...line.map(cell)));
  return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Table: ${label}` }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

// 3. Budget

function epsilon() {
  return Number(by("epsilon").value.trim().replace(",", ".") || "x");
}

function budget() {
  if (!Number.isFinite(epsilon())) throw new Refused({ error: "Epsilon must be a number, such as 1 or 0.5." });
  return { epsilon: epsilon(), delta: Number(by("delta").value), rows_per_person: Math.round(Number(by("persons").value)) || 0 };
}

let planned = 0;

// Only the newest question counts: answers that come late are thrown away.
async function plan() {
  const mine = ++planned;
  by("expected").setAttribute("aria-busy", "true");
  await pause(200);
  if (mine !== planned) return;
  await attempt("budget-error", async () => {
    tell("expecting errors …", null);
    const found = await ask("plan", { form: form(), ...budget(), column: by("pictured").value });
    if (mine !== planned) return;
    showPlan(found);
    tell("");
  });
  if (mine === planned) by("expected").removeAttribute("aria-busy");
}

function showPlan(found) {
  by("usual-delta").value = found.usual_delta;
  by("usual-delta").textContent = shown(found.usual_delta, 2);
  const lines = found.expected_errors.map((one) => [one.query, one.noise.toFixed(4), one.unseen.toFixed(4)]);
  const heads = ["The mean over all rows of …", "Standard error", "Residual sd"];
  by("expected").replaceChildren(element("h3", {}, `Expected errors, with ${found.rows.toLocaleString("en")} ${found.unit}`), table(heads, lines, "Expected errors", 1));
  by("plan-notes").replaceChildren(...found.notes.map((note) => element("li", {}, note)));
  drawPicture(found.picture);
}

function showPictured() {
  const chosen = by("pictured").value, names = columns.filter((column) => column.values.use).map((column) => column.name);
  by("pictured").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
  if (names.includes(chosen)) by("pictured").value = chosen;
}

function drawPicture(picture) {
  const place = by("picture").querySelector(".chart");
  place.replaceChildren(picture.kind === "shares" ? shareBars(picture) : noisyCurve(picture));
  by("picture-words").textContent = "The values are made up and public, not those of your rows: only the noise is that of the plan. " +
    "Dark band: noise, 95 %. Light band: with what is not measured of a shape as narrow as this one.";
}

function noisyCurve({ column, labels, values, noise, all }) {
  const width = 560, height = 230, bottom = 196, most = 1.6 * Math.max(...values);
  const xs = values.map((_, k) => 2 + (k / (values.length - 1)) * (width - 4)), y = scaler(0, most, bottom, 6);
  const inside = (value) => Math.max(6, Math.min(bottom, y(Math.max(0, value))));
  const band = (kind, half) => svg("path", { class: kind, d: bandPath(xs, values.map((v, k) => inside(v - half[k])), values.map((v, k) => inside(v + half[k]))) });
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Illustration of ${column}: made-up values, and a band of ${shown(Math.max(...noise) / Math.max(...values), 2)} of the highest point for noise` });
  drawn.append(band("band-all", all), band("band", noise), svg("path", { class: "line", d: path(values.map((v, k) => [xs[k], inside(v)])) }));
  drawn.append(svg("line", { class: "axis", x1: 2, x2: width - 2, y1: bottom, y2: bottom }));
  drawn.append(svg("text", { x: 2, y: bottom + 20, "font-size": 14 }, shortened(labels[0], 30)), svg("text", { x: width - 2, y: bottom + 20, "font-size": 14, "text-anchor": "end" }, shortened(labels[1], 30)));
  return drawn;
}

function shareBars({ column, labels, values, noise, all }) {
  const width = 560, line = 28, from = 170, to = width - 60, x = scaler(0, 1, from, to);
  const inside = (value) => Math.max(from, Math.min(to, x(value)));
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${labels.length * line + 4}`, role: "img", "aria-label": `Illustration of ${column}: made-up shares, with noise` });
  labels.forEach((label, k) => {
    const y = k * line, value = values[k];
    const bar = (kind, half, room) => svg("rect", { class: kind, x: inside(value - half), y: y + room, width: inside(value + half) - inside(value - half), height: line - 2 * room });
    drawn.append(svg("text", { x: from - 10, y: y + 19, "font-size": 14, "text-anchor": "end" }, shortened(label, 20)));
    drawn.append(bar("band-all", all[k], 5), bar("band", noise[k], 5), svg("line", { class: "line", x1: inside(value), x2: inside(value), y1: y + 3, y2: y + line - 3 }));
    drawn.append(svg("text", { x: width, y: y + 19, "font-size": 14, "text-anchor": "end" }, `${shown(100 * value, 2)} %`));
  });
  return drawn;
}

// 4. Release

let summary = null;

async function review() {
  const found = await work("review", { form: form(), ...budget(), folder: by("folder").value });
  refuseColumns({ columns: {} });
  showCheck(found.check);
  summary = found.passed ? found.summary : null;
  by("review-words").replaceChildren(...reviewed(found));
  by("spend").hidden = !found.passed;
  by("spend").textContent = `Release: spend epsilon = ${shown(found.cost.epsilon)}`;
  tell("");
  by("review").showModal();
  by("cancel").focus();
}

function reviewed(found) {
  const { epsilon, delta } = found.cost;
  const spent = `epsilon = ${shown(epsilon)}${delta ? `, delta = ${shown(delta, 2)}` : ""} for ${found.protects}, on ${found.charges.length} measurements of ${found.rows.toLocaleString("en")} ${found.unit}.`;
  const lost = losses(found.check);
  return [
    element("h3", {}, "Spent"),
    element("p", {}, found.passed ? `${spent} It cannot be taken back.` : "Nothing: this cannot be released."),
    element("p", {}, found.ledger ? `Left in the ledger now: ${found.ledger}.` : "No ledger is named: nobody adds up what other releases of the same rows spend."),
    element("h3", {}, "Lost"),
    element("p", found.passed ? {} : { class: "bad" }, found.check.in_words),
    ...(lost.length ? [element("ul", { class: "notes" }, ...lost.map((text) => element("li", {}, text)))] : []),
    element("h3", {}, "Written"),
    element("p", {}, `The folder ${found.folder}, made from ${found.table}; whole or not at all.`),
    ...found.notes.map((note) => element("p", { class: "note" }, note)),
  ];
}

// Every share that a release does not read as it stands is named.
function losses({ columns: found }) {
  return found.map((one) => [one.name, shares(one).slice(1)]).filter(([, parts]) => parts.length)
    .map(([name, parts]) => `${name}: ${parts.map((part) => `${percent(part.share)} ${part.name}`).join(", ")}`);
}

async function release() {
  const chosen = summary;
  summary = null;
  by("review").close();
  if (chosen === null) return;
  try {
    showReleased(await work("release", { summary: chosen }));
  } finally {
    // What was spent before a release failed is spent.
    ledger((await ask("state")).ledger);
  }
  tell("Released.");
  by("released").focus();
}

function showReleased(found) {
  by("released-words").textContent = `Spent epsilon = ${shown(found.epsilon)}${found.delta ? `, delta = ${shown(found.delta, 2)}` : ""}. Written to ${found.folder}: ${found.files.join(", ")}. ${found.outcome}`;
  by("released-warnings").replaceChildren(...found.warnings.map((text) => element("li", {}, text)));
  by("command-line").textContent = found.command_line;
  by("python").textContent = found.python;
  by("verified").replaceChildren();
  ledger(found.ledger);
  for (const id of ["release", "released", "again"]) by(id).hidden = false;
}

function ledger(left) {
  by("ledger-words").textContent = left ? `Left in the ledger: ${left}.` : "No ledger is named (smoothsynth studio --ledger FILE): add up yourself what releases of the same rows spend.";
}

async function verify() {
  const found = await work("verify", {});
  const lines = found.checks.map((one) => [one.name, one.outcome, one.sentence]);
  by("verified").replaceChildren(element("p", { class: found.passed ? "good" : "bad" }, found.summary), table(["Check", "Outcome", "What was found"], lines, "Checks of the release", 9));
  tell("Verified.");
  by("verified").focus();
}

// What is heard of.

function listen(id, event, act) {
  by(id).addEventListener(event, act);
}

function submitted(id, place, act) {
  listen(id, "submit", (event) => {
    event.preventDefault();
    attempt(place, act, event.submitter || by(id).querySelector("button"));
  });
}

function moved() {
  by("epsilon").value = by("epsilon-shown").textContent = String(Number((10 ** Number(by("slider").value)).toPrecision(2)));
  plan();
}

function written() {
  by("epsilon-shown").textContent = by("epsilon").value;
  if (epsilon() > 0) by("slider").value = String(Math.log10(epsilon()));
  plan();
}

async function start() {
  submitted("open", "table-error", openTable);
  listen("file", "change", () => WRITTEN.forEach((key) => (by(key).value = "")));
  submitted("columns-form", "schema-error", check);
  submitted("release-form", "release-error", review);
  listen("budget-form", "submit", (event) => event.preventDefault());
  listen("upload", "change", () => by("upload").files[0] && attempt("table-error", () => upload(by("upload").files[0]), by("upload")));
  listen("slider", "input", moved);
  listen("epsilon", "input", written);
  for (const id of ["delta", "persons", "pictured"]) listen(id, "input", plan);
  listen("cancel", "click", () => by("review").close());
  listen("review", "close", () => by("release-form").querySelector("button").focus());
  listen("spend", "click", () => attempt("release-error", release, by("spend")));
  listen("verify", "click", () => attempt("release-error", verify, by("verify")));
  listen("end", "click", () => attempt("table-error", end));
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(by(button.dataset.copy)));
  window.addEventListener("beforeunload", (event) => opened !== null && JSON.stringify(form()) !== kept && event.preventDefault());
  await attempt("table-error", restore);
}

async function restore() {
  const state = await ask("state");
  by("place").textContent = state.place;
  listFiles(state.files, state.table && state.table.name);
  ledger(state.ledger);
  if (state.table) showTable(state.table, state.form);
  if (state.released) showReleased(state.released);
  if (state.job) {
    await followed(state.job);
    tell("");
    await restore();
  }
}

async function copy(code) {
  await navigator.clipboard.writeText(code.textContent).then(() => tell("Copied."), () => tell("Mark the text and copy it yourself."));
}

async function end() {
  await ask("end", {});
  opened = null;
  document.querySelector("main").replaceChildren(element("h1", {}, "The studio has ended"), element("p", {}, "What was uploaded is deleted. You can close this page."));
  by("end").hidden = true;
  tell("The studio has ended.");
}

start();
