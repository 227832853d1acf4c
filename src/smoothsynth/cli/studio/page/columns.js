"use strict";
// The columns of the schema: a form for each, beside what was found in its cells.

const KINDS = ["number", "integer", "category", "boolean", "date", "datetime"];
// Which types have a field, how it is called, and whether it is one of those that say how cells are written.
const FIELDS = {
  lower: { label: "Smallest value (public)", on: ["number", "integer", "date", "datetime"] },
  upper: { label: "Largest value (public)", on: ["number", "integer", "date", "datetime"] },
  levels: { label: "Levels (public), one on each line", on: ["category"], lines: 4, wide: true },
  other: { label: "Level for all other cells", on: ["category"] },
  decimal: { label: "Decimal sign", on: ["number", "integer"], choices: { "": "as it stands", ",": "comma 1,5", ".": "point 1.5" }, written: true },
  date_format: { label: "How days are written, one on each line", on: ["date", "datetime"], lines: 2, written: true },
  null_values: { label: "Cells that mean missing, one on each line", on: KINDS, lines: 2, written: true },
  more: { label: "Further lines of the schema file", on: KINDS, lines: 2, placeholder: 'unit = "kg"', written: true },
};
const HINTS = { number: ["such as 0", "such as 250"], integer: ["such as 0", "such as 120"], date: ["YYYY-MM-DD", "YYYY-MM-DD"], datetime: ["YYYY-MM-DDThh:mm", "YYYY-MM-DDThh:mm"] };

class ColumnForm {
  constructor(values, holds, findings, key) {
    this.name = values.name;
    this.key = key;
    this.inputs = {};
    this.groups = {};
    this.build(values, holds);
    this.showFindings(findings, holds);
    this.adapt();
  }

  build(values, holds) {
    this.state = element("span", { class: "state" });
    this.kind = element("span", { class: "kind" });
    this.error = element("p", { class: "error", id: `${this.key}-error`, role: "alert" });
    this.fields = element("div", { class: "fields", role: "group", "aria-label": `Description of ${this.name}` });
    this.preview = element("div", { class: "preview", role: "group", "aria-label": `Private cells of ${this.name}` });
    const made = Object.fromEntries(Object.entries(FIELDS).map(([field, about]) => [field, this.field(field, about, values)]));
    const groups = (written) => Object.keys(FIELDS).filter((field) => Boolean(FIELDS[field].written) === written).map((field) => made[field]);
    this.written = element("details", { class: "wide" }, element("summary", {}, "How cells are written, and more"), element("div", { class: "fields" }, ...groups(true)));
    this.written.open = Object.keys(FIELDS).some((field) => FIELDS[field].written && values[field]);
    const type = this.choice("type", "Type", Object.fromEntries(KINDS.map((kind) => [kind, kind])), values);
    const secret = this.switch("private", "Nobody knows them: a release finds them, for a share of the budget", values);
    const nullable = this.switch("nullable", "Missing cells mean something: measure them", values);
    this.fields.append(this.switch("use", "Release this column", values), type, ...groups(false), this.error, secret, nullable, this.written);
    this.box = element("details", { class: "column" }, element("summary", {}, element("span", { class: "name" }, this.name), this.kind, this.state), element("div", { class: "inside" }, this.fields, this.preview));
    this.box.open = values.use;
    this.box.addEventListener("input", () => this.change());
  }

  field(field, about, values) {
    return about.choices ? this.choice(field, about.label, about.choices, values) : this.text(field, about, values);
  }

  group(field, children, wide) {
    const group = element("div", wide ? { class: "wide" } : {}, ...children);
    this.groups[field] = group;
    return group;
  }

  switch(field, label, values) {
    const input = element("input", { type: "checkbox", id: `${this.key}-${field}` });
    input.checked = values[field];
    this.inputs[field] = input;
    return this.group(field, [element("label", { class: "switch" }, input, label)], true);
  }

  choice(field, label, choices, values) {
    const options = Object.entries(choices).map(([value, words]) => element("option", { value }, words));
    const input = element("select", { id: `${this.key}-${field}`, "aria-describedby": `${this.key}-error` }, ...options);
    input.value = values[field];
    this.inputs[field] = input;
    return this.group(field, [element("label", { for: input.id }, label), input]);
  }

  text(field, { label, lines, wide, placeholder }, values) {
    const known = { id: `${this.key}-${field}`, spellcheck: "false", "aria-describedby": `${this.key}-error`, placeholder: placeholder || "" };
    const input = lines ? element("textarea", { ...known, rows: lines }) : element("input", { ...known, type: "text" });
    input.value = values[field];
    this.inputs[field] = input;
    return this.group(field, [element("label", { for: input.id }, label), input], wide);
  }

  get values() {
    const read = ([field, input]) => [field, input.type === "checkbox" ? input.checked : input.value];
    return { name: this.name, ...Object.fromEntries(Object.entries(this.inputs).map(read)) };
  }

  set(fields) {
    for (const [field, value] of Object.entries(fields)) {
      const input = this.inputs[field];
      if (!input) continue;
      if (FIELDS[field] && FIELDS[field].written) this.written.open = true;
      if (input.type === "checkbox") input.checked = value;
      else input.value = value;
    }
    const levels = this.inputs.levels.value.split("\n").map((line) => line.trim()).filter(Boolean);
    const other = fields.other;
    if (other && !levels.includes(other)) this.inputs.levels.value = [...levels, other].join("\n");
    this.change();
  }

