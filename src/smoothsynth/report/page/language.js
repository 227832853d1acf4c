// The language of questions, text to a tree: a port of smoothsynth/answer/language.py. Nothing is ever run as script.

class Refusal extends Error {}

const MOST_CHARACTERS = 2000, MOST_DEPTH = 40;
const ONE = [1, 1];
const ARGUMENTS = {
  exp: ONE, ln: ONE, log10: ONE, sqrt: ONE, abs: ONE, sin: ONE, cos: ONE, tan: ONE, tanh: ONE, atan: ONE, erf: ONE,
  logistic: ONE, sigmoid: ONE, floor: ONE, ceil: ONE, round: ONE, log: ONE, power: [2, 2], least: [2, 8], greatest: [2, 8],
  avg: ONE, mean: ONE, average: ONE,
};
const ALIASES = { log: "ln", sigmoid: "logistic", mean: "avg", average: "avg", "<>": "!=", "==": "=" };
const RESERVED = ["and", "or", "not", "between", "case", "when", "then", "else", "end"];
const COMPARISONS = ["<=", ">=", "<>", "!=", "==", "=", "<", ">"];
const TOKEN = /\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([\p{L}_][\p{L}\p{N}_]*)|'((?:[^']|'')*)'|"((?:[^"]|"")*)"|(\*\*|<=|>=|<>|!=|==|[-+*\/^()<>=,]))/uy;

// What the library answers and this script does not.
const BEYOND = ["corr", "correlation", "median", "quantile"];
const ELSEWHERE = "this page knows the answers in the list above only. Ask with release.answer, or with the command smoothsynth answer, which know all columns without missing values and with them.";

function quoted(name) {
  return /^[A-Za-z_][A-Za-z_0-9]*$/.test(name) && !RESERVED.includes(name.toLowerCase()) ? name : `"${name.replaceAll('"', '""')}"`;
}

function apply(name, ...args) { return { name, args }; }

function parse(text) {
  if (!text.trim()) throw new Refusal("A question must be a text such as avg(age); it is empty.");
  if (text.length > MOST_CHARACTERS) throw new Refusal(`A question may have ${MOST_CHARACTERS} characters; this one has ${text.length}.`);
  return new Parser(text).whole();
}

function* walk(node) {
  yield node;
  for (const argument of node.args || []) yield* walk(argument);
}

class Parser {
  constructor(text) {
    this.text = text;
    this.tokens = tokensOf(text);
    this.next = 0;
    this.depth = 0;
  }

  whole() {
    const node = this.either();
    if (this.take("where") || this.take("group")) throw new Refusal(`Of groups ${ELSEWHERE}`);
    if (this.peek().kind !== "end") throw this.unexpected("an operator or the end");
    return node;
  }

  deeper(read) {
    this.depth += 1;
    if (this.depth > MOST_DEPTH) throw new Refusal(`A question may be nested ${MOST_DEPTH} deep; this one is deeper. Write it more simply.`);
    const node = read();
    this.depth -= 1;
    return node;
  }

  either() { return this.deeper(() => this.chain(() => this.both(), ["or"])); }
  both() { return this.chain(() => this.negation(), ["and"]); }

  negation() {
    let negations = 0;
    while (this.take("not")) negations += 1;
    const node = this.comparison();
    return negations % 2 ? apply("not", node) : node;
  }

  comparison() {
    let node = this.sum();
    if (this.take("is")) throw new Refusal(`Of missing values ${ELSEWHERE}`);
    const turned = this.take("not");
    if (this.take("in")) {
      this.need("(");
      let whole = apply("=", node, this.sum());
      while (this.take(",")) whole = apply("or", whole, apply("=", node, this.sum()));
      this.need(")");
      return turned ? apply("not", whole) : whole;
    }
    if (turned || this.peek().text.toLowerCase() === "between") {
      this.need("between");
      const low = this.sum();
      this.need("and");
      const inside = apply("and", apply(">=", node, low), apply("<=", node, this.sum()));
      return turned ? apply("not", inside) : inside;
    }
    const parts = [];
    while (this.peek().kind === "sign" && COMPARISONS.includes(this.peek().text)) {
      const sign = this.advance().text, right = this.sum();
      parts.push(apply(ALIASES[sign] || sign, node, right));
      node = right;
    }
    return parts.length ? parts.reduce((whole, part) => apply("and", whole, part)) : node;
  }

  sum() { return this.chain(() => this.product(), ["+", "-"]); }
  product() { return this.chain(() => this.signed(), ["*", "/"]); }

  signed() {
    let minus = false;
    while (this.peek().kind === "sign" && ["-", "+"].includes(this.peek().text)) minus = (this.advance().text === "-") !== minus;
    const node = this.power();
    return minus ? apply("minus", node) : node;
  }

