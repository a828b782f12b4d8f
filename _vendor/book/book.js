// What every page of the website does: shows a picture large, filters the ledger, prints.
"use strict";

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

const KINDS = { S: "systems", F: "formulas", P: "pictures", C: "claims", E: "slips" };

function filterLedger(page) {
  const rows = [...page.querySelectorAll("tbody tr")].map((row) => [row, row.textContent.toLowerCase()]);
  const box = document.createElement("p");
  box.className = "ledger-filter";
  const kind = document.createElement("select");
  kind.setAttribute("aria-label", "Kind of line");
  kind.append(new Option("all kinds", ""), ...Object.entries(KINDS).map(([k, name]) => new Option(name, k)));
  const words = document.createElement("input");
  words.type = "search";
  words.placeholder = "words in a line";
  words.setAttribute("aria-label", words.placeholder);
  const count = document.createElement("output");
  const filter = () => {
    let shown = 0;
    for (const [row, text] of rows) {
      row.hidden = (kind.value && !row.cells[0].textContent.startsWith(kind.value))
        || !words.value.toLowerCase().split(" ").every((word) => text.includes(word));
      shown += !row.hidden;
    }
    for (const part of page.querySelectorAll(":scope > section")) {
      part.hidden = ![...part.querySelectorAll("tbody tr")].some((row) => !row.hidden);
    }
    count.textContent = shown < rows.length ? `${shown} of ${rows.length} lines` : "";
  };
  kind.addEventListener("change", filter);
  words.addEventListener("input", filter);
  box.append(kind, words, count);
  page.querySelector(":scope > section").before(box);
  filter();
}

document.addEventListener("DOMContentLoaded", () => {
  const ledger = document.querySelector("section#ledger");
  if (ledger) filterLedger(ledger);
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
