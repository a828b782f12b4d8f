// The search page: pages ranked by relevance, titles first, each with the passage that fits best.
// A word that the book does not have is completed, mended or split; other names of a thing are
// those of the glossary. MiniSearch forgives errors as well, but only in what it has indexed, which
// are stems ("positonal" is far from "posit"); and two letters swapped are two errors to it.
"use strict";

const SHOWN = 25; // pages
const PAUSE = 120; // ms without a key until the answer follows the typing

// What a page scores, in shares of what its best passage does. Search finds nearly the same with
// half or twice of any of these.
const TITLE = 8; // what is asked for stands in the title
const OTHERS = 1 / 6; // other passages of the page
const OTHER_NAME = 0.3; // the first name of a thing that is asked for by another
const WHOLE = 0.6; // is lost by a page that has none of the words, in proportion
const QUOTED = 0.5; // a passage has the query word by word; that is a title or a definition: twice
const WEIGHTS = [[/\/summary\.html$/, 0.6], [/^chapters\//, 1], [/^api\//, 0.3], [/^/, 0.6]];

class Search {
  constructor(index) {
    const { pages, entries, terms, papers } = index;
    this.index = index;
    this.stemmer = new Stemmer();
    this.stems = new Map(); // of each word as it is written
    this.counts = new Map(); // how often each word is written
    this.joined = new Map(); // "selfattention" and the words of it
    this.at = new Map(pages.map(([address], page) => [address, page]));
    // what a term is and who wrote a paper are looked for on the page to which they belong
    this.entries = entries.concat(
      terms.map(([names, [home], said]) => [this.at.get(home), "", names.join(", "), said]),
      papers.map(([reference, home]) => [this.at.get(home), "", reference, reference]),
    );
    this.papers = this.entries.length - papers.length; // where they begin
    this.passages = this.engine(this.entries.map(([, , heading, text]) => ({ heading, text })));
    this.titles = this.engine(pages.map(([, title, keywords = ""]) => ({ title, keywords })));
    this.names = terms.flatMap(([names, homes]) =>
      names.map((name) => ({ name, words: this.words(name, false), homes, first: names[0] })));
    for (const { name } of this.names) this.join(name.replaceAll(" ", "-"));
    // words of titles and of the glossary are more likely meant than others
    this.likely = new Set(
      [...pages.map(([, title]) => title), ...this.names.map(({ name }) => name)].flatMap(
        (text) => spoken(text)));
    this.likelyStems = new Set([...this.likely].map((word) => this.stem(word)));
    this.known = new Set([...this.counts.keys()].map((word) => this.stem(word)));
  }

  engine(rows) {
    const engine = new MiniSearch({
      fields: Object.keys(rows[0]),
      tokenize: (text) => this.learned(text),
      processTerm: (term) => term, // learned() has done it
      searchOptions: { boost: { heading: 3, keywords: 2 } },
    });
    engine.addAll(rows.map((row, id) => ({ id, ...row })));
    return engine;
  }

  stem(word) {
    if (!this.stems.has(word)) {
      this.stems.set(word, this.stemmer.stemWord(american(word).replace(PICTURE, "image")));
    }
    return this.stems.get(word);
  }

  // stems of the words that tell something
  words(text, parted = true) {
    return spoken(text, parted).filter((word) => !IDLE.has(word)).map((word) => this.stem(word));
  }

  // the same of a text of the book, whose words are known from now on
  learned(text) {
    const found = spoken(text);
    for (const word of found) this.counts.set(word, (this.counts.get(word) || 0) + 1);
    for (const word of text.match(/\p{L}+(-\p{L}+)+/gu) || []) this.join(word);
    return found.filter((word) => !IDLE.has(word)).map((word) => this.stem(word));
  }

  join(hyphened) {
    const parts = spoken(hyphened);
    if (parts.length > 1) this.joined.set(parts.join(""), parts);
  }

  // what each word of a query means: [{typed, words of the book, mended}]
  understood(query) {
    const typed = spoken(query, false);
    const meant = [];
    for (let i = 0; i < typed.length; i++) {
      const [one, two] = typed.slice(i, i + 2);
      const pair = two ? one + two : ""; // "flash attention" is written as one
      const often = this.counts.get(pair) || 0;
      if (pair.length > 5 && (often > 2 || this.likely.has(pair))) {
        const rarer = Math.min(this.counts.get(one) || 0, this.counts.get(two) || 0);
        meant.push({ typed: `${one} ${two}`, words: often < rarer ? [one, two, pair] : [pair] });
        i++;
      } else {
        meant.push({ typed: one, ...(IDLE.has(one) ? { words: [one] } : this.meant(one)) });
      }
    }
    return meant;
  }

  meant(word) {
    const parts = this.joined.get(word) || [];
    if (this.counts.has(word)) return { words: [word, ...this.swapped(word), ...parts] };
    if (parts.length) return { words: parts };
    const near = this.near(word);
    // another form of a known word, unless it is nearly a likely one, as "summerization" is
    const slip = near?.away === 1 && near.likely && word.length > 6;
    if (this.known.has(this.stem(word)) && !slip) return { words: [word] };
    const longer = this.longer(word);
    if (longer.length) return { words: longer };
    const split = near?.away === 1 ? null : this.split(word);
    if (split) return { words: split };
    return { words: near ? this.joined.get(near.word) || [near.word] : [], mended: true };
  }

  // likely words with two letters of this one swapped, as in "blue score"
  swapped(word) {
    if (word.length < 4 || this.likely.has(word)) return [];
    return [...this.likely].filter((term) => isSwapped(term, word) && distance(term, word) === 1);
  }

  // known words that begin like this, the most frequent first
  longer(word) {
    if (word.length < 3) return [];
    return [...this.counts]
      .filter(([known]) => known.startsWith(word))
      .sort((a, b) => b[1] - a[1])
      .slice(0, 3)
      .map(([known]) => known);
  }

  // the likeliest known word with a letter wrong, or two in a long word; or null
  near(word) {
    const most = word.length < 6 ? 1 : 2;
    let best = null;
    for (const known of [...this.counts.keys(), ...this.joined.keys()]) {
      if (Math.abs(known.length - word.length) > most || known.length < 3) continue;
      // one of the first two letters is right, as a rule
      if (![0, 1].some((i) => word[i] === known[0] || word[i] === known[1])) continue;
      const swapped = isSwapped(word, known);
      if (word.length < 4 && !swapped) continue; // too many short words are alike
      const away = distance(american(word), american(known));
      if (away > most) continue;
      const likely = this.joined.has(known) || this.likelyStems.has(this.stem(known));
      const badness = away - 0.5 * swapped - 0.6 * likely - 0.3 * (word[0] === known[0])
        - Math.log10(this.counts.get(known) || 1) / 5;
      if (!best || badness < best.badness) best = { word: known, away, likely, badness };
    }
    return best;
  }

  // two known words that are written as one, or null
  split(word) {
    let best = null;
    for (let i = 3; i <= word.length - 3; i++) {
      const parts = [word.slice(0, i), word.slice(i)];
      const rarer = Math.min(...parts.map((part) => this.counts.get(part) || 0));
      if (rarer > 2 && rarer > (best?.rarer || 0)) best = { parts, rarer };
    }
    return best && best.parts;
  }

  // how much a word tells: the fewer passages have it, the more
  tells(word) {
    const found = this.passages.search(word, { tokenize: (text) => [text] }).length;
    return Math.log((this.entries.length + 1) / (found + 1));
  }

  // {results: [{page, entry, score}], the best first; words: what to mark; shown: the query as it
  // was understood, if that is another}
  find(query) {
    const meant = this.understood(query);
    const words = meant.flatMap((one) => one.words.filter((word) => !IDLE.has(word))).map(
      (word) => this.stem(word));
    const shown = meant.some(({ mended }) => mended)
      ? meant.map((one) => (one.mended ? one.words.join(" ") : one.typed)).join(" ").trim()
      : null;
    const named = this.names.filter((name) => contains(words, name.words));
    const asked = new Map(named.flatMap(({ first }) =>
      this.words(first).map((word) => [word, OTHER_NAME])));
    for (const word of words) asked.set(word, 1);
    const options = { tokenize: () => [...asked.keys()], boostTerm: (word) => asked.get(word) };

    const pages = new Map();
    const of = (page) => {
      if (!pages.has(page)) pages.set(page, { page, entry: null, score: 0, has: new Set() });
      return pages.get(page);
    };
    for (const { id, score, queryTerms } of this.passages.search(query, options)) {
      const found = of(this.entries[id][0]);
      found.score += found.entry === null ? score : score * OTHERS;
      // a reference is shown only if the page says nothing else
      if (found.entry === null || (found.entry >= this.papers && id < this.papers)) {
        found.entry = id;
      }
      queryTerms.forEach((word) => found.has.add(word));
    }
    for (const { id, score, queryTerms } of this.titles.search(query, options)) {
      of(id).score += TITLE * score;
      queryTerms.forEach((word) => of(id).has.add(word));
    }
    const tells = new Map(words.map((word) => [word, this.tells(word)]));
    const sum = (list) => list.reduce((total, word) => total + (tells.get(word) || 0), 0);
    for (const found of pages.values()) {
      const [, weight] = WEIGHTS.find(([kind]) => kind.test(this.index.pages[found.page][0]));
      found.score *= weight * (1 - WHOLE + (WHOLE * sum([...found.has])) / sum(words));
    }

    const most = Math.max(1, ...[...pages.values()].map(({ score }) => score));
    const gains = new Map(); // of a page by the longest name whose home it is, first or second
    for (const { words: name, homes } of named) {
      homes.forEach((home, i) => {
        const gain = (most * sum(name)) / sum(words) / (i + 1);
        const page = this.at.get(home);
        gains.set(page, Math.max(gain, gains.get(page) || 0));
      });
    }
    for (const [page, gain] of gains) of(page).score += gain;
    for (const [page, gain] of this.quoted(shown ?? query)) of(page).score += gain * most;
    return {
      results: [...pages.values()].sort((a, b) => b.score - a.score),
      words: new Set(words),
      shown,
    };
  }

  // pages that have at least four words one after the other, and what that is worth
  quoted(query) {
    const asked = plain(query);
    const found = new Map();
    if (asked.split(" ").length < 4) return found;
    this.plain ??= this.entries.map(([, , , text]) => plain(text));
    this.plain.forEach((text, id) => {
      const gain = id < this.index.entries.length ? QUOTED : 2 * QUOTED;
      if (text.includes(asked)) found.set(this.entries[id][0], gain);
    });
    return found;
  }

  // names of the glossary that are written much like the query
  alike(query) {
    const asked = plain(query);
    return this.names
      .map(({ name }) => {
        const away = distance(asked, plain(name)) / Math.max(asked.length, name.length);
        return { name, away };
      })
      .filter(({ away }) => away <= 0.5)
      .sort((a, b) => a.away - b.away)
      .slice(0, 3)
      .map(({ name }) => name);
  }
}

// words by which nothing is found
const IDLE = new Set([
  ...stopwords,
  ..."how what why when where which who do does did can could should would have has".split(" "),
  ..."i my me you we make get need needed work works mean means use used using so".split(" "),
  ..."from explain explained difference between vs versus".split(" "),
]);

const PICTURE = /^(picture|photo)(?=s?$)/; // one of them is said here, the other elsewhere
const american = (word) => word.replace(/is(ation|e|ed|er|es|ing)$/, "iz$1");

// the words of a text, in small letters; of a name like FlashAttention also its parts
function spoken(text, parted = true) {
  const bare = text.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").replace(/√/g, " sqrt ");
  const found = [];
  for (const word of bare.match(/\d+\.\d+|[\p{L}\p{N}]+/gu) || []) {
    const whole = word.toLowerCase();
    found.push(whole);
    if (parted && /[a-z][A-Z][a-z]/.test(word)) {
      found.push(...word.split(/(?<=[a-z])(?=[A-Z][a-z])/).map((part) => part.toLowerCase()));
    }
  }
  return found;
}

const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();

const isSwapped = (a, b) => a.length === b.length && [...a].sort().join() === [...b].sort().join();

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
    if (here > most) [from, most] = [Math.max(0, Math.min(i - 8, all.length - 32)), here];
  });
  const line = element("p", from ? "… " : "");
  for (let i = from; i < Math.min(all.length, from + 32); i++) {
    line.append(hits[i] ? element("mark", all[i]) : all[i], " ");
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

// what is said above the pages
function answer(search, query, found) {
  const elsewhere = [
    "look in the ", link("appendix/glossary.html", "glossary"), " or the ",
    link("intro.html", "contents"), "."];
  if (!query) return ["Type a word, a name or a question, or ", ...elsewhere];
  const nothing = `Nothing was found for “${query}”. `;
  if (!found.results.length) {
    const alike = search.alike(query).flatMap((name, i, all) => [
      i === 0 ? "Did you mean " : i === all.length - 1 ? " or " : ", ",
      link(`?q=${encodeURIComponent(name)}`, name)]);
    return [nothing, ...alike, alike.length ? "? Or " : "Try other words, or ", ...elsewhere];
  }
  if (!found.shown) return [`Pages for “${query}”`];
  return [nothing, "Showing results for “", element("strong", found.shown), "”."];
}

function show(search, query) {
  const place = document.getElementById("search-results");
  const found = search.find(query);
  place.querySelector("[role=status]").replaceChildren(...answer(search, query, found));
  const items = found.results.slice(0, SHOWN).map(({ page, entry }) => {
    const [address, title] = search.index.pages[page];
    const [, anchor, heading, text] = search.entries[entry] || [page, "", "", ""];
    const item = element("li", link(anchor ? `${address}#${anchor}` : address, title));
    if (anchor && heading !== title) item.append(` – ${heading}`);
    if (text) item.append(passage(search, text, found.words));
    return item;
  });
  place.querySelector("ul").replaceChildren(...items);
}

document.addEventListener("DOMContentLoaded", async () => {
  const field = document.querySelector(".bd-search-container input[name=q]");
  const said = element("p");
  said.role = "status"; // a screen reader says it
  const list = element("ul");
  list.className = "search";
  document.getElementById("search-results").append(said, list);
  field.value = new URLSearchParams(location.search).get("q") || "";
  const index = await (await fetch("_static/book/index.json")).json();
  window.bookSearch = new Search(index);
  show(window.bookSearch, field.value.trim());
  let waiting;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      history.replaceState(null, "", `?q=${encodeURIComponent(field.value)}`);
      show(window.bookSearch, field.value.trim());
    }, PAUSE);
  });
});
