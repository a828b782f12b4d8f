// Every head of every layer as a map of weights, and the weights of one word as numbers.
function figure(data, control) {
  const { parts } = data;
  const [part, layer, head, row] = data.first;
  const at = { part, layer, head, row };
  const most = 12; // letters of a word

  /** The weights of one word: row `row` of a head. They come in thousandths. */
  function compute({ part, layer, head, row }) {
    return { weights: parts[part].weights[layer][head][row].map((w) => w / 1000) };
  }

  const numbered = (words) => words.map((word, i) => `${i + 1} ${word}`);
  const count = (list) => list.map((_, i) => `${i + 1}`);
  const choices = {
    layer: (p) => count(p.weights), head: (p) => count(p.weights[0]), row: (p) => numbered(p.rows),
  };
  const offer = {};
  if (parts.length > 1) {
    control.choice("attention", parts.map((p) => p.name), at.part, (v) => {
      at.part = v;
      for (const [key, names] of Object.entries(choices)) {
        const list = names(parts[v]);
        at[key] = Math.min(at[key], list.length - 1);
        offer[key](at[key], list);
      }
    });
  }
  for (const [key, names] of Object.entries(choices)) {
    const label = key === "row" ? "query word" : key;
    offer[key] = control.choice(label, names(parts[at.part]), at[key], (v) => { at[key] = v; });
  }

  const short = (word) => ([...word].length > most ? `${[...word].slice(0, most - 1).join("")}…` : word);
  const room = (words) => 10 + 7.2 * Math.max(...words.map((word) => [...short(word)].length));

  function draw(place) {
    const p = parts[at.part];
    const matrix = p.weights[at.layer][at.head];
    const { weights } = compute(at);
    const { svg, width } = canvas(place, 0, `Map of ${p.name}, layer ${at.layer + 1}, head `
      + `${at.head + 1}: a row for each query word, a column for each key word`);
    const left = room(p.rows);
    const top = 0.8 * room(p.columns) + 6;
    const beside = width > 520; // the numbers, or below the map
    const free = width - left - 0.55 * top - (beside ? 230 : 0);
    const cell = Math.min(24, free / p.columns.length);
    const line = Math.max(14, cell);
    const across = left + cell * p.columns.length;
    const below = top + line * p.rows.length;

    const every = Math.ceil(11 / cell); // names that would lie on one another are left out
    p.columns.forEach((word, c) => {
      if (c % every) return;
      const x = left + (c + 0.7) * cell;
      write(svg, x, top - 5, short(word), {
        class: "small", "text-anchor": "start", transform: `rotate(-50 ${x} ${top - 5})`,
      });
    });
    p.rows.forEach((word, r) => {
      const shown = put(svg, "g", { "data-key": `row-${r}` });
      put(shown, "rect", { x: 0, y: top + r * line, width: across, height: line, fill: "transparent" });
      write(shown, left - 5, top + (r + 0.5) * line + 4, short(word), {
        class: r === at.row ? "small strong" : "small", "text-anchor": "end",
      });
      matrix[r].forEach((w, c) => put(shown, "rect", {
        x: left + c * cell, y: top + r * line, width: cell - 0.6, height: line - 0.6, class: "weight",
        fill: HUES[0], "fill-opacity": w / 1000, stroke: "currentColor", "stroke-opacity": 0.12,
      }));
      shown.addEventListener("click", () => {
        at.row = r;
        offer.row(r);
        control.redraw();
      });
    });
    put(svg, "rect", {
      x: 1, y: top + at.row * line - 0.5, width: across, height: line, fill: "none", stroke: HUES[1],
      "stroke-width": 2, "pointer-events": "none",
    });

    const x = beside ? across + 0.55 * top + 24 : 0;
    const y = beside ? top : below + 24;
    const names = room(p.columns);
    const bar = (beside ? width - x : width) - names - 44;
    p.columns.forEach((word, c) => {
      const middle = y + (c + 0.5) * 15 + 4;
      const strong = weights[c] === Math.max(...weights) ? " strong" : "";
      write(svg, x + names - 5, middle, short(word), { class: `small${strong}`, "text-anchor": "end" });
      put(svg, "rect", { x: x + names, y: middle - 9, width: bar * weights[c], height: 10, fill: HUES[0] });
      write(svg, x + names + bar * weights[c] + 5, middle, weights[c].toFixed(3), {
        class: `small${strong}`, "text-anchor": "start",
      });
    });
    const height = Math.max(below, y + 15 * p.columns.length) + 4;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);

    const order = weights.map((_, c) => c).sort((a, b) => weights[b] - weights[a]).slice(0, 3);
    const looks = order.map((c) => `“${p.columns[c]}” (${weights[c].toFixed(3)})`);
    return `In ${p.name}, layer ${at.layer + 1}, head ${at.head + 1}, “${p.rows[at.row]}” attends most `
      + `to ${looks.join(", then to ")}.`;
  }
  return { compute, draw };
}
