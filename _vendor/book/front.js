// The picture on the front page: touch a word of the translation and see what it looked at.
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
  const above = row(source, "source", "en");
  const lines = document.createElementNS(SVG, "svg");
  const below = row(target, "target", "fr");
  const said = document.createElement("p");
  said.className = "looking-said";
  said.setAttribute("aria-live", "polite");
  lines.setAttribute("aria-hidden", "true");
  place.replaceChildren(above, lines, below, said);
  const words = [...above.children];
  const buttons = [...below.children];
  let chosen = 0;

  const draw = () => {
    const box = lines.getBoundingClientRect();
    const from = buttons[chosen].getBoundingClientRect();
    lines.replaceChildren();
    words.forEach((word, s) => {
      const weight = weights[chosen][s];
      const to = word.getBoundingClientRect();
      word.style.setProperty("--weight", weight.toFixed(3));
      if (weight < 0.02) return;
      const line = document.createElementNS(SVG, "line");
      line.setAttribute("x1", from.left + from.width / 2 - box.left);
      line.setAttribute("y1", from.top - box.top);
      line.setAttribute("x2", to.left + to.width / 2 - box.left);
      line.setAttribute("y2", to.bottom - box.top);
      line.setAttribute("stroke-width", 1 + 7 * weight);
      line.setAttribute("opacity", 0.25 + 0.75 * weight);
      lines.append(line);
    });
    const most = weights[chosen].indexOf(Math.max(...weights[chosen]));
    said.textContent = `Before it wrote “${target[chosen]}”, the model looked most at `
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
