// Rotary positions: move a query and a key through a text, and see what their score depends on.
function figure(data, control) {
  const at = { query: data.query_at, key: data.key_at, example: 0 };
  const last = data.length - 1;

  /** A vector with each of its pairs (k, k + d/2) turned by position · ω_k. */
  function turn(x, omega, position) {
    const half = omega.length;
    const cos = omega.map((w) => Math.cos(position * w));
    const sin = omega.map((w) => Math.sin(position * w));
    return x.map((v, i) => (i < half
      ? v * cos[i] - x[i + half] * sin[i]
      : x[i - half] * sin[i - half] + v * cos[i - half]));
  }

  function compute({ query, key, omega, query_at, key_at }) {
    const q = turn(query, omega, query_at);
    const k = turn(key, omega, key_at);
    const half = omega.length;
    return { q, k, score: dot(q, k), parts: omega.map((_, i) => q[i] * k[i] + q[i + half] * k[i + half]) };
  }

  const query = control.slider("query at", { max: last, step: 1, value: at.query }, (v) => { at.query = v; });
  const key = control.slider("key at", { max: last, step: 1, value: at.key }, (v) => { at.key = v; });
  control.button("move both by one", () => {
    const by = Math.max(at.query, at.key) < last ? 1 : -Math.min(at.query, at.key);
    query(at.query + by);
    key(at.key + by);
  });
  if (data.examples.length > 1) {
    control.choice("vectors", data.examples.map((e) => e.name), 0, (k) => { at.example = k; });
  }

  /** What lies over the line of the text, and is not drawn anew: a browser stops telling of a
   * finger whose target is gone. The nearer token follows mouse and finger; keys have the sliders. */
  let grip;
  function draggable(place, svg) {
    if (!grip) {
      place.parentNode.style.position = "relative";
      grip = put(place.parentNode, "div", {
        class: "grip", "aria-hidden": "true", style: "position:absolute;cursor:grab;touch-action:none;height:48px",
      });
      let held;
      const to = (event) => {
        const box = grip.getBoundingClientRect();
        const p = Math.round(last * (event.clientX - box.left - 14) / (box.width - 28));
        return Math.max(0, Math.min(last, p));
      };
      grip.addEventListener("pointerdown", (event) => {
        grip.setPointerCapture(event.pointerId);
        held = Math.abs(to(event) - at.query) <= Math.abs(to(event) - at.key) ? query : key;
        held(to(event));
      });
      grip.addEventListener("pointermove", (event) => held?.(to(event)));
      grip.addEventListener("lostpointercapture", () => { held = undefined; });
    }
    const [over, around] = [svg.getBoundingClientRect(), place.parentNode.getBoundingClientRect()];
    Object.assign(grip.style, {
      left: `${over.left - around.left}px`, top: `${over.top - around.top + 22}px`, width: `${over.width}px`,
    });
  }

  function draw(place) {
    const shown = data.examples[at.example];
    const { omega } = shown;
    const half = omega.length;
    const { q, k, score, parts } = compute({ ...shown, query_at: at.query, key_at: at.key });
    const { svg, width: room } = canvas(place, 464, "A text with a query and a key, their arrows, and the score by distance");
    const begin = { "text-anchor": "start" };
    const line = (x1, y1, x2, y2, more) => put(svg, "line", { x1, y1, x2, y2, stroke: "currentColor", ...more });

    // the text, and who stands where
    const along = (p) => 14 + (room - 28) * p / last;
    write(svg, 0, 16, "the text: move its tokens", { ...begin, class: "strong" });
    line(along(0), 46, along(last), 46, { opacity: 0.4 });
    for (let p = 0; p <= last; p += 1) line(along(p), 42, along(p), 50, { opacity: 0.4 });
    line(along(at.query), 46, along(at.key), 46, { stroke: HUES[2], "stroke-width": 5 });
    for (const [p, y, name, hue] of [[at.query, 35, "q", HUES[0]], [at.key, 57, "k", HUES[1]]]) {
      put(svg, "circle", { cx: along(p), cy: y, r: 10, fill: hue });
      write(svg, along(p), y + 4, name, { style: "fill:#fff", class: "strong" });
    }
    for (const p of [0, Math.round(last / 2), last]) write(svg, along(p), 84, String(p), { class: "small" });
    draggable(place, svg);

    // a dial for each pair
    write(svg, 0, 112, half > 1 ? "pairs of the query (blue) and the key (orange)" : "query (blue) and key (orange)",
      { ...begin, class: "strong" });
    const r = Math.min(58, room / half / 2 - 6);
    omega.forEach((w, i) => {
      const x = half > 1 ? (i + 0.5) * room / half : room / 2;
      const y = 182;
      const longest = Math.max(...[q, k].map((v) => Math.hypot(v[i], v[i + half])), 1e-9);
      put(svg, "circle", { cx: x, cy: y, r, fill: "none", stroke: "currentColor", opacity: 0.4 });
      const arrow = (v, hue, more) => {
        const to = [x + r * v[i] / longest, y - r * v[i + half] / longest];
        const angle = Math.atan2(v[i + half], v[i]);
        line(x, y, ...to, { stroke: hue, "stroke-width": 3.5, "stroke-linecap": "round", ...more });
        for (const side of [2.6, -2.6]) {
          line(...to, to[0] + 9 * Math.cos(angle + side), to[1] - 9 * Math.sin(angle + side),
            { stroke: hue, "stroke-width": 3.5, "stroke-linecap": "round", ...more });
        }
        return angle;
      };
      const b = arrow(k, HUES[1], {});
      const a = arrow(q, HUES[0], {});
      let apart = (a - b) % (2 * Math.PI); // from the key to the query, −π … π
      if (apart > Math.PI) apart -= 2 * Math.PI;
      if (apart < -Math.PI) apart += 2 * Math.PI;
      const on = (angle) => `${(x + 0.36 * r * Math.cos(angle)).toFixed(1)} ${(y - 0.36 * r * Math.sin(angle)).toFixed(1)}`;
      put(svg, "path", {
        d: `M${on(b)}A${0.36 * r} ${0.36 * r} 0 0 ${apart > 0 ? 0 : 1} ${on(b + apart)}`,
        fill: "none", stroke: HUES[2], "stroke-width": 3,
      });
      const degrees = `${Math.abs(apart * 180 / Math.PI).toFixed(0)}°`;
      write(svg, x, y + r + 18, half > 1 ? degrees : `${degrees} between them`, { class: "strong" });
      if (half > 1) write(svg, x, y + r + 34, `adds ${fixed(parts[i], 2)}`, { class: "small" });
    });

    // the score by distance
    write(svg, 0, 308, "score by distance, query − key", { ...begin, class: "strong" });
    const scores = Array.from({ length: 2 * last + 1 }, (_, i) => compute({ ...shown, query_at: i, key_at: last }).score);
    const most = Math.max(...scores.map(Math.abs));
    const left = 36;
    const across = (d) => left + (room - left - 8) * (d + last) / (2 * last);
    const up = (s) => 380 - 54 * s / most;
    for (const s of [-most, 0, most]) {
      line(left, up(s), room - 8, up(s), { opacity: 0.2 });
      write(svg, left - 6, up(s) + 4, fixed(s, 1), { "text-anchor": "end", class: "small" });
    }
    put(svg, "polyline", {
      points: scores.map((s, i) => `${across(i - last).toFixed(1)},${up(s).toFixed(1)}`).join(" "),
      fill: "none", stroke: HUES[2], "stroke-width": 2,
    });
    const distance = at.query - at.key;
    line(across(distance), up(-most), across(distance), up(most), { opacity: 0.3 });
    put(svg, "circle", { cx: across(distance), cy: up(score), r: 6, fill: HUES[1] });
    for (const d of [-last, 0, last]) write(svg, across(d), 456, fixed(d, 0), { class: "small" });
    return `The query at ${at.query} and the key at ${at.key} are ${Math.abs(distance)} apart; their score is `
      + `${fixed(score, 2)}. Move both, and all arrows turn, but not against each other: the score stays.`;
  }
  return { compute, draw };
}
