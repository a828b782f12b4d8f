// The search page: pages ranked by relevance, titles first, each with the passage that fits best.
// Typing errors are forgiven: a word that the book does not have is completed, mended or split.
"use strict";

const SHOWN = 25;
const PAUSE = 120; // ms without a key until the answer follows the typing

class Search {
  constructor(index) {
    this.index = index;
    this.stemmer = new Stemmer();
    this.stems = new Map(); // of each word as it is written
    this.counts = new Map(); // how often each word is written
    this.weighty = new Set(); // words of titles, headings and the glossary
    this.joined = new Map(); // "selfattention" and the words of it
    const { pages, entries, terms, papers } = index;
    this.byAddress = new Map(pages.map(([address], page) => [address, page]));
    // a term is looked for where it is defined
    this.entries = entries.concat(
      terms.map(([names, [home], said]) => [this.byAddress.get(home), "", names.join(", "), said]),
      papers.map(([reference, home]) => [this.byAddress.get(home), "", reference, reference]),
    );
    this.plain = this.entries.map(([, , , text]) => plain(text));
    this.passages = this.filled("heading text", this.entries.map(([, , heading, text]) => (
      { heading, text })));
    this.titles = this.filled("title other", pages.map(([, title, other = ""]) => (
      { title, other })));
    for (const [names] of terms) for (const name of names) this.joinedIn(name.replace(/ /g, "-"));
    const headings = index.entries.map(([, , heading]) => heading);
    for (const text of [...pages.map(([, title]) => title), ...headings, ...terms.flat(2)]) {
      for (const word of spoken(text)) this.weighty.add(word);
    }
    this.names = terms.flatMap(([names, homes]) =>
      names.map((name) => ({ name, words: this.words(name, false), homes, first: names[0] })));
  }

  filled(fields, rows) {
    const engine = new MiniSearch({
      fields: fields.split(" "),
      tokenize: (text) => this.counted(text),
      processTerm: (term) => term, // words() has done it
      searchOptions: { boost: { title: 1, heading: 3 } },
    });
    engine.addAll(rows.map((row, id) => ({ id, ...row })));
    return engine;
  }

  stem(word) {
    if (!this.stems.has(word)) {
      this.stems.set(word, this.stemmer.stemWord(word.replace(BRITISH, "iz$1")));
    }
    return this.stems.get(word);
  }

  // stems of what is not a stop word
  words(text, parted = true) {
    return spoken(text, parted).filter((word) => !UNTOLD.has(word)).map((word) => this.stem(word));
  }

  counted(text) {
    for (const word of spoken(text)) this.counts.set(word, (this.counts.get(word) || 0) + 1);
    this.joinedIn(text);
    return this.words(text);
  }

  joinedIn(text) {
    for (const word of text.match(/\p{L}+(-\p{L}+)+/gu) || []) {
      const parts = spoken(word);
      if (parts.length > 1) this.joined.set(parts.join(""), parts);
    }
  }

  // what was meant: [{word as typed, words of the book, mended}]
  understood(query) {
    const typed = spoken(query, false);
    const meant = [];
    for (let i = 0; i < typed.length; i++) {
      const two = typed.slice(i, i + 2);
      const pair = two.length === 2 ? two.join("") : "";
      const often = this.counts.get(pair);
      if (pair.length > 5 && (often > 2 || this.weighty.has(pair))) {
        const rarer = Math.min(...two.map((word) => this.counts.get(word) || 0));
        meant.push({ words: often < rarer ? [...two, pair] : [pair] });
        i++;
      } else if (UNTOLD.has(typed[i])) {
        meant.push({ words: [typed[i]] });
      } else {
        meant.push(this.meant(typed[i]));
      }
    }
    return meant;
  }

  meant(word) {
    const parted = this.joined.get(word) || [];
    if (this.counts.has(word)) return { words: [word, ...parted] };
    if (parted.length) return { words: parted };
    const same = [...this.counts.keys()].filter((known) => this.stem(known) === this.stem(word));
    if (same.length) return { words: [word] };
    const longer = word.length < 3 ? [] : this.best((known) => known.startsWith(word) && 0);
    if (longer.length) return { words: longer.slice(0, 3) };
    const near = this.near(word);
    const parts = near.length && near[0].away < 2 ? null : this.parts(word);
    if (parts) return { words: parts };
    if (near.length) return { words: this.joined.get(near[0].word) || [near[0].word], mended: true };
    return { words: [], mended: true };
  }

  // known words, the likeliest first
  best(suits) {
    const found = [];
    for (const [word, count] of this.counts) if (suits(word) === 0) found.push([word, count]);
    return found
      .sort((a, b) => b[1] - a[1])
      .map(([word]) => word);
  }

