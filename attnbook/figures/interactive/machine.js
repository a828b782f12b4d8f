// A machine with a memory at work, step by step: what comes in, where the heads read and write, what the
// memory holds, what is said.
function figure(data, control) {
  const at = { t: data.t };
  let playing;

  /** What each head reads from a memory: the mean of its rows, weighted. */
  function compute({ memory, weights }) {
    return weights.map((w) => memory[0].map((_, m) => dot(w, memory.map((row) => row[m]))));
  }

  const last = data.memory.length - 1;
  const move = control.slider("step", {
    min: 1, max: last + 1, step: 1, value: at.t + 1, show: (v) => `${v} of ${last + 1}`,
  }, (v) => { at.t = v - 1; });
  const pause = () => {
    clearInterval(playing);
    playing = undefined;
    named("play");
  };
  control.button("next step", () => { pause(); move((at.t + 1) % (last + 1) + 1); });
  const named = control.button("play", () => {
    if (playing) return pause();
    if (at.t === last) move(1);
    playing = setInterval(() => {
      if (at.place && !at.place.isConnected) return pause();
      move(at.t + 2);
      return at.t === last ? pause() : undefined;
    }, 700);
    return named("pause");
  });

  const top = Math.max(1e-9, ...data.memory.flat(2).map(Math.abs));

  function draw(place) {
    at.place = place;
    const [memory, weights] = [data.memory[at.t], data.weights[at.t]];
    const [ins, outs] = [data.inputs[at.t], data.outputs[at.t]];
    const rows = Math.max(memory.length, ins.length, outs.length);
    const { svg, width } = canvas(place, 34 + 17 * rows + 24, "The bits that come in, the weights of "
      + "the heads, the memory, and the bits that are said");
    const gap = 14;
    const narrow = 20;
    const left = 30;
    const cell = (width - left - (2 + weights.length) * (narrow + gap)) / memory[0].length;
    const cells = (x, w, values, paint) => values.forEach((value, i) => put(svg, "rect", {
      x, y: 34 + 17 * i, width: w, height: 16, ...paint(value),
    }));
    const outline = (x, w, count, name) => {
      put(svg, "rect", {
        x, y: 34, width: w, height: 17 * count - 1, fill: "none", stroke: "currentColor", opacity: 0.5,
      });
      write(svg, x + w / 2, 22, name, { class: "small" });
    };
    const column = (x, values, name, paint) => {
      cells(x, narrow, values, paint);
      outline(x, narrow, values.length, name);
    };
    const shade = (hue) => (v) => ({ fill: hue, opacity: Math.max(0, Math.min(1, v)) });
    data.slots.forEach((slot, i) => {
      if (i % 2 === 0) write(svg, left + narrow + gap - 10, 46 + 17 * i, slot, { class: "small" });
    });
    let x = left - 26;
    column(x, ins, "in", shade(HUES[2]));
    x = left + narrow + gap;
    weights.forEach((w, k) => {
      column(x, w, data.names[k], shade(HUES[0]));
      x += narrow + gap;
    });
    memory[0].forEach((_, m) => cells(x + cell * m, cell, memory.map((row) => row[m]), (v) => ({
      fill: v < 0 ? HUES[0] : HUES[1], opacity: Math.abs(v) / top,
    })));
    outline(x, cell * memory[0].length, memory.length, "memory: blue −, orange +");
    column(width - narrow - 2, outs, "out", shade(HUES[2]));
    const looks = data.names.map((name, k) => {
      const most = argmax(weights[k]);
      return weights[k][most] < 0.05 ? `the ${name} head is at none of these slots`
        : `the ${name} head is at slot ${data.slots[most]} (${weights[k][most].toFixed(2)})`;
    });
    return `Step ${at.t + 1}: ${data.titles[at.t]}. Now ${looks.join(", ")}.`;
  }
  return { compute, draw };
}
