// A translation as it is written: what each word attended to, and what has been attended to so far.
function figure(data, control) {
  const at = { t: data.t };
  let { source, target, weights } = data.sentences[0];

  /** The weights of word t, and the sum of all up to it: how much each source word was used. */
  function compute({ weights, t }) {
    return {
      row: weights[t], covered: weights[0].map((_, s) => sum(weights.slice(0, t + 1).map((w) => w[s]))),
    };
  }

  if (data.sentences.length > 1) {
    control.choice("sentence", data.sentences.map((s) => s.source.join(" ")), 0, (k) => {
      ({ source, target, weights } = data.sentences[k]);
      move(Math.min(at.t + 1, target.length), target.length);
    });
  }
  const move = control.slider("word", {
    min: 1, max: target.length, step: 1, value: at.t + 1, show: (v) => `${v} of ${target.length}`,
  }, (v) => { at.t = v - 1; });
  control.button("next word", () => move((at.t + 1) % target.length + 1));

  /** Where the words of a sentence stand: as many lines as they need. */
  function lines(list, width) {
    const room = list.map((word) => Math.max(36, 12 + 8.4 * [...word].length));
    const rows = [[]];
    let x = 0;
    room.forEach((w, i) => {
      if (x + w > width && x > 0) {
        rows.push([]);
        x = 0;
      }
      rows.at(-1).push({ i, x: x + w / 2, w });
      x += w;
    });
    return rows.flatMap((row, k) => {
      const used = row.at(-1).x + row.at(-1).w / 2;
      return row.map((p) => ({ ...p, x: p.x + (width - used) / 2, k }));
    });
  }

  function draw(place) {
    const { row, covered } = compute({ weights, t: at.t });
    const { svg, width } = canvas(place, 0, "Lines from the word that is written to the words it attends to");
    const above = lines(source, width);
    const below = lines(target, width);
    const first = 48 + 44 * above.at(-1).k;
    const second = first + 96;
    const height = second + 30 * below.at(-1).k + 16;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const from = below[at.t];
    above.forEach(({ i, x, k }) => {
      const y = 34 + 44 * k;
      if (row[i] > 0.02) {
        put(svg, "line", {
          x1: x, y1: y + 6, x2: from.x, y2: second + 30 * from.k - 16, stroke: HUES[0],
          "stroke-width": 1 + 7 * row[i], "stroke-linecap": "round", opacity: 0.25 + 0.75 * row[i],
        });
      }
      put(svg, "rect", { x: x - 15, y: y - 32, width: 30, height: 12, fill: "none", stroke: "currentColor", opacity: 0.4 });
      put(svg, "rect", { x: x - 15, y: y - 32, width: 30 * Math.min(1, covered[i]), height: 12, fill: HUES[2], opacity: 0.8 });
      write(svg, x, y, source[i], { class: row[i] === Math.max(...row) ? "strong" : "" });
    });
    below.forEach(({ i, x, k }) => {
      const word = write(svg, x, second + 30 * k, target[i], {
        class: i === at.t ? "strong" : "", opacity: i > at.t ? 0.4 : 1, "data-key": `word-${i}`,
      });
      word.addEventListener("click", () => move(i + 1));
    });
    const most = argmax(row);
    const forgotten = source.filter((_, s) => covered[s] < 0.2);
    const rest = at.t === target.length - 1 && forgotten.length
      ? ` Hardly attended to by the whole sentence: ${forgotten.join(", ")}.` : "";
    return `Before it wrote “${target[at.t]}”, the model attended most to “${source[most]}” (${row[most].toFixed(2)}). `
      + `The green bars add up what each word got so far; a full one means 1 or more.${rest}`;
  }
  return { compute, draw };
}