  change() {
    this.stale = this.stale || this.checked;
    this.checked = false;
    this.adapt();
  }

  // Shows the fields that the type has, and what is still to be said.
  adapt() {
    const { type, use } = this.values, secret = this.values.private;
    for (const [field, about] of Object.entries(FIELDS)) this.groups[field].hidden = !use || !about.on.includes(type);
    for (const field of ["lower", "upper", "levels"]) this.inputs[field].disabled = secret;
    this.groups.type.hidden = this.groups.nullable.hidden = this.written.hidden = !use;
    this.groups.private.hidden = !use || type === "boolean";
    const [low, high] = HINTS[type] || ["", ""];
    this.inputs.lower.placeholder = low;
    this.inputs.upper.placeholder = high;
    this.kind.textContent = use ? type : "left out";
    this.box.classList.toggle("unused", !use);
    if (!this.checked) this.say(this.todo());
    this.preview.querySelectorAll("button[data-fields]").forEach((button) => this.mark(button));
  }

  todo() {
    const { use, type, lower, upper, levels } = this.values;
    if (!use) return "";
    const said = this.stale ? "changed: check again" : "";
    if (this.values.private || type === "boolean") return said;
    if (type === "category") return levels.trim() ? said : "levels are missing";
    return lower.trim() && upper.trim() ? said : "bounds are missing";
  }

  say(words, bad = false) {
    this.state.textContent = words;
    this.state.classList.toggle("bad", bad);
  }

  refuse(text) {
    this.error.textContent = text || "";
    const wrong = text ? Object.keys(FIELDS).filter((field) => new RegExp(`\\b${field}\\b`).test(text.split(". ")[0])) : [];
    for (const [field, input] of Object.entries(this.inputs)) {
      if (wrong.includes(field)) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
    if (!text && !this.checked) this.say(this.todo());
    if (text) {
      this.say("cannot be used yet", true);
      this.box.open = true;
      if (wrong.some((field) => FIELDS[field].written)) this.written.open = true;
    }
    return (wrong.map((field) => this.inputs[field]).find((input) => !input.closest("[hidden]")) || this.inputs.type);
  }

  showFindings(findings, holds) {
    const list = element("ul", { class: "findings" }, ...findings.map((one) => this.finding(one)));
    const found = findings.length ? list : element("p", { class: "caption" }, "Nothing to remark.");
    this.preview.replaceChildren(element("p", { class: "overhead" }, `PRIVATE: cells that look like ${holds}`), found);
  }

  finding(one) {
    const such = one.cells ? ` (${one.cells})` : "";
    const line = element("li", {}, element("p", {}, element("strong", {}, `${one.about}, ${percent(one.share)}: `), one.sentence + such));
    if (Object.keys(one.fields).length) {
      const button = element("button", { type: "button", "data-fields": JSON.stringify(one.fields) }, one.write === "drop" ? "Leave it out" : `Write ${one.write}`);
      button.addEventListener("click", () => this.set(one.fields));
      this.mark(button);
      line.append(button);
    }
    return line;
  }

  // A proposal that is in the form already is not offered once more.
  mark(button) {
    const now = this.values, fields = JSON.parse(button.dataset.fields);
    button.disabled = Object.entries(fields).every(([field, value]) => now[field] === value);
  }

  // What the owner's check says of the column.
  show(profile) {
    this.checked = true;
    this.stale = false;
    const parts = shares(profile);
    this.showFindings(profile.findings, profile.type);
    this.preview.firstChild.textContent = "PRIVATE: what a release would read";
    this.preview.firstChild.after(strip(parts, `Cells of ${this.name}`), legend(parts));
    const lost = parts.slice(1).map((part) => `${percent(part.share)} ${part.name}`).join(", ");
    const words = profile.mostly_lost ? `most cells would be lost: ${lost}` : lost || "all cells can be read";
    this.say(words, profile.mostly_lost);
  }
}

function percent(share) {
  return share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;
}

function shares({ rows, missing, unreadable, outside, no_level: none }) {
  const parts = [
    { name: "missing", kind: "cells-missing", count: missing },
    { name: "cannot be read", kind: "cells-lost", count: unreadable },
    { name: "no level", kind: "cells-lost", count: none || 0 },
    { name: "outside the bounds", kind: "cells-outside", count: outside || 0 },
  ].filter((part) => part.count);
  const read = { name: "read", kind: "cells-read", count: rows - parts.reduce((sum, part) => sum + part.count, 0) };
  return [read, ...parts].map((part) => ({ ...part, share: part.count / rows }));
}

function strip(parts, label) {
  const words = parts.map((part) => `${part.name} ${percent(part.share)}`).join(", ");
  const drawn = svg("svg", { class: "strip", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": `${label}: ${words}` });
  let start = 0;
  for (const { kind, share } of parts) {
    drawn.append(svg("rect", { class: kind, x: start, y: 0, width: Math.max(share * 100, share ? 0.6 : 0), height: 6 }));
    start += share * 100;
  }
  return drawn;
}

function legend(parts) {
  const key = (kind) => svg("svg", { viewBox: "0 0 20 12", "aria-hidden": "true" }, svg("rect", { class: kind, width: 20, height: 12 }));
  return element("ul", { class: "legend" }, ...parts.map((part) => element("li", {}, key(part.kind), `${part.name} ${percent(part.share)}`)));
}
