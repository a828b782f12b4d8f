// A memory of one matrix: pairs are added to it, or by the delta rule put in place of what was there.
function figure(data, control) {
  const at = { written: data.written, read: data.keys.indexOf(data.read), strength: data.strength };
  const n = data.pairs.length;
  const two = (v) => fixed(v, 2);

  /** kᵀ S: what a matrix holds under a key. */
  const under = (matrix, key) => matrix[0].map((_, c) => sum(matrix.map((row, i) => key[i] * row[c])));

  /** Both matrices after some pairs, and what each gives for a key. */
  function compute({ pairs, written, strength, key }) {
    const empty = () => key.map(() => pairs[0].value.map(() => 0));
    const matrices = { added: empty(), delta: empty() };
    for (const pair of pairs.slice(0, written)) {
      const held = under(matrices.delta, pair.key);
      pair.key.forEach((k, i) => pair.value.forEach((v, c) => {
        matrices.added[i][c] += k * v;
        matrices.delta[i][c] += strength * k * (v - held[c]);
      }));
    }
    return { ...matrices, reads: { added: under(matrices.added, key), delta: under(matrices.delta, key) } };
  }

  const step = control.slider("pairs written", {
    max: n, step: 1, value: at.written, show: (v) => `${v} of ${n}`,
  }, (v) => { at.written = v; });
  control.button("write the next pair", () => step((at.written + 1) % (n + 1)));
  control.choice("read with", data.keys, at.read, (k) => { at.read = k; });
  control.slider("strength β", { step: 0.05, value: at.strength, show: two },
    (v) => { at.strength = v; });

  function draw(place) {
    const name = data.keys[at.read];
    const { key } = data.pairs.find((pair) => pair.names[0] === name);
    const found = compute({ pairs: data.pairs, written: at.written, strength: at.strength, key });
    const told = data.pairs.slice(0, at.written).findLast((pair) => pair.names[0] === name);
    const rows = key.length;
    const columns = data.entries.length;
    const tall = 26;
    const top = 30 + 22 * Math.ceil(n / 2);
    const below = top + 46 + tall * rows;
    const { svg, width } = canvas(place, below + 100, "Two memories after the same pairs: their matrices, and what each gives for a key");
    const begin = { "text-anchor": "start" };

    write(svg, 0, 14, "the pairs, in order", { ...begin, class: "strong" });
    data.pairs.forEach((pair, i) => {
      const done = i < at.written;
      const now = i === at.written - 1;
      write(svg, (i % 2) * width / 2, 36 + 22 * Math.floor(i / 2),
        `${now ? "▸ " : ""}${i + 1}. ${pair.names.join(" → ")}`, { ...begin, class: now ? "strong" : "", opacity: done ? 1 : 0.45 });
    });

    const most = Math.max(1e-9, ...data.pairs.flatMap((pair) => pair.value.map(Math.abs)));
    const wide = Math.min(64, (width - 28) / 2 / columns);
    const cells = (x, y, values, frame) => values.forEach((v, c) => {
      const box = { x: x + wide * c + 1, y: y + 1, width: wide - 2, height: tall - 2 };
      put(svg, "rect", { ...box, fill: v < 0 ? HUES[1] : HUES[0], opacity: 0.75 * Math.min(1, Math.abs(v) / most) });
      put(svg, "rect", { ...box, fill: "none", stroke: frame ? HUES[1] : "currentColor", "stroke-width": frame ? 2 : 1, opacity: frame ? 1 : 0.3 });
      write(svg, x + wide * (c + 0.5), y + tall / 2 + 4, two(v), { class: frame ? "strong" : "small" });
    });
    const side = (x, title, matrix, read) => {
      write(svg, x, top + 14, title, { ...begin, class: "strong" });
      data.entries.forEach((entry, c) => write(svg, x + wide * (c + 0.5), top + 34, entry, { class: "small" }));
      matrix.forEach((row, i) => cells(x, top + 40 + tall * i, row, false));
      write(svg, x, below + 10, `read with ${name}`, begin);
      cells(x, below + 16, read, true);
      if (told) {
        write(svg, x, below + 62, "written last", begin);
        cells(x, below + 68, told.value, false);
      }
    };
    side(0, "the sum", found.added, found.reads.added);
    side(width / 2 + 14, "the delta rule", found.delta, found.reads.delta);

    const list = (values) => values.map(two).join(", ");
    const gives = `With ${name} the sum gives ${list(found.reads.added)} and the delta rule ${list(found.reads.delta)}`;
    if (!told) return `${gives}; nothing has been written for ${name} yet.`;
    const off = (read) => Math.hypot(...read.map((v, c) => v - told.value[c])).toFixed(2);
    return `${gives}. Written last was ${told.names.join(" → ")}: the sum is ${off(found.reads.added)} away from it, `
      + `the delta rule ${off(found.reads.delta)}.`;
  }
  return { compute, draw };
}
