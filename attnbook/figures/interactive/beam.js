// Beam search, step by step, over the hypotheses that a real decoder gave their probabilities.
function figure(data, control) {
  const at = { size: 1, step: 1 };
  const end = data.end;
  const after = data.nodes.map(() => []);
  data.nodes.forEach(([parent], k) => { if (parent >= 0) after[parent].push(k); });

  /** For each step the candidates, best first, as [node, log p]; the first `size` are kept. */
  function compute({ size, steps }) {
    const stages = [];
    let beam = [[0, 0]];
    for (let t = 0; t < steps && !beam.every(([k]) => data.nodes[k][1] === end); t += 1) {
      const candidates = beam.flatMap(([k, log]) => (data.nodes[k][1] === end
        ? [[k, log]] : after[k].map((next) => [next, log + data.nodes[next][2]])));
      candidates.sort((a, b) => b[1] - a[1]);
      stages.push(candidates);
      beam = candidates.slice(0, size);
    }
    return stages;
  }

  const words = (k) => (k <= 0 ? [] : [...words(data.nodes[k][0]), data.nodes[k][1]]);
  const told = (k) => words(k).filter((w) => w !== end).join(data.between) || "(nothing)";
  control.slider("beam size", { min: 1, max: data.sizes, step: 1, value: 1 }, (v) => {
    at.size = v;
    at.step = Math.min(at.step, compute({ size: v, steps: data.steps }).length);
  });
  control.button("one step", () => {
    at.step = Math.min(at.step + 1, compute({ size: at.size, steps: data.steps }).length);
  });
  control.button("to the end", () => { at.step = Infinity; });
  control.button("begin again", () => { at.step = 1; });

  function draw(place) {
    const stages = compute({ size: at.size, steps: data.steps });
    at.step = Math.min(at.step, stages.length);
    const shown = stages[at.step - 1].slice(0, data.sizes + 3);
    const { svg, width } = canvas(place, 34 + 32 * (data.sizes + 3), "The candidates of this step, best first");
    write(svg, 0, 16, `step ${at.step} of ${stages.length}`, { "text-anchor": "start", class: "strong" });
    const most = Math.exp(shown[0][1]);
    shown.forEach(([k, log], i) => {
      const y = 34 + 32 * i;
      const kept = i < at.size;
      const done = data.nodes[k][1] === end;
      const line = put(svg, "g", kept ? {} : { opacity: 0.5 });
      put(line, "rect", {
        x: 0, y: y + 20, height: 6, width: Math.max(1, width * Math.exp(log) / most),
        fill: kept ? HUES[done ? 2 : 0] : "currentColor",
      });
      write(line, 0, y + 15, `${kept ? "" : "✗ "}${told(k)}${done ? " ■" : " …"}`, {
        "text-anchor": "start", class: kept ? "strong" : "",
      });
      write(line, width, y + 15, Math.exp(log).toPrecision(3), { "text-anchor": "end" });
    });
    const beam = stages[at.step - 1].slice(0, at.size);
    const whole = at.step === stages.length;
    return whole
      ? `Finished: a beam of ${at.size} answers “${told(beam[0][0])}”, with probability `
        + `${Math.exp(beam[0][1]).toPrecision(3)}${data.truth ? ` (right is “${data.truth}”)` : ""}.`
      : `${beam.length === 1 ? "The most likely hypothesis is kept and goes" : `The ${beam.length} most likely hypotheses are kept and go`} `
        + "on. Crossed out are the most likely of those that are dropped.";
  }
  return { compute, draw, shown: { nodes: data.nodes } };
}
