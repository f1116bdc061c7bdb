// SPDX-License-Identifier: Apache-2.0
// The search, the theme and the list of pages on narrow screens. Without scripts all texts and
// links of a page still work.
"use strict";

const root = document.body.dataset.root;
const field = document.getElementById("site-search");
const found = document.getElementById("site-found");

document.getElementById("site-theme").addEventListener("click", () => {
  const element = document.documentElement;
  const isDark = element.dataset.theme
    ? element.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  element.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("theme", element.dataset.theme);
  } catch { /* the choice ends with the page */ }
});

const pages = document.getElementById("site-pages");
const menu = document.getElementById("site-menu");
menu.addEventListener("click", () => {
  menu.setAttribute("aria-expanded", String(pages.classList.toggle("open")));
});
const current = pages.querySelector("[aria-current]");
if (current && pages.clientHeight) {
  pages.scrollTop = current.offsetTop - pages.clientHeight / 2;
}

const noise = new Set(
  ("a an and are as at be by can do does for from get have how i if in is it my of on or should " +
    "that the there this to use using what when where which who why will with you gyre").split(" "));
const alike = {
  abort: ["stop", "cancel"], cancel: ["stop"], docker: ["container"], exit: ["shutdown", "stop"],
  quit: ["shutdown", "stop"], kill: ["stop"], size: ["bytes"], ssl: ["tls"], https: ["tls"],
  threads: ["workers"], cores: ["workers", "processors"], timeout: ["timeouts", "time limit"],
  timeouts: ["time limits", "timeout"], fd: ["descriptors"], descriptors: ["emfile"],
  limit: ["limits", "max"], limits: ["limit"], maximum: ["max", "limit"], graceful: ["stop"],
  gracefully: ["stop"], install: ["package"], leak: ["memory grows"], cpu: ["processor"],
};

// A term in the plural also finds the singular.
function stem(word) {
  return word.length > 4 && word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word;
}

let entries = null;
function prepare() {
  entries = window.gyreIndex.map(([title, where, url, kind, text]) => {
    const low = title.toLowerCase();
    return {
      title, where, url, kind, text, low,
      words: low.split(/[^a-z0-9]+/).filter(Boolean),
      last: low.split("::").pop(),
      body: ` ${(text + " " + where).toLowerCase()}`,
    };
  });
}

function score(entry, term) {
  if (entry.low === term) return 40;
  if (entry.last === term) return 26;
  if (entry.words.includes(term)) return 14;
  if (entry.words.some((word) => word.startsWith(term))) return 9;
  if (term.length > 2 && entry.low.includes(term)) return 6;
  if (term.includes("::") && entry.body.includes(term)) return 6;
  const at = entry.body.search(new RegExp(`[^a-z0-9]${term.replace(/[^a-z0-9]/g, "\\$&")}`));
  return at >= 0 ? 3 : 0;
}

const weightOf = { question: 1.4, page: 1.25, section: 1.15, class: 1.15, struct: 1.1, value: 0.8 };

function search(query) {
  const low = query.toLowerCase().trim();
  const all = low.split(/[^a-z0-9_:]+/).filter(Boolean);
  const kept = all.filter((word) => !noise.has(word));
  const terms = (kept.length ? kept : all).map((word) => {
    const others = [...(alike[word] || []), ...(alike[stem(word)] || [])];
    return { word: stem(word), others: others.filter((each) => each !== word) };
  });
  if (!terms.length) return [];
  const scores = terms.map(({ word, others }) => entries.map((entry) => {
    const own = score(entry, word);
    return others.reduce((best, each) => Math.max(best, 0.6 * score(entry, each)), own);
  }));
  const rarity = scores.map((column) => {
    const hits = column.reduce((sum, each) => sum + (each > 0), 0);
    return Math.log(1 + entries.length / (1 + hits));
  });
  const results = [];
  entries.forEach((entry, number) => {
    let sum = 0;
    let hits = 0;
    scores.forEach((column, index) => {
      if (column[number] > 0) {
        sum += column[number] * rarity[index];
        ++hits;
      }
    });
    if (!hits) return;
    const share = hits / terms.length;
    const compact = low.replace(/\s+/g, "_");
    if (entry.last === compact || entry.low === low) sum += 200;
    results.push([sum * share * share * (weightOf[entry.kind] || 1), entry]);
  });
  results.sort((one, other) => other[0] - one[0] || one[1].title.length - other[1].title.length);
  return results.slice(0, 20).map(([, entry]) => ({ entry, terms: terms.map(({ word }) => word) }));
}

