// The search page: pages ranked by relevance, titles first, each with the passage that fits best.
"use strict";

const SHOWN = 25;

class Search {
  constructor(index) {
    this.index = index;
    this.stemmer = new Stemmer();
    this.engine = new MiniSearch({
      fields: ["title", "heading", "text"],
      tokenize: (text) => this.words(text),
      processTerm: (term) => term, // words() has done it
      searchOptions: { boost: { title: 6, heading: 3 }, combineWith: "OR" },
    });
    this.engine.addAll(
      index.entries.map(([page, , heading, text], id) => (
        { id, title: index.pages[page][1], heading, text })),
    );
    this.terms = index.terms.map(([term, page]) => [this.words(term), page]);
  }

  // stems of what is not a stop word
  words(text) {
    return text
      .toLowerCase()
      .normalize("NFKD")
      .replace(/[\u0300-\u036f]/g, "")
      .split(/[^a-z0-9_√]+/)
      .filter((word) => word && !stopwords.includes(word) && !ASKING.has(word))
      .map((word) => this.stemmer.stemWord(word.replace(BRITISH, "iz$1")));
  }

  // how much a word tells: the fewer passages have it, the more
  tells(word) {
    const found = this.engine.search(word).length;
    return Math.log((this.index.entries.length + 1) / (found + 1));
  }

  // [{page, anchor, score}], best first
  find(query) {
    const words = this.words(query);
    const last = words.at(-1);
    const hits = this.engine.search(query, { prefix: (term) => term === last && term.length > 2 });
    const pages = new Map();
    for (const hit of hits) {
      const [page, anchor] = this.index.entries[hit.id];
      const known = pages.get(page);
      const score = hit.score * weight(this.index.pages[page][0]);
      if (!known) pages.set(page, { page, anchor, entry: hit.id, score });
      else known.score += score / 8; // other passages of the page count a little
    }
    const best = Math.max(1, ...[...pages.values()].map((found) => found.score));
    const tells = new Map(words.map((word) => [word, this.tells(word)]));
    const sum = (list) => list.reduce((total, word) => total + tells.get(word), 0);
    for (const [term, address] of this.terms) {
      const page = this.index.pages.findIndex(([name]) => name === address);
      if (!contains(words, term) || page < 0) continue;
      const found = pages.get(page) || { page, anchor: "", entry: null, score: 0 };
      found.score += (best * sum(term)) / sum(words); // the glossary says where it is defined
      pages.set(page, found);
    }
    return [...pages.values()].sort((a, b) => b.score - a.score);
  }
}

const ASKING = new Set(
  ("how what why when where which who do does did can could should work works mean means use used "
    + "using explain explained difference between vs versus need needed get make").split(" "),
);

const BRITISH = /is(ation|e|ed|er|es|ing)$/; // normalisation and normalization are one word

const weight = (name) =>
  name.startsWith("chapters/") ? 1 : name.startsWith("api/") ? 0.5 : 0.4;

function contains(words, term) {
  if (!term.length) return false;
  return words.some((_, start) => term.every((word, i) => words[start + i] === word));
}

// the words around the first one that was asked for
function passage(search, text, query) {
  const wanted = new Set(search.words(query));
  const all = text.split(" ");
  const first = all.findIndex((word) => search.words(word).some((stem) => wanted.has(stem)));
  const from = Math.max(0, first - 8);
  const line = document.createElement("p");
  if (from) line.append("… ");
  for (const word of all.slice(from, from + 32)) {
    const hit = search.words(word).some((stem) => wanted.has(stem));
    const shown = document.createElement(hit ? "mark" : "span");
    shown.textContent = word;
    line.append(shown, " ");
  }
  if (from + 32 < all.length) line.append("…");
  return line;
}

function show(search, query) {
  const found = search.find(query);
  const place = document.getElementById("search-results");
  const head = document.createElement("h2");
  head.textContent = found.length ? `Pages for “${query}”` : `Nothing was found for “${query}”`;
  const list = document.createElement("ul");
  list.className = "search";
  for (const { page, anchor, entry } of found.slice(0, SHOWN)) {
    const [address, title] = search.index.pages[page];
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = anchor ? `${address}#${anchor}` : address;
    link.textContent = title;
    item.append(link);
    if (entry !== null) {
      const [, , heading, text] = search.index.entries[entry];
      if (heading !== title) item.append(` – ${heading}`);
      item.append(passage(search, text, query));
    }
    list.append(item);
  }
  place.replaceChildren(head, list);
}

document.addEventListener("DOMContentLoaded", async () => {
  const query = new URLSearchParams(location.search).get("q") || "";
  const field = document.querySelector("#search-input, .bd-search-container input[name=q]");
  if (field) field.value = query;
  const index = await (await fetch("_static/book/index.json")).json();
  window.bookSearch = new Search(index);
  if (query.trim()) show(window.bookSearch, query);
});
