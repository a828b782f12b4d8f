// The softmax of dot products: width of the vectors, the root, and a temperature.
function figure(data, control) {
  const at = { draw: 0, width: data.widths.indexOf(data.width), root: false, temperature: 1 };

  function compute({ products, width, root, temperature }) {
    const scores = products.map((p) => p / (root ? Math.sqrt(width) : 1) / temperature);
    const weights = softmax(scores);
    // the derivative of the softmax is diag(w) − w wᵀ; this is its Frobenius norm
    const slope = Math.sqrt(sum(weights.map((a, i) => sum(weights.map(
      (b, j) => (a * (i === j) - a * b) ** 2)))));
    return { scores, weights, slope };
  }

  control.slider("width d", {
    max: data.widths.length - 1, step: 1, value: at.width, show: (k) => String(data.widths[k]),
  }, (k) => { at.width = k; });
  control.tick("divide by √d", at.root, (v) => { at.root = v; });
  control.slider("temperature", {
    min: -2, max: 2, step: 0.1, value: 0, show: (v) => (2 ** v).toFixed(2),
  }, (v) => { at.temperature = 2 ** v; });
  control.button("other vectors", () => { at.draw = (at.draw + 1) % data.products.length; });

  function draw(place) {
    const width = data.widths[at.width];
    const products = data.products[at.draw][at.width];
    const { scores, weights, slope } = compute({ ...at, products, width });
    const n = scores.length;
    const size = Math.max(3, ...scores.map(Math.abs));
    const room = canvas(place, 330, "Scores above, and below them their softmax");
    const left = 12;
    const step = (room.width - 2 * left) / n;
    write(room.svg, left, 16, "scores", { "text-anchor": "start", class: "strong" });
    const zero = 85;
    put(room.svg, "line", { x1: left, x2: room.width - left, y1: zero, y2: zero, class: "axis" });
    scores.forEach((score, i) => {
      const long = 42 * Math.abs(score) / size;
      const x = left + (i + 0.5) * step;
      put(room.svg, "rect", {
        x: x - step * 0.36, width: step * 0.72, height: long, y: score > 0 ? zero - long : zero,
        fill: HUES[3],
      });
      write(room.svg, x, score > 0 ? zero - long - 5 : zero + long + 15, fixed(score, 1));
    });
    write(room.svg, left, 168, "weights", { "text-anchor": "start", class: "strong" });
    bars(room.svg, {
      x: left, y: 302, width: room.width - 2 * left, height: 110, values: weights,
      names: weights.map((_, i) => `key ${i + 1}`),
    });
    const spread = Math.sqrt(sum(scores.map((s) => s * s)) / n);
    return `Vectors of ${width} numbers: the scores are about ${spread.toFixed(1)} in size, one key takes `
      + `${(100 * Math.max(...weights)).toFixed(0)}% of the weight, and the derivative of the softmax `
      + `has a norm ${slope < 0.001 ? "below 0.001" : `of ${slope.toFixed(3)}`}.`;
  }
  return { compute, draw };
}
