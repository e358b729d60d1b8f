"use strict";

// What documents say becomes text nodes and nothing else: no markup, no address, no style comes from an answer.

const PAUSE = 250;
const MOST_AROUND = 24;
const byId = (id) => document.getElementById(id);
const ask = byId("ask"), query = byId("query"), hits = byId("hits"), shown = byId("shown"), status = byId("status");
let token = "", waiting = 0, asking = null, words = [];

function made(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== "" && child !== null && child !== undefined));
  return element;
}

function drawn(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function say(text, wrong = false) {
  status.textContent = text;
  status.classList.toggle("wrong", wrong);
}

async function answer(path, body, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body) headers["Content-Type"] = "application/json";
  const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  const said = await response.json().catch(() => ({ error: "The answer cannot be read." }));
  if (response.status === 401) {
    await tokenFromPerson(said.error);
    return answer(path, body, signal);
  }
  if (!response.ok) throw new Error(said.error || `Status ${response.status}.`);
  return said;
}

function tokenFromPerson(why) {
  const dialog = byId("token"), value = byId("token-value");
  say(why, true);
  value.value = "";
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve, reject) => {
    dialog.addEventListener("close", () => {
      token = value.value.trim();
      value.value = "";
      if (token) resolve();
      else reject(new Error("Without a token nothing is shown."));
    }, { once: true });
  });
}

// -- passages ---------------------------------------------------------------------------------------------------------

function versionOf(citation) {
  const found = /@v(\d+)#c\d+$/.exec(citation);
  return found ? `version ${found[1]}` : "";
}

function about(passage) {
  const page = passage.page_start ? `page ${passage.page_start}` : "";
  const parts = [passage.heading_path, page, versionOf(passage.citation), passage.source_locator];
  return made("p", { className: "about" },
    made("span", { className: `label ${passage.sensitivity}` }, passage.sensitivity),
    ...parts.filter(Boolean).map((part) => made("span", {}, String(part))));
}

// A term is a stem or a word as it is typed: words that begin with one are shown as found.
function marked(text) {
  const element = made("p", { className: "text" });
  if (!words.length) { element.textContent = text; return element; }
  const unspaced = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]/;
  for (const part of text.split(/([\p{L}\p{M}\p{N}]+)/u)) {
    const low = part.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
    const whole = words.some((word) => word.length > 2 ? low.startsWith(word) : low === word);
    if (whole && part && !unspaced.test(part)) element.append(made("mark", {}, part));
    else if (unspaced.test(part)) element.append(...markedInside(part));
    else element.append(part);
  }
  return element;
}

function markedInside(part) {
  const found = words.filter((word) => word.length > 1 && part.includes(word)).sort((a, b) => b.length - a.length);
  const pieces = [];
  for (let at = 0; at < part.length;) {
    const word = found.find((one) => part.startsWith(one, at));
    pieces.push(word ? made("mark", {}, word) : part[at]);
    at += word ? word.length : 1;
  }
  return pieces;
}

function explained(explain) {
  if (!explain || !explain.terms || !explain.terms.length) return "";
  const rows = explain.terms.map((one) => made("tr", {},
    made("td", {}, one.term), made("td", { className: "number" }, String(one.passages_with_it)),
    made("td", { className: "number" }, one.score.toFixed(3))));
  const head = made("tr", {}, made("th", { scope: "col" }, "term"), made("th", { scope: "col", className: "number" }, "passages with it"),
    made("th", { scope: "col", className: "number" }, "score"));
  return made("table", {}, made("thead", {}, head), made("tbody", {}, ...rows));
}

function hit(passage) {
  const title = passage.title || passage.doc_id;
  const item = made("li", { className: "hit" },
    made("h2", {}, made("button", { type: "button", onclick: () => { choose(item); open(passage.citation); } }, title)),
    about(passage), marked(passage.text), explained(passage.explain));
  return item;
}

function choose(item) {
  for (const one of hits.children) one.classList.toggle("chosen", one === item);
}

async function search() {
  clearTimeout(waiting);
  if (asking) asking.abort();
  const text = query.value.trim();
  if (!text) { hits.replaceChildren(); say(""); return; }
  asking = new AbortController();
  const filters = {};
  for (const name of ["topic", "entity", "geography", "period", "language"]) {
    if (ask.elements[name].value.trim()) filters[name] = ask.elements[name].value.trim();
  }
  try {
    const found = await answer("/search", { query: text, filters, top_k: 10, explain: true }, asking.signal);
    words = [...new Set([...text.toLowerCase().split(/[^\p{L}\p{M}\p{N}]+/u),
      ...found.snippets.flatMap((one) => one.explain && one.explain.terms ? one.explain.terms.map((term) => term.term) : [])])]
      .map((word) => word.normalize("NFKD").replace(/\p{M}/gu, "")).filter(Boolean);
    const shows = ask.elements.explain.checked;
    hits.replaceChildren(...found.snippets.map((one) => hit(shows ? one : { ...one, explain: null })));
    const corrected = Object.entries(found.corrected || {}).map(([typed, read]) => `${typed} was read as ${[read].flat().join(", ")}`);
    const count = found.snippets.length;
    say([count ? `${count} passages, the best first.` : "Nothing found. Try other words, or fewer filters.", ...corrected].join(" "));
  } catch (error) {
    if (error.name !== "AbortError") { hits.replaceChildren(); say(error.message, true); }
  }
}

// -- one passage in its document --------------------------------------------------------------------------------------