  power() {
    const node = this.atom();
    if (!(this.peek().kind === "sign" && ["**", "^"].includes(this.peek().text))) return node;
    this.advance();
    return apply("power", node, this.deeper(() => this.signed()));
  }

  atom() {
    const token = this.peek(), word = token.text.toLowerCase();
    if (token.kind === "number") return { value: Number(this.advance().text) };
    if (token.kind === "quoted") return { column: this.advance().text };
    if (token.kind === "text") return { text: this.advance().text };
    if (token.kind === "sign" && token.text === "(") {
      this.advance();
      const node = this.either();
      this.need(")");
      return node;
    }
    if (token.kind === "name" && word === "case") return this.cases();
    if (token.kind === "name" && !RESERVED.includes(word)) return this.named();
    throw this.unexpected("a number, a column or a function");
  }

  named() {
    const name = this.advance().text;
    if (!(this.peek().kind === "sign" && this.peek().text === "(")) return { column: name };
    const called = name.toLowerCase();
    if (BEYOND.includes(called)) throw new Refusal(`Of ${called}(...) ${ELSEWHERE}`);
    if (!Object.hasOwn(ARGUMENTS, called)) throw new Refusal(`There is no function “${name.slice(0, 60)}”.${nearest(called, Object.keys(ARGUMENTS))}`);
    this.advance();
    const args = [this.either()];
    while (this.take(",")) args.push(this.either());
    if (this.take("where")) throw new Refusal(`Of groups ${ELSEWHERE}`);
    this.need(")");
    const [fewest, most] = ARGUMENTS[called];
    if (args.length < fewest || args.length > most) throw new Refusal(`${called} takes ${fewest === most ? fewest : `${fewest} to ${most}`} arguments; it was given ${args.length}.`);
    return apply(ALIASES[called] || called, ...args);
  }

  cases() {
    this.advance();
    const args = [];
    while (this.take("when")) {
      args.push(this.either());
      this.need("then");
      args.push(this.either());
    }
    if (!args.length) throw this.unexpected("when");
    this.need("else");
    args.push(this.either());
    this.need("end");
    return apply("case", ...args);
  }

  chain(tighter, signs) {
    let node = tighter();
    while (["sign", "name"].includes(this.peek().kind) && signs.includes(this.peek().text.toLowerCase())) {
      node = apply(this.advance().text.toLowerCase(), node, tighter());
    }
    return node;
  }

  peek() { return this.tokens[this.next]; }

  advance() {
    const token = this.tokens[this.next];
    if (token.kind !== "end") this.next += 1;
    return token;
  }

  take(text) {
    const token = this.peek(), found = ["sign", "name"].includes(token.kind) && token.text.toLowerCase() === text;
    if (found) this.advance();
    return found;
  }

  need(text) {
    if (!this.take(text)) throw this.unexpected(`“${text}”`);
  }

  unexpected(wanted) {
    const token = this.peek(), found = token.kind === "end" ? "the question ends" : `there is “${token.text.slice(0, 40)}”`;
    return pointed(this.text, token.place, `At character ${token.place + 1} of the question ${wanted} must stand, but ${found}.`);
  }
}

function tokensOf(text) {
  const tokens = [], kinds = ["number", "name", "text", "quoted", "sign"], end = text.trimEnd().length;
  let place = 0;
  while (place < end) {
    TOKEN.lastIndex = place;
    const match = TOKEN.exec(text), start = place + text.slice(place).length - text.slice(place).trimStart().length;
    if (!match) throw pointed(text, start, `At character ${start + 1} of the question “${text[start]}” means nothing here.`);
    const which = match.slice(1).findIndex((part) => part !== undefined), content = match[which + 1];
    tokens.push({ kind: kinds[which], text: kinds[which] === "quoted" ? content.replaceAll('""', '"') : kinds[which] === "text" ? content.replaceAll("''", "'") : content, place: start });
    place = TOKEN.lastIndex;
  }
  return [...tokens, { kind: "end", text: "", place: end }];
}

// The question with a caret below the place, and one that is right.
function pointed(text, place, words) {
  const plain = (part) => part.replace(/\s/g, " "), before = plain(text.slice(Math.max(0, place - 36), place));
  return new Refusal(`${words}\n    ${before}${plain(text.slice(place, place + 24))}\n    ${" ".repeat(before.length)}^\nFor example: avg(age), avg(age >= 50).`);
}

// The nearest of some names by the number of letters to change, if it is near.
function nearest(name, names) {
  const best = names.map((other) => [distance(name, other), other]).sort((a, b) => a[0] - b[0])[0];
  return best && best[0] <= Math.max(1, name.length / 3) ? ` Did you mean “${best[1]}”?` : "";
}

function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    row = row.reduce((next, above, j) => (j ? [...next, Math.min(above + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] !== b[j - 1]))] : [i]), []);
  }
  return row[b.length];
}