  // known words with one or two letters wrong, the likeliest first
  near(word) {
    const most = word.length < 4 ? 1 : word.length < 6 ? 1 : 2;
    const found = [];
    for (const known of [...this.counts.keys(), ...this.joined.keys()]) {
      if (Math.abs(known.length - word.length) > most || known.length < 3) continue;
      const away = distance(word, known);
      if (away > most) continue;
      const swapped = sorted(word) === sorted(known);
      const weighty = this.weighty.has(known) || this.joined.has(known);
      if (word.length < 4 && !swapped) continue;
      const count = this.counts.get(known) || 1;
      const score = away - (swapped ? 0.5 : 0) - (weighty ? 0.6 : 0) - (word[0] === known[0] ? 0.3 : 0)
        - Math.log10(count) / 5;
      found.push({ word: known, away, score });
    }
    return found.sort((a, b) => a.score - b.score);
  }

  // two known words that are written as one
  parts(word) {
    let best = null;
    for (let i = 3; i <= word.length - 3; i++) {
      const parts = [word.slice(0, i), word.slice(i)];
      const rarer = Math.min(...parts.map((part) => this.counts.get(part) || 0));
      if (rarer > 2 && rarer > (best ? best.rarer : 0)) best = { parts, rarer };
    }
    return best && best.parts;
  }

  // how much a word tells: the fewer passages have it, the more
  tells(word) {
    const found = this.passages.search(word, { tokenize: (text) => [text] }).length;
    return Math.log((this.entries.length + 1) / (found + 1));
  }

  // {results: [{page, entry, score}], best first; shown: what was looked for, if not the query}
  find(query) {
    const meant = this.understood(query);
    const written = meant.flatMap(({ words }) => words);
    let words = written.filter((word) => !UNTOLD.has(word)).map((word) => this.stem(word));
    if (!words.length) words = written.map((word) => this.stem(word));
    const named = this.names.filter((name) => contains(words, name.words));
    const weights = new Map(words.map((word) => [word, 1]));
    for (const { first } of named) {
      for (const word of this.words(first)) if (!weights.has(word)) weights.set(word, 0.3);
    }
    const options = { tokenize: () => [...weights.keys()], boostTerm: (term) => weights.get(term) };
    const quoted = new Set(); // pages that have the query word by word
    const pages = new Map();
    const at = (page) => {
      if (!pages.has(page)) pages.set(page, { page, entry: null, score: 0, best: 0 });
      return pages.get(page);
    };
    for (const hit of this.passages.search("*", options)) {
      const found = at(this.entries[hit.id][0]);
      if (found.entry === null) Object.assign(found, { entry: hit.id, score: hit.score });
      else found.score += hit.score / 8; // other passages of the page count a little
    }
    const literal = plain(query);
    if (literal.split(" ").length > 3) {
      this.plain.forEach((text, entry) => {
        if (text.includes(literal)) quoted.add(this.entries[entry][0]);
      });
    }
    for (const hit of this.titles.search("*", options)) at(hit.id).score += 8 * hit.score;
    for (const found of pages.values()) found.score *= weight(this.index.pages[found.page][0]);
    const most = Math.max(1, ...[...pages.values()].map((found) => found.score));
    const tells = new Map(words.map((word) => [word, this.tells(word)]));
    const sum = (list) => list.reduce((total, word) => total + tells.get(word), 0);
    const gains = new Map(); // a page gains by the longest name that it is the home of
    for (const { words: name, homes } of named) {
      homes.forEach((home, i) => {
        const gain = (most * sum(name)) / sum(words) / (i + 1);
        const page = this.byAddress.get(home);
        if (gain > (gains.get(page) || 0)) gains.set(page, gain);
      });
    }
    for (const page of quoted) gains.set(page, most + (gains.get(page) || 0));
    for (const [page, gain] of gains) at(page).score += gain;
    return {
      results: [...pages.values()].sort((a, b) => b.score - a.score),
      shown: meant.some(({ mended }) => mended) ? written.join(" ") : null,
      words: new Set(words),
    };
  }

  // names of the glossary that are written alike
  alike(query) {
    const asked = plain(query);
    return this.names
      .map(({ name, homes }) => {
        const known = plain(name);
        return { name, home: homes[0], away: distance(asked, known) / Math.max(asked.length, known.length) };
      })
      .filter(({ away }) => away <= 0.5)
      .sort((a, b) => a.away - b.away)
      .slice(0, 3);
  }
}

const UNTOLD = new Set(
  stopwords.concat(
    ("how what why when where which who do does did can could should would work works mean means use "
      + "used using explain explained difference between vs versus need needed get make i my me you "
      + "we so from have has").split(" "),
  ),
);

