// The picture on the front page: touch a word of the translation and see what it looked at. The two
// phrases lie below each other or, where there is no room for a line of words, side by side.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function lookingWords(place, { source, target, weights }) {
  const row = (words, kind, name) => {
    const line = document.createElement("p");
    line.className = `looking-row ${kind}`;
    line.lang = name;
    for (const word of words) {
      const shown = document.createElement(kind === "target" ? "button" : "span");
      shown.textContent = word;
      line.append(shown, " ");
    }
    return line;
  };
  const frame = document.createElement("div");
  frame.className = "looking";
  const above = row(source, "source", "en");
  const lines = document.createElementNS(SVG, "svg");
  const below = row(target, "target", "fr");
  const said = document.createElement("p");
  said.className = "looking-said";
  said.setAttribute("aria-live", "polite");
  lines.setAttribute("aria-hidden", "true");
  frame.append(above, lines, below);
  place.replaceChildren(frame, said);
  const words = [...above.children];
  const buttons = [...below.children];
  let chosen = 0;

  const draw = () => {
    const box = lines.getBoundingClientRect();
    const beside = getComputedStyle(above).flexDirection === "column";
    // a line goes from the near edge of one word to the near edge of the other
    const edge = (word, side) => {
      const { left, right, top, bottom, width, height } = word.getBoundingClientRect();
      const [x, y] = beside ? [side === "source" ? right : left, top + height / 2]
        : [left + width / 2, side === "source" ? bottom : top];
      return [x - box.left, y - box.top];
    };
    const from = edge(buttons[chosen], "target");
    lines.replaceChildren();
    words.forEach((word, s) => {
      const weight = weights[chosen][s];
      word.style.setProperty("--weight", weight.toFixed(3));
      if (weight < 0.02) return;
      const to = edge(word, "source");
      const line = document.createElementNS(SVG, "line");
      Object.entries({
        x1: from[0], y1: from[1], x2: to[0], y2: to[1], "stroke-width": 1 + 7 * weight,
        opacity: 0.25 + 0.75 * weight,
      }).forEach(([name, value]) => line.setAttribute(name, value));
      lines.append(line);
    });
    const most = weights[chosen].indexOf(Math.max(...weights[chosen]));
    said.textContent = `Before it wrote “${target[chosen]}”, the model attended most to `
      + `“${source[most]}”, with a weight of ${weights[chosen][most].toFixed(2)}.`;
    buttons.forEach((button, t) => button.setAttribute("aria-pressed", String(t === chosen)));
  };
  buttons.forEach((button, t) => {
    const choose = () => {
      chosen = t;
      draw();
    };
    for (const event of ["pointerenter", "focus", "click"]) button.addEventListener(event, choose);
  });
  chosen = target.indexOf("russes") >= 0 ? target.indexOf("russes") : 1;
  new ResizeObserver(draw).observe(place);
}

document.addEventListener("DOMContentLoaded", async () => {
  const place = document.getElementById("front-alignment");
  if (!place) return;
  lookingWords(place, await (await fetch(place.dataset.source)).json());
});
