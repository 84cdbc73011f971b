// The computation graph: one box for each part of the question, with the best answers that it has by itself.

import { badge, bar, byId, chance, draw, make, short } from "./dom.js";

const WIDTH = 164;
const LINE = 17;
const HEAD = 28;
const GAP_X = 34;
const GAP_Y = 14;
const SHOWN = 3;
const NARROW = 560;

const isLeaf = (step) => step.operands.length === 0;
const height = (step) => HEAD + (isLeaf(step) ? 0 : LINE * Math.min(SHOWN, step.answers.length) + 6);

// From the leaves on the left to the question on the right; every part has a band of its own.
function wide(steps, roots) {
  const places = new Map();
  const depths = new Map();
  const deepen = (id, depth) => {
    depths.set(id, Math.max(depth, depths.get(id) ?? 0));
    steps[id].operands.forEach((operand) => deepen(operand, depth + 1));
  };
  roots.forEach((id) => deepen(id, 0));
  const deepest = Math.max(...depths.values());
  // Gives back where the band ends.
  const settle = (id, top) => {
    if (places.has(id)) return top;
    const step = steps[id];
    const size = height(step);
    const place = { x: (deepest - depths.get(id)) * (WIDTH + GAP_X), y: top };
    places.set(id, place);
    let bottom = top;
    for (const operand of step.operands) bottom = settle(operand, bottom);
    const taken = bottom - GAP_Y - top;
    if (taken <= size) {
      // A box higher than all below it: those move to its middle.
      const moved = [...places].slice([...places.keys()].indexOf(id) + 1);
      if (taken > 0) moved.forEach(([, below]) => (below.y += (size - taken) / 2));
      return top + size + GAP_Y;
    }
    place.y = top + (taken - size) / 2;
    return bottom;
  };
  roots.reduce((top, id) => settle(id, top), 0);
  return places;
}

// From the question at the top down, every level indented: fits a phone.
function narrow(steps, roots) {
  const places = new Map();
  let y = 0;
  const settle = (id, depth) => {
    if (places.has(id)) return;
    places.set(id, { x: depth * 22, y });
    y += height(steps[id]) + GAP_Y;
    steps[id].operands.forEach((operand) => settle(operand, depth + 1));
  };
  roots.forEach((id) => settle(id, 0));
  return places;
}

function edge(from, to, size, goal, isNarrow) {
  if (isNarrow) {
    const x = to.x + 10;
    return `M ${from.x} ${from.y + size / 2} H ${x} V ${to.y + goal}`;
  }
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + size / 2, to.x, to.y + goal / 2];
  const bend = (x2 - x1) / 2;
  return `M ${x1} ${y1} C ${x1 + bend} ${y1}, ${x2 - bend} ${y2}, ${x2} ${y2}`;
}

function answerLine(answer, index) {
  const y = HEAD + LINE * index;
  const share = answer.probability ?? 0;
  const kind = answer.known ? "known" : "predicted";
  return draw(
    "g",
    { class: kind },
    draw("rect", { x: 8, y: y + 1, width: Math.max(1, (WIDTH - 16) * share), height: LINE - 3, rx: 3, class: "share" }),
    draw("text", { x: 13, y: y + 12, class: "answer", text: short(answer.name, 15) }),
    draw("text", { x: WIDTH - 12, y: y + 12, class: "percent", "text-anchor": "end", text: answer.known ? "✓" : chance(answer) }),
  );
}

function box(step, place, isRoot, open) {
  const best = step.answers.slice(0, SHOWN).map((answer) => `${answer.name}, ${chance(answer)}`);
  const said = isLeaf(step) ? step.label : `${step.label}: ${best.join("; ") || "no answers"}`;
  const act = (event) => {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    open(step, event.currentTarget);
  };
  return draw(
    "g",
    {
      class: `node ${isLeaf(step) ? "leaf" : step.operator}${isRoot ? " root" : ""}${step.native ? "" : " rewritten"}`,
      transform: `translate(${place.x} ${place.y})`,
      tabindex: 0,
      role: "button",
      "aria-label": said,
      "data-step": step.id,
      onclick: act,
      onkeydown: act,
    },
    draw("title", { text: step.term }),
    draw("rect", { class: "box", width: WIDTH, height: height(step), rx: isLeaf(step) ? HEAD / 2 : 8 }),
    draw("text", { class: "label", x: WIDTH / 2, y: 19, "text-anchor": "middle", text: short(step.label, 22) }),
    isLeaf(step) ? [] : step.answers.slice(0, SHOWN).map(answerLine),
  );
}

function openStep(step, node) {
  byId("graph").querySelectorAll(".node").forEach((other) => other.classList.toggle("open", other === node));
  const rows = step.answers.map((answer) =>
    make("li", {}, make("span", { class: "name", text: answer.name }), badge(answer), bar(answer),
      make("span", { class: "chance", text: answer.known ? "" : chance(answer) })));
  const count = isLeaf(step) ? "" : ` ${step.known_count.toLocaleString("en")} known`;
  byId("node").replaceChildren(
    make("p", {}, make("code", { text: step.term }), make("span", { class: "quiet", text: count }),
      step.native ? "" : make("span", { class: "quiet", text: ", rewritten for this model" })),
    make("ol", { class: "small" }, isLeaf(step) ? [] : rows),
  );
}

export function showGraph(found, computed) {
  const holder = byId("graph");
  const roots = computed ? found.rewritten : [found.asked];
  const isNarrow = holder.clientWidth < NARROW;
  const places = (isNarrow ? narrow : wide)(found.steps, roots);
  const ends = [...places].map(([id, place]) => [place.x + WIDTH, place.y + height(found.steps[id])]);
  const [right, bottom] = [0, 1].map((axis) => Math.max(...ends.map((end) => end[axis])) + 4);
  const edges = [...places.keys()].flatMap((id) =>
    found.steps[id].operands.map((operand) =>
      draw("path", {
        class: "edge",
        d: edge(places.get(operand), places.get(id), height(found.steps[operand]), height(found.steps[id]), isNarrow),
      })));
  const boxes = [...places].map(([id, place]) => box(found.steps[id], place, roots.includes(id), openStep));
  const picture = draw(
    "svg",
    { viewBox: `-2 -2 ${right + 2} ${bottom + 2}`, role: "group",
      "aria-label": "Computation graph: each part of the question with its best answers" },
    edges,
    boxes,
  );
  // Shrinks a little to fit; beyond that one scrolls.
  picture.style.width = `max(${Math.round(0.72 * right)}px, min(100%, ${right}px))`;
  holder.replaceChildren(picture);
  byId("node").replaceChildren(make("p", { class: "quiet", text: "Each box has the answers that the model finds likeliest, ✓ where facts prove them. Choose one to see more." }));
}
