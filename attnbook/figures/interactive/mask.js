// Who may attend to whom: a mask to paint, and the leak that appears. A frame marks the word that a
// row has to guess; what comes from a later word is orange.
function figure(data, control) {
  const words = data.words;
  const n = words.length;
  const grid = (rule) => words.map((_, i) => words.map((__, j) => rule(i, j)));
  const rules = [
    ["causal", (i, j) => j <= i], ["all words", () => true], ["one word too far", (i, j) => j <= i + 1],
    ["window of 3", (i, j) => j <= i && j > i - 3], ["none", () => false],
    ...(data.real < n ? [
      ["padding", (i, j) => j < data.real], ["causal & padding", (i, j) => j <= i && j < data.real],
    ] : []),
  ];
  let mask = grid(rules[0][1]);
  let layers = 1;
  let cursor = [0, 0];

  /** Whose words have come into each row after so many layers, each with a way around (residual). */
  function compute({ mask, layers, scores }) {
    let reach = mask.map((row, i) => row.map((_, j) => i === j));
    for (let k = 0; k < layers; k += 1) {
      reach = reach.map((own, i) => own.map((has, j) => has || mask[i].some((m, t) => m && reach[t][j])));
    }
    return { reach, weights: scores ? scores.map((row, i) => softmax(row, mask[i])) : undefined };
  }

  const choose = control.choice("mask", [...rules.map(([name]) => name), "painted"], 0, (k) => {
    if (rules[k]) mask = grid(rules[k][1]);
  });
  control.slider("layers", { min: 1, max: 4, step: 1, value: 1 }, (v) => { layers = v; });

  function draw(place) {
    const { reach } = compute({ mask, layers });
    const leaks = words.map((_, i) => reach[i].findIndex((has, j) => has && j > i && j < data.real));
    const left = 86;
    const room = canvas(place, 0, "Mask: a row for each query, a column for each key");
    const cell = Math.min(44, (room.width - left - 4) / n);
    const top = 62;
    const height = top + n * cell + 34;
    room.svg.setAttribute("viewBox", `0 0 ${room.width} ${height}`);
    room.svg.setAttribute("height", height);
    const turn = (i, j) => {
      cursor = [i, j];
      mask[i][j] = !mask[i][j];
      choose(rules.length);
      control.redraw();
    };
    words.forEach((word, j) => {
      const x = left + (j + 0.5) * cell;
      write(room.svg, x, top - 8, word, {
        "text-anchor": "start", transform: `rotate(-40 ${x} ${top - 8})`,
      });
    });
    words.forEach((word, i) => {
      write(room.svg, left - 8, top + (i + 0.5) * cell + 5, word, {
        "text-anchor": "end", class: leaks[i] >= 0 ? "strong" : "",
      });
      words.forEach((other, j) => {
        const seen = reach[i][j];
        const later = j > i && j < data.real;
        const box = put(room.svg, "rect", {
          x: left + j * cell + 1.5, y: top + i * cell + 1.5, width: cell - 3, height: cell - 3, rx: 3,
          fill: seen && later ? HUES[1] : mask[i][j] ? HUES[0] : "currentColor",
          "fill-opacity": mask[i][j] ? 1 : seen ? (later ? 0.45 : 0.22) : 0.06,
          stroke: j === i + 1 && later ? HUES[1] : "none", "stroke-width": 2.5,
          tabindex: i === cursor[0] && j === cursor[1] ? 0 : -1, role: "checkbox",
          "aria-checked": String(mask[i][j]), "aria-label": `${word} may attend to ${other}`,
          "data-key": `${i}-${j}`, "data-lm-suppress-shortcuts": "true",
        });
        box.addEventListener("click", () => turn(i, j));
        box.addEventListener("keydown", (event) => {
          const go = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
          if (go) {
            cursor = [Math.min(n - 1, Math.max(0, i + go[0])), Math.min(n - 1, Math.max(0, j + go[1]))];
            box.setAttribute("tabindex", -1);
            const next = room.svg.querySelector(`[data-key="${cursor.join("-")}"]`);
            next.setAttribute("tabindex", 0);
            next.focus();
          } else if (event.key === " " || event.key === "Enter") {
            turn(i, j);
          } else return;
          event.preventDefault();
        });
      });
    });
    let x = 1;
    const key = (label, attributes) => {
      put(room.svg, "rect", { x: x + 1, y: height - 17, width: 13, height: 13, rx: 2, ...attributes });
      const text = write(room.svg, x + 20, height - 6, label, { "text-anchor": "start", class: "small" });
      x += 32 + text.getComputedTextLength();
    };
    key("may attend", { fill: HUES[0] });
    key("word to guess", { fill: "none", stroke: HUES[1], "stroke-width": 2.5 });
    key("leak", { fill: HUES[1] });
    const first = leaks.findIndex((j) => j >= 0);
    const blind = mask.findIndex((row) => !row.some(Boolean));
    if (first >= 0) {
      const direct = mask[first][leaks[first]];
      const answer = leaks[first] === first + 1 ? ", which is the very word that it has to guess" : "";
      return `A leak: “${words[first]}” ${direct ? "attends to" : `is reached, over ${layers} layers, by`} `
        + `“${words[leaks[first]]}”${answer}.`;
    }
    if (blind >= 0) return `“${words[blind]}” may attend to nothing; its weights are all zero.`;
    const padded = data.real < n && mask.some((row) => row.some((m, j) => m && j >= data.real))
      ? " Padding is attended to as well." : "";
    const back = Math.max(...reach.map((row, i) => i - row.indexOf(true)));
    return `No leak: after ${layers} ${layers === 1 ? "layer" : "layers"} each word knows itself and at most `
      + `${back} ${back === 1 ? "word" : "words"} before it.${padded}`;
  }
  return { compute, draw };
}