const BRITISH = /is(ation|e|ed|er|es|ing)$/; // normalisation and normalization are one word

// the words of a text, in small letters; of a name like FlashAttention also its parts
function spoken(text, parted = true) {
  const plain = text.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").replace(/√/g, " sqrt ");
  const found = [];
  for (const word of plain.match(/\d+\.\d+|[\p{L}\p{N}]+/gu) || []) {
    const whole = word.toLowerCase();
    found.push(whole);
    if (parted && /[a-z][A-Z][a-z]/.test(word)) {
      found.push(...word.split(/(?<=[a-z])(?=[A-Z][a-z])/).map((part) => part.toLowerCase()));
    }
  }
  return found;
}

const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();

const sorted = (word) => [...word].sort().join("");

// letters to change, to add, to leave out, or to swap with their neighbour
function distance(a, b) {
  let [before, last] = [[], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      row[j] = Math.min(row[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] !== b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        row[j] = Math.min(row[j], before[j - 2] + 1);
      }
    }
    [before, last] = [last, row];
  }
  return last[b.length];
}

const weight = (name) =>
  name.endsWith("/summary.html") ? 0.6
    : name.startsWith("chapters/") ? 1 : name.startsWith("api/") ? 0.5 : 0.4;

function contains(words, term) {
  if (!term.length) return false;
  return words.some((_, start) => term.every((word, i) => words[start + i] === word));
}

// the words around the place where most of what was asked for stands
function passage(search, text, wanted) {
  const all = text.split(" ");
  const hits = all.map((word) => search.words(word).find((stem) => wanted.has(stem)));
  let [from, most] = [0, 0];
  hits.forEach((hit, i) => {
    const here = hit ? new Set(hits.slice(i, i + 24).filter(Boolean)).size : 0;
    if (here > most) [from, most] = [Math.max(0, i - 8), here];
  });
  const line = document.createElement("p");
  if (from) line.append("… ");
  for (let i = from; i < Math.min(all.length, from + 32); i++) {
    const shown = document.createElement(hits[i] ? "mark" : "span");
    shown.textContent = all[i];
    line.append(shown, " ");
  }
  if (from + 32 < all.length) line.append("…");
  return line;
}

function element(name, ...content) {
  const made = document.createElement(name);
  made.append(...content);
  return made;
}

function link(address, text) {
  const made = element("a", text);
  made.href = address;
  return made;
}

// "a, b or c" of nodes
function listed(nodes) {
  return nodes.flatMap((node, i) =>
    i === 0 ? [node] : [i === nodes.length - 1 ? " or " : ", ", node]);
}

const ELSEWHERE = () => [
  "the ", link("appendix/glossary.html", "glossary"), " explains the terms, and the ",
  link("intro.html", "front page"), " lists the chapters."];

function show(search, query) {
  const place = document.getElementById("search-results");
  const said = place.querySelector("[role=status]");
  const list = element("ul");
  list.className = "search";
  place.querySelector("ul")?.remove();
  if (!query.trim()) {
    said.replaceChildren("Type a word, a name or a question. Otherwise ", ...ELSEWHERE());
    return;
  }
  const { results, shown, words } = search.find(query);
  if (!results.length) {
    const alike = search.alike(query).map(({ name, home }) => link(home, name));
    said.replaceChildren(
      `Nothing was found for “${query}”. `,
      ...(alike.length ? ["Did you mean ", ...listed(alike), "? "] : []),
      "Otherwise ", ...ELSEWHERE());
    return;
  }
  said.replaceChildren(
    ...(shown ? ["Showing results for “", element("strong", shown), "”, as the book does not have ",
      `“${query}”.`] : [`Pages for “${query}”`]));
  for (const { page, entry } of results.slice(0, SHOWN)) {
    const [address, title] = search.index.pages[page];
    const [, anchor, heading, text] = entry === null ? [page, "", title, ""] : search.entries[entry];
    const item = element("li", link(anchor ? `${address}#${anchor}` : address, title));
    if (anchor && heading !== title) item.append(` – ${heading}`);
    if (text) item.append(passage(search, text, words));
    list.append(item);
  }
  place.append(list);
}

document.addEventListener("DOMContentLoaded", async () => {
  const field = document.querySelector(".bd-search-container input[name=q]");
  const said = element("p");
  said.setAttribute("role", "status");
  document.getElementById("search-results").append(said);
  field.value = new URLSearchParams(location.search).get("q") || "";
  const index = await (await fetch("_static/book/index.json")).json();
  window.bookSearch = new Search(index);
  show(window.bookSearch, field.value);
  let waiting;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const address = new URL(location);
      address.searchParams.set("q", field.value);
      history.replaceState(null, "", address);
      show(window.bookSearch, field.value);
    }, PAUSE);
  });
});