// Adds the text to the element; the terms in it are marked.
function marked(element, text, terms) {
  const pattern = new RegExp(`(${terms.map((each) => each.replace(/[^a-z0-9]/g, "\\$&")).join("|")})`, "i");
  for (const part of text.split(pattern)) {
    if (terms.includes(part.toLowerCase())) {
      element.append(Object.assign(document.createElement("mark"), { textContent: part }));
    } else {
      element.append(part);
    }
  }
}

// The part of a text around the first term.
function excerpt(text, terms) {
  const low = text.toLowerCase();
  const places = terms.map((each) => low.indexOf(each)).filter((place) => place >= 0);
  const begin = Math.max(0, (places.length ? Math.min(...places) : 0) - 40);
  return (begin ? "… " : "") + text.slice(begin, begin + 150) + (text.length > begin + 150 ? " …" : "");
}

function show() {
  if (!entries) return;
  found.replaceChildren();
  found.hidden = !field.value.trim();
  if (found.hidden) return;
  const results = search(field.value);
  if (!results.length) {
    found.append(Object.assign(document.createElement("p"), { textContent: "Nothing found." }));
  }
  for (const { entry, terms } of results) {
    const line = Object.assign(document.createElement("a"), { href: root + entry.url });
    const where = document.createElement("span");
    where.className = "where";
    where.textContent = `${entry.where} · ${entry.kind}`;
    const title = document.createElement("strong");
    marked(title, entry.title, terms);
    const text = document.createElement("span");
    text.className = "text";
    marked(text, excerpt(entry.text, terms), terms);
    line.append(where, title, text);
    line.addEventListener("click", () => { found.hidden = true; });
    found.append(line);
  }
}

function load() {
  if (entries || document.getElementById("site-index")) return;
  const script = Object.assign(document.createElement("script"), {
    id: "site-index", src: `${root}search-index.js`,
  });
  script.addEventListener("load", () => { prepare(); show(); });
  document.head.append(script);
}
field.addEventListener("focus", load);
field.addEventListener("input", () => { load(); show(); });
field.addEventListener("keydown", (event) => {
  const lines = [...found.querySelectorAll("a")];
  const at = lines.findIndex((line) => line.classList.contains("chosen"));
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const step = event.key === "ArrowDown" ? 1 : -1;
    const next = lines[Math.max(0, Math.min(lines.length - 1, at + step))];
    lines.forEach((line) => line.classList.toggle("chosen", line === next));
    if (next) next.scrollIntoView({ block: "nearest" });
    event.preventDefault();
  } else if (event.key === "Enter" && lines.length) {
    lines[Math.max(0, at)].click();
  } else if (event.key === "Escape") {
    found.hidden = true;
    field.blur();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    field.focus();
  }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) found.hidden = true;
});

// Long tables of options can be filtered.
for (const table of document.querySelectorAll("table.options")) {
  if (table.rows.length < 20) continue;
  const filter = Object.assign(document.createElement("input"), {
    className: "filter", type: "search", placeholder: "Filter this table, such as body or timeout",
  });
  filter.setAttribute("aria-label", "filter the table");
  filter.addEventListener("input", () => {
    const terms = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const body of table.tBodies) {
      let visible = 0;
      const name = body.id.toLowerCase();
      for (const row of body.rows) {
        if (row.className === "structure") continue;
        const text = `${name} ${row.textContent.toLowerCase()}`;
        row.hidden = !terms.every((term) => text.includes(term));
        visible += !row.hidden;
      }
      const head = body.querySelector(".structure");
      if (head) head.hidden = !visible;
    }
  });
  table.parentElement.before(filter);
}
