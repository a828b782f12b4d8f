// The four steps of a Neural Turing Machine's addressing; sliders for strength, gate, shift, gamma.
function figure(data, control) {
  const at = { strength: data.strength, gate: data.gate, shift: data.shift, gamma: data.gamma };
  const length = (v) => Math.sqrt(dot(v, v) + 1e-8); // ε under each root, as in the library

  /** A shift between −1 and 1, shared between the two whole shifts beside it. */
  const kernel = (shift) => [Math.max(-shift, 0), 1 - Math.abs(shift), Math.max(shift, 0)];

  function compute({ memory, previous, key, strength, gate, kernel, gamma }) {
    const n = memory.length;
    const near = memory.map((row) => dot(row, key) / (length(row) * length(key)));
    const content = softmax(near.map((c) => strength * c));
    const gated = content.map((w, i) => gate * w + (1 - gate) * previous[i]);
    const shifted = gated.map((_, i) => sum(kernel.map((s, k) => s * gated[(i - (k - 1) + n) % n])));
    const powers = shifted.map((w) => w ** gamma);
    return [content, gated, shifted, powers.map((w) => w / sum(powers))];
  }

  const two = (v) => fixed(v, 2);
  const one = (v) => fixed(v, 1);
  control.slider("strength β", { max: 20, step: 0.1, value: at.strength, show: one },
    (v) => { at.strength = v; });
  control.slider("gate g", { value: at.gate, show: two }, (v) => { at.gate = v; });
  control.slider("shift s", { min: -1, value: at.shift, show: two }, (v) => { at.shift = v; });
  control.slider("sharpening γ", { min: 1, max: 10, step: 0.1, value: at.gamma, show: one },
    (v) => { at.gamma = v; });

  function draw(place) {
    const stages = compute({ ...data, ...at, kernel: kernel(at.shift) });
    const rows = [
      ["before", data.previous], ["content", stages[0]], ["gate", stages[1]],
      ["shift", stages[2]], ["sharpen", stages[3]],
    ];
    const { svg, width } = canvas(place, 84 * rows.length + 46,
      "Weights of the slots before and after each of the four steps");
    rows.forEach(([name, values], k) => {
      const y = 84 * (k + 1) - 10;
      write(svg, 6, y - 24, name, { "text-anchor": "start", class: k === 4 ? "strong" : "" });
      bars(svg, { x: 80, y, width: width - 90, height: 52, values, hue: HUES[k === 4 ? 1 : 0] });
    });
    const bottom = 84 * rows.length;
    data.names.forEach((name, i) => {
      const x = 80 + (i + 0.5) * (width - 90) / data.names.length;
      write(svg, x, bottom + 8, `slot ${i}`);
      write(svg, x, bottom + 26, name);
    });
    const last = stages[3];
    const slot = argmax(last);
    return `The head ends on slot ${slot} with a weight of ${two(last[slot])}; `
      + `content alone would have put ${two(Math.max(...stages[0]))} on slot ${argmax(stages[0])}.`;
  }
  return { compute, draw };
}
