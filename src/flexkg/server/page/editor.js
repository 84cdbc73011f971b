// The question box: completion of names, and mistakes marked where they are.

import * as api from "./api.js";
import { byId, make } from "./dom.js";

const BREAK = /["()&|!\\^:,<>\-.\s]/;
const LINE = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;

// Where the last name of a text begins, and whether it is an argument of an atom.
export function place(text) {
  let start = 0;
  let quoted = false;
  let before = "";
  const atoms = [];
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (sign === '"') {
      quoted = !quoted;
      if (quoted) start = at;
      before = sign;
      continue;
    }
    if (quoted) continue;
    // A parenthesis right behind a name opens an atom, any other one a group.
    if (sign === "(") atoms.push(before === '"' || (before !== "" && !BREAK.test(before)));
    else if (sign === ")") atoms.pop();
    if (BREAK.test(sign)) start = at + 1;
    if (!/\s/.test(sign)) before = sign;
  }
  return { start, inAtom: atoms.at(-1) === true, quoted };
}

// The server counts lines and columns from 1, in characters; a textarea counts half of some of them.
export function offset(text, line, column) {
  let rest = text;
  let at = 0;
  for (let number = 1; number < line; number++) {
    const found = LINE.exec(rest);
    if (!found) break;
    at += found.index + found[0].length;
    rest = text.slice(at);
  }
  return at + Array.from(rest).slice(0, column - 1).join("").length;
}

export class Editor {
  constructor(submit) {
    this.box = byId("query");
    this.list = byId("choices");
    this.submit = submit;
    this.choices = [];
    this.active = -1;
    this.start = 0;
    this.box.addEventListener("input", () => this.changed());
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("scroll", () => (byId("marks").scrollTop = this.box.scrollTop));
    this.box.addEventListener("blur", () => setTimeout(() => this.close(), 150));
  }

  get text() {
    return this.box.value;
  }

  set text(value) {
    this.box.value = value;
    this.fit();
    this.close();
    this.mark(null);
  }

  changed() {
    this.fit();
    this.mark(null);
    this.stop?.abort();
    this.stop = new AbortController();
    const { signal } = this.stop;
    clearTimeout(this.soon);
    clearTimeout(this.later);
    this.soon = setTimeout(() => quietly(this.suggest(signal)), 60);
    this.later = setTimeout(() => quietly(this.check(signal)), 250);
  }

  // The box grows with its text.
  fit() {
    this.box.style.height = "auto";
    this.box.style.height = `${this.box.scrollHeight + 2}px`;
  }

  async check(signal) {
    const text = this.text;
    if (text.trim() === "") return;
    const found = await api.check(text, signal);
    if (text === this.text) this.mark(found.ok ? null : found.error, found.width);
  }

  // Underline the place of an error and say what it is; null takes both away.
  mark(error, width = 1) {
    const marks = byId("marks");
    const problem = byId("problem");
    marks.replaceChildren();
    problem.replaceChildren();
    this.box.toggleAttribute("aria-invalid", error !== null);
    if (error === null) return;
    const text = this.text;
    if (error.line !== null && error.line !== undefined) {
      const from = offset(text, error.line, error.column);
      const to = Math.max(from + 1, offset(text, error.line, error.column + (width ?? 1)));
      marks.append(text.slice(0, from), make("mark", { text: text.slice(from, to) || " " }), text.slice(to));
      problem.append(make("span", { class: "where", text: `line ${error.line}, column ${error.column}` }));
    }
    problem.append(make("strong", { text: error.message }), error.hint ? ` ${error.hint}` : "");
    marks.scrollTop = this.box.scrollTop;
  }

  async suggest(signal) {
    const before = this.text.slice(0, this.box.selectionStart);
    const { start, inAtom } = place(before);
    const prefix = before.slice(start).replace(/^"/, "");
    const fits = inAtom ? prefix !== "" : before.includes(":");
    if (!fits || prefix.startsWith("?") || prefix.endsWith('"')) return this.close();
    const found = await api.complete(inAtom ? "entities" : "relations", prefix, signal);
    // Nothing to say about what is already written out.
    if (found.length === 1 && found[0].text === before.slice(start)) return this.close();
    this.start = start;
    this.show(found);
  }

  show(found) {
    if (document.activeElement !== this.box) return;
    this.choices = found;
    this.list.replaceChildren(
      ...found.map((choice, index) =>
        make(
          "li",
          { role: "option", id: `choice-${index}`, onmousedown: (event) => this.take(index, event) },
          make("span", { text: choice.name }),
          make("span", { class: "quiet", text: choice.description || choice.entity || choice.relation }),
        ),
      ),
    );
    this.list.hidden = found.length === 0;
    byId("suggested").textContent = found.length ? `${found.length} suggestions` : "";
    this.choose(-1);
  }

  close() {
    this.show([]);
    this.choices = [];
    this.list.hidden = true;
  }

  choose(index) {
    this.active = index;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === index)));
    if (index < 0) return this.box.removeAttribute("aria-activedescendant");
    this.box.setAttribute("aria-activedescendant", `choice-${index}`);
    this.list.children[index].scrollIntoView({ block: "nearest" });
  }

  take(index, event) {
    event?.preventDefault();
    const choice = this.choices[index];
    if (!choice) return;
    const relation = choice.relation !== undefined;
    let after = this.text.slice(this.box.selectionStart);
    if (choice.text.endsWith('"') && after.startsWith('"')) after = after.slice(1);
    const added = choice.text + (relation && !after.startsWith("(") ? "(" : "");
    this.box.value = this.text.slice(0, this.start) + added + after;
    const caret = this.start + added.length;
    this.box.setSelectionRange(caret, caret);
    this.close();
    this.changed();
  }

  key(event) {
    const open = !this.list.hidden && this.choices.length > 0;
    const count = this.choices.length;
    if (event.isComposing) return;
    if (open && event.key === "ArrowDown") this.choose((this.active + 1) % count);
    else if (open && event.key === "ArrowUp") this.choose(this.active <= 0 ? count - 1 : this.active - 1);
    else if (open && event.key === "Escape") this.close();
    else if (open && event.key === "Tab" && !event.shiftKey) this.take(Math.max(0, this.active));
    else if (open && event.key === "Enter" && !event.shiftKey && this.active >= 0) this.take(this.active);
    else if (event.key === "Enter" && !event.shiftKey) this.submit();
    else return;
    event.preventDefault();
  }
}

// Live help that fails is no help, and nobody asked for it.
async function quietly(promise) {
  try {
    await promise;
  } catch {
    // The question itself will say what is wrong.
  }
}
