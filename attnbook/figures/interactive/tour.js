// A pointer network's tour, one step at a time, over the shortest one.
function figure(data, control) {
  const at = { step: data.step };
  const n = data.points.length;
  const apart = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);

  /** The length of the closed tour through the points in this order. */
  function compute({ points, tour }) {
    return sum(tour.map((k, t) => apart(points[k], points[tour[(t + 1) % tour.length]])));
  }

  const best = compute({ points: data.points, tour: data.best });
  const whole = compute({ points: data.points, tour: data.walk });
  const move = control.slider("step", {
    min: 1, max: n + 1, step: 1, value: at.step + 1, show: (v) => (v > n ? "back home" : `${v} of ${n}`),
  }, (v) => { at.step = v - 1; });
  control.button("next step", () => move((at.step + 1) % (n + 1) + 1));
  let shortest = true;
  control.tick("shortest tour", shortest, (v) => { shortest = v; });

  function draw(place) {
    const room = canvas(place, 0, "Cities in the plane, the tour so far, and the weights of the next step");
    const size = Math.min(420, room.width);
    room.svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
    room.svg.setAttribute("width", size);
    room.svg.setAttribute("height", size);
    room.svg.style.maxWidth = `${size}px`;
    const xs = data.points.map((p) => p[0]);
    const ys = data.points.map((p) => p[1]);
    const wide = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys)) || 1;
    const xy = data.points.map(([x, y]) => [
      44 + (size - 88) * (x - Math.min(...xs)) / wide, size - 44 - (size - 88) * (y - Math.min(...ys)) / wide,
    ]);
    const path = (order, more) => put(room.svg, "polyline", {
      points: order.map((k) => xy[k].map((v) => v.toFixed(1)).join(",")).join(" "), fill: "none",
      "stroke-linejoin": "round", "stroke-linecap": "round", ...more,
    });
    if (shortest) path([...data.best, data.best[0]], { stroke: "currentColor", "stroke-width": 9, opacity: 0.45, class: "band" });
    const past = [...data.walk.slice(0, at.step), ...(at.step === n ? [data.walk[0]] : [])];
    if (past.length > 1) path(past, { stroke: HUES[1], "stroke-width": 2.5 });
    const weights = at.step < n ? data.weights[at.step] : undefined;
    xy.forEach(([x, y], k) => {
      const weight = weights ? weights[k] : 0;
      put(room.svg, "circle", { cx: x, cy: y, r: 5 + 15 * Math.sqrt(weight), fill: HUES[0], opacity: 0.2 + 0.7 * weight });
      put(room.svg, "circle", { cx: x, cy: y, r: 4, fill: "currentColor" });
      if (weight > 0.005) { // outwards, where neither the band nor the line lies
        const out = Math.atan2(y - size / 2, x - size / 2);
        const far = 20 + 15 * Math.sqrt(weight);
        write(room.svg, x + far * Math.cos(out), y + far * Math.sin(out) + 5, weight.toFixed(2), { class: k === data.walk[at.step] ? "strong" : "" });
      }
      if (k === data.walk[0]) put(room.svg, "circle", { cx: x, cy: y, r: 11, fill: "none", stroke: HUES[1], "stroke-width": 2 });
    });
    const longer = 100 * (whole / best - 1);
    if (at.step === n) {
      return `The tour of the network is ${whole.toFixed(3)} long, ${longer < 0.05 ? "as short as can be"
        : `${longer.toFixed(1)}% longer than the shortest (${best.toFixed(3)})`}.`;
    }
    const chosen = data.walk[at.step];
    return `Step ${at.step + 1}: the pointer takes the city with the largest weight, ${weights[chosen].toFixed(2)}`
      + `${weights[chosen] < 0.8 ? "; it is in doubt here" : ""}. Numbers are the weights of this step.`;
  }
  return { compute, draw };
}
