// What every page of the website does: sets its formulas, shows a picture large, prints.
"use strict";

function setFormulas() {
  for (const place of document.querySelectorAll(".math")) {
    const number = place.querySelector(".eqno");
    number?.remove();
    const text = place.textContent.trim();
    const display = text.startsWith("\\[");
    const formula = text.replace(/^\\[[(]|\\[\])]$/g, "");
    katex.render(formula, place, { displayMode: display, throwOnError: false, strict: "ignore" });
    if (number) place.prepend(number);
  }
}

function showLarge(link) {
  const frame = document.createElement("dialog");
  frame.className = "picture";
  const picture = link.querySelector("img").cloneNode();
  picture.removeAttribute("loading");
  const close = document.createElement("button");
  close.textContent = "Close";
  frame.append(picture, close);
  frame.addEventListener("click", () => frame.close());
  frame.addEventListener("close", () => frame.remove());
  document.body.append(frame);
  frame.showModal();
}

document.addEventListener("DOMContentLoaded", () => {
  if (window.katex) setFormulas();
  for (const wide of document.querySelectorAll("pre, .katex-display, .bd-content table")) {
    if (wide.scrollWidth > wide.clientWidth + 1) wide.tabIndex = 0; // so that arrow keys reach it
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.zoom");
    const does = event.target.closest("[data-does]")?.dataset.does;
    if (link) {
      event.preventDefault();
      showLarge(link);
    } else if (does === "print") {
      window.print();
    } else if (does === "fullscreen") {
      window.toggleFullScreen();
    }
  });
});