const passagePath = (citation) => `/chunks/${encodeURIComponent(citation)}`;

async function open(citation) {
  try {
    const passage = await answer(passagePath(citation));
    const [before, behind] = await Promise.all([passage.previous, passage.next]
      .map((one) => (one ? answer(passagePath(one)) : null)));
    const neighbour = (one) => (one ? made("p", { className: "text neighbour" }, one.text) : "");
    const way = (name, to) => made("button", { type: "button", disabled: !to, onclick: () => open(to) }, name);
    const graph = (name, kind, id) => made("button", { type: "button", onclick: () => showGraph(kind, id) }, name);
    show(passage.title || passage.doc_id,
      about(passage),
      neighbour(before), marked(passage.text), neighbour(behind),
      made("div", { className: "ways" }, way("Before it", passage.previous), way("Behind it", passage.next),
        graph("Graph of the document", "doc", passage.doc_id),
        passage.entity ? graph(`Graph of ${passage.entity}`, "entity", passage.entity) : ""),
      made("p", { className: "about" }, `Cite it as ${passage.citation}`));
  } catch (error) { say(error.message, true); }
}

function show(title, ...content) {
  document.querySelector("main").classList.add("open");
  shown.hidden = false;
  shown.replaceChildren(
    made("div", { className: "ways" }, made("button", { type: "button", onclick: close }, "Close")),
    made("h2", {}, title), ...content.filter((one) => one !== ""));
  shown.focus();
}

function close() {
  shown.hidden = true;
  document.querySelector("main").classList.remove("open");
  (hits.querySelector(".chosen button") || query).focus();
}

// -- the graph around a node ------------------------------------------------------------------------------------------

async function showGraph(kind, id) {
  try {
    const part = await answer(`/graph/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`);
    const key = (type, node) => `${type}\u0000${node}`;
    const middle = key(kind, id);
    const near = part.nodes.filter((one) => key(one.type, one.id) !== middle).slice(0, MOST_AROUND);
    const places = new Map([[middle, [320, 200]]]);
    near.forEach((one, at) => {
      const angle = (2 * Math.PI * at) / Math.max(near.length, 1) - Math.PI / 2;
      places.set(key(one.type, one.id), [320 + 215 * Math.cos(angle), 200 + 155 * Math.sin(angle)]);
    });
    const lines = part.edges.map((edge) => [places.get(key(edge.src_type, edge.src)), places.get(key(edge.dst_type, edge.dst)), edge])
      .filter(([from, to]) => from && to)
      .map(([[x1, y1], [x2, y2], edge]) => drawn("line", { x1, y1, x2, y2, class: edge.verified ? "" : "unverified" }));
    const nodes = part.nodes.filter((one) => places.has(key(one.type, one.id))).map((one) => {
      const [x, y] = places.get(key(one.type, one.id));
      const name = one.label || one.id, there = key(one.type, one.id) === middle;
      const node = drawn("g", there ? {} : { role: "button", tabindex: "0", "aria-label": `${one.type} ${name}` },
        drawn("circle", { cx: x, cy: y, r: there ? 11 : 7, class: `${one.type === "doc" ? "doc" : ""} ${there ? "middle" : ""}` }),
        drawn("text", { x, y: y + (y < 200 ? -13 : 24), "text-anchor": x < 120 ? "start" : x > 520 ? "end" : "middle" },
          name.length > 28 ? `${name.slice(0, 27)}…` : name));
      if (!there) {
        node.addEventListener("click", () => showGraph(one.type, one.id));
        node.addEventListener("keydown", (event) => { if (event.key === "Enter") showGraph(one.type, one.id); });
      }
      return node;
    });
    const rows = part.edges.slice(0, 200).map((edge) => made("tr", {},
      made("td", {}, edge.src), made("td", {}, edge.type), made("td", {}, edge.dst),
      made("td", {}, edge.verified ? "" : "asserted by a model, unverified")));
    const name = (part.nodes.find((one) => key(one.type, one.id) === middle) || { id }).label || id;
    show(`${name}: what the graph says`,
      drawn("svg", { viewBox: "0 0 640 400", role: "img", "aria-label": `Graph around ${name}` }, ...lines, ...nodes),
      made("table", {}, made("tbody", {}, ...rows)),
      part.nodes.length - 1 > near.length || part.more ? made("p", { className: "about" }, "Not all of it is shown.") : "");
  } catch (error) { say(error.message, true); }
}

// -- what happens -----------------------------------------------------------------------------------------------------

ask.addEventListener("submit", (event) => { event.preventDefault(); search(); });
ask.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, PAUSE); });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !shown.hidden && !byId("token").open) close();
  if (event.key === "/" && document.activeElement.tagName !== "INPUT") { event.preventDefault(); query.focus(); }
  if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !byId("more").contains(document.activeElement)) {
    const buttons = [...hits.querySelectorAll("h2 button")];
    const at = buttons.indexOf(document.activeElement);
    const next = buttons[Math.max(at + (event.key === "ArrowDown" ? 1 : -1), 0)];
    if (next && (at >= 0 || document.activeElement === query)) { event.preventDefault(); next.focus(); }
  }
});
fetch("/healthz").then((response) => response.json()).then((said) => {
  if (said.snapshot) byId("release").textContent = `Snapshot ${said.snapshot}, published ${String(said.published_at || "").slice(0, 16).replace("T", " ")}.`;
}).catch(() => {});
