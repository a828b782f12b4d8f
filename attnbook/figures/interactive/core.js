// What all figures to touch share. A kind of figure is figure(data, control): it asks for controls
// and returns {compute, draw}; `start` draws again at each change.
const NS = "http://www.w3.org/2000/svg";
const HUES = ["#2b83c6", "#d9622b", "#5c9e3a", "#9a63bd", "#a98a1c", "#1f9c8f"]; // light and dark

function put(parent, tag, attributes = {}, text = undefined) {
  const made = parent instanceof SVGElement || tag === "svg"
    ? document.createElementNS(NS, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text; // text, never markup
  parent.append(made);
  return made;
}

const sum = (values) => values.reduce((a, b) => a + b, 0);
const dot = (a, b) => sum(a.map((v, i) => v * b[i]));
const argmax = (values) => values.indexOf(Math.max(...values));
/** A number as it is printed: with a minus, not a hyphen, and no minus before a zero. */
const fixed = (v, digits) => v.toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1").replace("-", "−");

/** Softmax over the places that `mask` leaves open; all zero when it leaves none. */
function softmax(scores, mask = scores.map(() => true)) {
  const top = Math.max(...scores.filter((_, i) => mask[i]));
  const parts = scores.map((s, i) => (mask[i] ? Math.exp(s - top) : 0));
  const total = sum(parts);
  return parts.map((p) => (total > 0 ? p / total : 0));
}

/** A drawing surface as wide as there is room, one unit a pixel, so that text keeps its size. */
function canvas(place, height, label) {
  const width = Math.max(280, Math.min(720, place.clientWidth));
  const svg = put(place, "svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label,
  });
  return { svg, width };
}

function write(svg, x, y, text, more = {}) {
  return put(svg, "text", { x, y, "text-anchor": "middle", ...more }, text);
}

/** Bars over names, from a common ground; `faint` draws a second height in the background of each. */
function bars(svg, { x, y, width, height, values, names, hue = HUES[0], top = 1, digits = 2, faint }) {
  const step = width / values.length;
  put(svg, "line", { x1: x, x2: x + width, y1: y, y2: y, class: "axis" });
  values.forEach((value, i) => {
    const middle = x + (i + 0.5) * step;
    const bar = (v, fill, opacity) => put(svg, "rect", {
      x: middle - step * 0.36, width: step * 0.72, fill, opacity,
      y: y - height * Math.min(v / top, 1), height: height * Math.min(v / top, 1),
    });
    if (faint) bar(faint[i], "currentColor", 0.2);
    bar(value, hue, 1);
    if (digits) write(svg, middle, y - height * Math.min(value / top, 1) - 4, value.toFixed(digits));
    if (names) write(svg, middle, y + 15, names[i]);
  });
}

function start(root, figure) {
  if (root.dataset.ready) return; // a notebook may run an output's script twice
  root.dataset.ready = "yes";
  const live = put(root, "div", { class: "live" });
  root.prepend(live);
  const bar = put(live, "div", { class: "bar", role: "group", "aria-label": "Controls" });
  const place = put(live, "div", { class: "place" });
  const said = put(live, "p", { class: "said", "aria-live": "polite" });
  let figured;
  const redraw = () => {
    const held = document.activeElement && place.contains(document.activeElement)
      ? document.activeElement.dataset.key : undefined;
    place.replaceChildren();
    said.textContent = figured.draw(place);
    if (held) place.querySelector(`[data-key="${held}"]`)?.focus();
  };
  const quiet = (input) => input.setAttribute("data-lm-suppress-shortcuts", "true"); // keys, in Lab
  const control = {
    redraw,
    slider(label, { min = 0, max = 1, step = 0.01, value, show = String }, changed) {
      const box = put(bar, "label", {}, `${label} `);
      const input = put(box, "input", { type: "range", min, max, step, value });
      const shown = put(box, "output");
      const tell = (v) => {
        shown.textContent = show(v);
        input.setAttribute("aria-valuetext", show(v)); // what is read aloud is what is seen
      };
      quiet(input);
      tell(value);
      input.addEventListener("input", () => {
        tell(+input.value);
        changed(+input.value);
        redraw();
      });
      return (v, most = input.max) => {
        input.max = most;
        input.value = v;
        tell(v);
        changed(v);
        redraw();
      };
    },
    choice(label, names, value, changed) {
      const box = put(bar, "label", {}, `${label} `);
      const select = put(box, "select");
      const offer = (v, list) => {
        if (list) select.replaceChildren();
        list?.forEach((name, i) => put(select, "option", { value: i }, name));
        select.value = v;
      };
      offer(value, names);
      quiet(select);
      select.addEventListener("change", () => {
        changed(+select.value);
        redraw();
      });
      return offer; // another value, and other names for it
    },
    tick(label, value, changed) {
      const box = put(bar, "label");
      const input = put(box, "input", { type: "checkbox" });
      box.append(` ${label}`);
      input.checked = value;
      quiet(input);
      input.addEventListener("change", () => {
        changed(input.checked);
        redraw();
      });
    },
    button(label, pressed) {
      const made = put(bar, "button", { type: "button" }, label);
      quiet(made);
      made.addEventListener("click", () => {
        pressed();
        redraw();
      });
      return (name) => { made.textContent = name; };
    },
  };
  figured = figure(control);
  Object.assign(root, figured.shown, { compute: figured.compute }); // for the tests
  redraw();
  let width = place.clientWidth;
  new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = place.clientWidth;
    redraw();
  }).observe(place);
}
