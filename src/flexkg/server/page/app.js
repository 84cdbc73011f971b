// The page: a question in, answers with their reasons out.

import { showAnswers } from "./answers.js";
import * as api from "./api.js";
import { byId, make } from "./dom.js";
import { Editor } from "./editor.js";
import { showGraph } from "./graph.js";
import { showHistogram } from "./histogram.js";

let last = null;
let computed = false;
let stop = null;

const editor = new Editor(() => ask());

async function ask() {
  const query = editor.text;
  if (query.trim() === "") return;
  editor.close();
  stop?.abort();
  stop = new AbortController();
  const mine = stop;
  const hash = `#${encodeURIComponent(query)}`;
  if (location.hash !== hash) history.pushState(null, "", hash);
  say("Asking…");
  byId("result").setAttribute("aria-busy", "true");
  try {
    const found = await api.ask(query, Number(byId("top").value), mine.signal);
    if (mine === stop) show(found);
  } catch (error) {
    if (mine !== stop || error.name === "AbortError") return;
    say("");
    byId("result").hidden = true;
    editor.mark(error);
    editor.box.focus();
    // Where the error is, and how wide: only the check says the latter.
    if (error.line) editor.check(mine.signal).catch(() => {});
  } finally {
    if (mine === stop) byId("result").removeAttribute("aria-busy");
  }
}

// What happens, read out; also to be seen, where the page does not show it anyhow.
function say(text, seen = true) {
  byId("state").textContent = text;
  byId("state").classList.toggle("unseen", !seen);
}

function show(found) {
  last = found;
  computed = false;
  byId("result").hidden = false;
  editor.mark(null);
  const summary = showAnswers(found);
  say(`${found.answers.length} answers shown: ${summary}.`, false);
  const rewritten = found.rewritten.length !== 1 || found.rewritten[0] !== found.asked;
  byId("views").hidden = !rewritten;
  byId("notes").replaceChildren(...found.notes.map((note) => make("li", { class: "quiet", text: `Rewritten: ${note}` })));
  view(false);
  showHistogram(found.histogram);
}

function view(wanted) {
  computed = wanted;
  byId("view-asked").setAttribute("aria-pressed", String(!wanted));
  byId("view-computed").setAttribute("aria-pressed", String(wanted));
  showGraph(last, wanted);
}

function begin(query) {
  editor.text = query;
  ask();
}

async function start() {
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  byId("top").addEventListener("change", () => last && ask());
  byId("view-asked").addEventListener("click", () => view(false));
  byId("view-computed").addEventListener("click", () => view(true));
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    // A phone's keyboard changes the height only.
    if (last && width !== window.innerWidth) view(computed);
    width = window.innerWidth;
  });
  const fromAddress = () => {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return "";
    }
  };
  window.addEventListener("popstate", () => fromAddress() && fromAddress() !== editor.text && begin(fromAddress()));
  if (fromAddress()) begin(fromAddress());
  try {
    const about = await api.info();
    byId("about").textContent =
      `${about.model} on ${about.data.name}: ${about.data.entities.toLocaleString("en")} entities, ` +
      `${about.data.relations.toLocaleString("en")} relations`;
    byId("examples").replaceChildren(
      ...about.examples.map((example) =>
        make("li", {}, make("button", { type: "button", title: example.query, text: example.title, onclick: () => begin(example.query) }))),
    );
    if (!fromAddress() && about.examples.length > 0 && editor.text === "") editor.box.placeholder = about.examples[0].query;
  } catch (error) {
    say(`${error.message} ${error.hint ?? ""}`);
  }
  document.body.dataset.ready = "true";
}

start();
