// The list of answers: each opens to show what it rests on.

import { badge, bar, byId, chance, make } from "./dom.js";

const link = (fact) => {
  if (fact.split) return fact.split === "train" ? "" : ` (${fact.split})`;
  return fact.probability === null || fact.probability === undefined
    ? ` (score ${fact.score.toFixed(2)})`
    : ` (${(100 * fact.probability).toFixed(1)} %)`;
};

function reasonList(title, kind, texts) {
  if (texts.length === 0) return null;
  return make(
    "div",
    { class: `reason ${kind}` },
    make("h3", { text: title }),
    make("ul", {}, texts.map((text) => make("li", {}, make("code", { text: text[0] }), text[1]))),
  );
}

function reasons(reason) {
  if (!reason) return [make("p", { class: "quiet", text: "Reasons are given for the first answers only." })];
  return [
    reasonList("Facts", "facts", reason.facts.map((fact) => [fact.text, link(fact)])),
    reasonList("Links that would have to hold", "missing", reason.missing.map((fact) => [fact.text, link(fact)])),
    reasonList("Not known, as it must be", "absent", reason.absent.map((text) => [text, ""])),
    reasonList("Known, and against it", "against", reason.against.map((text) => [text, ""])),
  ];
}

function row(answer, reason) {
  const summary = make(
    "summary",
    {},
    make("span", { class: "rank", text: answer.rank }),
    make("span", { class: "name", text: answer.name }),
    badge(answer),
    bar(answer),
    make("span", { class: "chance", text: answer.known ? "" : chance(answer) }),
  );
  const about = make(
    "p",
    { class: "quiet" },
    make("code", { text: answer.entity }),
    `, score ${answer.score.toFixed(3)}`,
  );
  return make("li", {}, make("details", {}, summary, make("div", { class: "inside" }, about, reasons(reason))));
}

export function showAnswers(found) {
  const byEntity = new Map(found.reasons.map((reason) => [reason.entity, reason]));
  byId("answers").replaceChildren(...found.answers.map((answer) => row(answer, byEntity.get(answer.entity))));
  const known = `${found.known_count.toLocaleString("en")} known answer${found.known_count === 1 ? "" : "s"}`;
  const all = found.estimate === null ? "" : `, about ${found.estimate.toFixed(1)} in all`;
  const pooled = found.calibration === "pooled" ? "; probabilities from other kinds of question" : "";
  byId("summary").textContent = found.answers.length ? known + all + pooled + "." : "No answers.";
  return known + all;
}
