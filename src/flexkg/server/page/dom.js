// Elements are made here and nowhere else. Text goes in as text, so a name can never become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const draw = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);

export function short(text, most) {
  const signs = Array.from(text);
  return signs.length <= most ? text : signs.slice(0, most - 1).join("") + "…";
}

// 1 for what is known; null where the run has no probabilities.
export function chance(answer) {
  if (answer.known) return "known";
  if (answer.probability === null) return `score ${answer.score.toFixed(2)}`;
  const percent = 100 * answer.probability;
  return percent < 0.05 ? "< 0.1 %" : `${percent.toFixed(1)} %`;
}

export function bar(answer) {
  const inside = make("span", { class: answer.known ? "known" : "predicted" });
  inside.style.width = `${100 * (answer.probability ?? 0)}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, inside);
}

export function badge(answer) {
  const kind = answer.known ? "known" : "predicted";
  return make("span", { class: `badge ${kind}`, text: kind });
}
