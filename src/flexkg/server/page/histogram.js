// How many entities have which score; known answers in their own colour. Heights are logarithmic.

import { byId, draw, make } from "./dom.js";

const WIDTH = 480;
const HEIGHT = 110;

export function showHistogram(histogram) {
  const bins = histogram.known.length;
  const totals = histogram.known.map((count, index) => count + histogram.others[index]);
  const size = (count) => Math.log1p(count);
  const scale = HEIGHT / Math.max(...totals.map(size), 1);
  const step = (histogram.high - histogram.low) / bins;
  const wide = WIDTH / bins;
  const bars = totals.flatMap((total, index) => {
    const from = histogram.low + index * step;
    const known = histogram.known[index];
    const all = scale * size(total);
    // Of a bar, the share of the known ones.
    const part = total ? (all * known) / total : 0;
    const shown = known && part < 3 ? 3 : part;
    const title = draw("title", {
      text: `${from.toFixed(2)} to ${(from + step).toFixed(2)}: ${total} entities, ${known} known answers`,
    });
    return [
      draw("rect", { class: "others", x: index * wide, y: HEIGHT - all, width: wide - 1, height: all }, title),
      known ? draw("rect", { class: "known", x: index * wide, y: HEIGHT - shown, width: wide - 1, height: shown }) : null,
    ];
  });
  const known = histogram.known.reduce((sum, count) => sum + count, 0);
  const all = totals.reduce((sum, count) => sum + count, 0);
  const picture = draw(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT + 22}`,
      role: "img",
      "aria-label": `Histogram of the scores of ${all} entities, ${known} of them known answers, ` +
        `from ${histogram.low.toFixed(2)} to ${histogram.high.toFixed(2)}`,
    },
    bars,
    draw("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT + 0.5, y2: HEIGHT + 0.5 }),
    draw("text", { class: "tick", x: 0, y: HEIGHT + 16, text: histogram.low.toFixed(1) }),
    draw("text", { class: "tick", x: WIDTH / 2, y: HEIGHT + 16, "text-anchor": "middle", text: "score (unlikely to likely)" }),
    draw("text", { class: "tick", x: WIDTH, y: HEIGHT + 16, "text-anchor": "end", text: histogram.high.toFixed(1) }),
  );
  const legend = make(
    "p",
    { class: "quiet legend" },
    make("span", { class: "swatch known" }), "known answers ",
    make("span", { class: "swatch others" }), "all others; heights are logarithmic",
  );
  byId("histogram").replaceChildren(picture, legend);
}
