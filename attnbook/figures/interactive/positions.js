// Sinusoidal positions: slide two words and see the product of their vectors.
function figure(data, control) {
  const at = { first: data.first, second: data.second, width: data.widths.indexOf(data.width) };

  function encode(position, width) {
    return Array.from({ length: width }, (_, k) => {
      const angle = position / 10000 ** ((k - (k % 2)) / width);
      return k % 2 ? Math.cos(angle) : Math.sin(angle);
    });
  }

  function compute({ first, second, width }) {
    const a = encode(first, width);
    const b = encode(second, width);
    return { a, b, product: dot(a, b) };
  }

  const last = data.length - 1;
  const first = control.slider("first word at", { max: last, step: 1, value: at.first },
    (v) => { at.first = v; });
  const second = control.slider("second word at", { max: last, step: 1, value: at.second },
    (v) => { at.second = v; });
  control.choice("width d", data.widths.map(String), at.width, (k) => { at.width = k; });
  control.button("move both by one", () => {
    const by = Math.max(at.first, at.second) < last ? 1 : -Math.min(at.first, at.second);
    first(at.first + by);
    second(at.second + by);
  });

  function draw(place) {
    const width = data.widths[at.width];
    const { a, b, product } = compute({ ...at, width });
    const { svg, width: room } = canvas(place, 340, "Clocks of two positions, and their product by distance");
    const clocks = Math.min(width / 2, 8);
    const step = room / clocks;
    const r = Math.min(26, step * 0.42);
    const hand = (x, y, s, c, hue) => put(svg, "line", {
      x1: x, y1: y, x2: x + r * s, y2: y - r * c, stroke: hue, "stroke-width": 3, "stroke-linecap": "round",
    });
    for (let k = 0; k < clocks; k += 1) {
      const pair = 2 * Math.round(k * (width / 2 - 1) / Math.max(1, clocks - 1));
      const x = (k + 0.5) * step;
      put(svg, "circle", { cx: x, cy: 56, r: r + 3, fill: "none", stroke: "currentColor", opacity: 0.5 });
      hand(x, 56, a[pair], a[pair + 1], HUES[0]);
      hand(x, 56, b[pair], b[pair + 1], HUES[1]);
      write(svg, x, 106, `${pair / 2 + 1}`, { class: "small" });
    }
    write(svg, 0, 16, `clocks of ${at.first} (blue) and ${at.second} (orange)`, { "text-anchor": "start", class: "strong" });
    write(svg, 0, 136, "product of the two vectors by their distance", { "text-anchor": "start", class: "strong" });
    const left = 34;
    const across = (d) => left + (room - left - 8) * d / last;
    const low = -width / 8;
    const up = (p) => 310 - 160 * (p - low) / (width / 2 - low);
    for (const p of [0, width / 4, width / 2]) {
      write(svg, left - 6, up(p) + 4, String(p), { "text-anchor": "end", class: "small" });
      put(svg, "line", { x1: left, x2: room - 8, y1: up(p), y2: up(p), stroke: "currentColor", opacity: 0.2 });
    }
    const curve = Array.from({ length: last + 1 }, (_, d) => {
      const p = compute({ first: 0, second: d, width }).product;
      return `${across(d).toFixed(1)},${up(p).toFixed(1)}`;
    });
    put(svg, "polyline", { points: curve.join(" "), fill: "none", stroke: HUES[2], "stroke-width": 2 });
    const apart = Math.abs(at.first - at.second);
    put(svg, "circle", { cx: across(apart), cy: up(product), r: 6, fill: HUES[1] });
    for (const d of [0, Math.round(last / 2), last]) write(svg, across(d), 330, String(d), { class: "small" });
    return `Positions ${at.first} and ${at.second} are ${apart} apart; the product of their vectors is `
      + `${fixed(product, 2)}. Move both, and only the hands turn: the product stays.`;
  }
  return { compute, draw };
}
