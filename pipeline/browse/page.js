"use strict";
// Everything shown is set as text, never as HTML: file names come from whoever made the files.

const $ = (id) => document.getElementById(id);
const form = $("search"), grid = $("grid"), record = $("record");
const state = { entries: [], page: 0, pages: 1, at: 0, opened: null, asked: 0, opening: 0, marking: Promise.resolve() };

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The server has ended; start image-pipeline browse again.");
  }
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function tell(error) {
  $("trouble").hidden = !error;
  $("trouble").textContent = error ? error.message : "";
}

function make(kind, properties = {}, ...children) {
  const node = Object.assign(document.createElement(kind), properties);
  node.append(...children);
  return node;
}

function query() {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value && !(name === "order" && value === "stored")) asked.set(name, value);
  }
  if (state.page) asked.set("page", state.page);
  return asked;
}

// The search is kept behind the #, so that a reload, or a link to it, shows the same.
async function search(focus = false) {
  const asked = query(), turn = ++state.asked;
  history.replaceState(null, "", asked.size ? "#" + asked : location.pathname);
  try {
    const found = await ask("search?" + asked);
    if (turn !== state.asked) return;
    tell(null);
    Object.assign(state, { entries: found.entries, page: found.page, pages: found.pages, at: 0 });
    show(found);
    if (focus) select(0);
  } catch (error) {
    if (turn === state.asked) tell(error);
  }
}

function show(found) {
  const number = (value) => value.toLocaleString("en");
  $("count").textContent = found.found === found.of
    ? number(found.of) + " in all" : number(found.found) + " of " + number(found.of);
  $("marked").textContent = number(found.marked);
  $("page").value = found.page + 1;
  $("page").max = found.pages;
  $("pages").textContent = "of " + number(found.pages);
  $("before").disabled = !found.page;
  $("next").disabled = found.page + 1 >= found.pages;
  grid.replaceChildren(...found.entries.map(makeCard));
}

function makeCard(entry, place) {
  const frame = make("span", { className: "frame" }, makeImage(
    `record/${entry.number}/thumbnail.picture`, "", () => frame.replaceChildren("no picture")));
  const said = [entry.label, entry.split || entry.state, entry.size, entry.state === "stored" ? "" : entry.reason];
  const card = make("button", { type: "button" }, frame,
    make("span", { className: "name", textContent: entry.path, title: entry.path }),
    make("span", { className: "soft", textContent: said.filter(Boolean).join(" · ") }));
  card.tabIndex = place ? -1 : 0;
  card.onclick = () => { select(place); open(entry.number); };
  card.onfocus = () => { state.at = place; };
  showMark(card, entry);
  return card;
}

function makeImage(address, title, onMissing) {
  const image = make("img", { alt: title, loading: "lazy", decoding: "async" });
  image.onload = () => image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) <= 128);
  image.onerror = onMissing;
  image.src = address;
  return image;
}

function showMark(card, entry) {
  card.classList.toggle("marked", entry.is_marked);
  card.setAttribute("aria-label", `${entry.path}, ${entry.label || entry.state}${entry.is_marked ? ", marked" : ""}`);
}

function select(place) {
  const cards = grid.children;
  if (!cards.length) return;
  cards[state.at] && (cards[state.at].tabIndex = -1);
  state.at = Math.max(0, Math.min(place, cards.length - 1));
  cards[state.at].tabIndex = 0;
  cards[state.at].focus();
}

// One after another: each turns what the one before has made of it.
function mark(entry) {
  state.marking = state.marking.then(() => turnMark(entry));
}

async function turnMark(entry) {
  try {
    const wanted = !entry.is_marked;
    const answer = await ask("mark", { numbers: [entry.number], marked: wanted });
    entry.is_marked = wanted;
    $("marked").textContent = answer.marked.toLocaleString("en");
    const place = state.entries.findIndex((each) => each.number === entry.number);
    if (place >= 0) {
      state.entries[place].is_marked = wanted;
      showMark(grid.children[place], state.entries[place]);
    }
    showOpenedMark();
    tell(null);
  } catch (error) {
    tell(error);
    if (record.open) alert(error.message);
  }
}

function showOpenedMark() {
  const isMarked = Boolean(state.opened && state.opened.is_marked);
  $("mark").setAttribute("aria-pressed", isMarked);
  $("mark").textContent = isMarked ? "Marked" : "Mark";
}

async function open(number) {
  const turn = ++state.opening;
  try {
    const told = await ask("record/" + number);
    if (turn !== state.opening) return; // Another has been asked for meanwhile.
    state.opened = told.entry;
    $("record-path").textContent = told.entry.path;
    showOpenedMark();
    $("facts").replaceChildren(...told.facts.map(([name, value]) =>
      make("tr", {}, make("th", { scope: "row", textContent: name.replaceAll("_", " ") }), make("td", { textContent: value }))));
    $("back").disabled = state.at === 0 && state.page === 0;
    $("forth").disabled = state.at + 1 === state.entries.length && state.page + 1 >= state.pages;
    $("about").hidden = told.entry.state !== "stored";
    if (!record.open) record.showModal();
    record.scrollTop = 0;
    await drawPictures(told);
  } catch (error) {
    tell(error);
  }
}

function drawnSuffix() {
  return $("drawn") && $("drawn").checked ? "?drawn" : "";
}

async function drawPictures(told) {
  const number = told.entry.number, suffix = drawnSuffix();
  state.told = told;
  $("pictures").replaceChildren(...told.pictures.map((name) =>
    makeFigure(number, name, name, [], name === "stored" ? suffix : "")));
  if (!told.has_views) return;
  const waiting = make("figure", {}, make("div", { className: "absent", textContent: "The views are being made …" }));
  $("pictures").append(waiting);
  try {
    const views = await ask(`record/${number}/views${suffix}`);
    if (state.told !== told || suffix !== drawnSuffix()) return;
    waiting.replaceWith(...views.map((view, place) =>
      makeFigure(number, place, view.title, view.captions, suffix)));
  } catch (error) {
    waiting.firstChild.textContent = error.message;
  }
}

function makeFigure(number, name, title, captions, suffix) {
  const address = `record/${number}/${name}.picture${suffix}`;
  const caption = make("figcaption", {}, make("b", { textContent: title }));
  const figure = make("figure", {});
  const image = makeImage(address, title, async () => {
    let why = "no picture";
    try { await ask(address); } catch (error) { why = error.message; }
    image.replaceWith(make("div", { className: "absent", textContent: why }));
  });
  image.loading = "eager";
  image.addEventListener("load", () => {
    // Small views are magnified by whole pixels, so that each is seen.
    const times = Math.floor(256 / Math.max(image.naturalWidth, image.naturalHeight));
    if (times > 1) image.width = image.naturalWidth * times;
    caption.append(` ${image.naturalWidth} × ${image.naturalHeight}`);
  }, { once: true });
  for (const line of captions) caption.append(make("br"), line);
  figure.append(image, caption);
  return figure;
}

async function turn(pages, place = 0) {
  const wanted = state.page + pages;
  if (wanted < 0 || wanted >= state.pages) return false;
  state.page = wanted;
  await search();
  select(place < 0 ? state.entries.length - 1 : place);
  return true;
}

async function step(by) {
  const place = state.at + by;
  if (place >= 0 && place < state.entries.length) select(place);
  else if (!await turn(Math.sign(by), by > 0 ? 0 : -1)) return;
  if (record.open) open(state.entries[state.at].number);
}

function rowLength() {
  return getComputedStyle(grid).gridTemplateColumns.split(" ").length;
}

const KEYS = {
  ArrowRight: () => step(1), j: () => step(1), ArrowLeft: () => step(-1), k: () => step(-1),
  ArrowDown: () => select(state.at + rowLength()), ArrowUp: () => select(state.at - rowLength()),
  n: () => turn(1), p: () => turn(-1), m: () => state.entries.length && mark(state.opened || state.entries[state.at]),
  o: () => $("drawn") && $("drawn").click(),
  "/": () => form.elements.path.focus(),
};

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input:not([type=checkbox]), select");
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping) {
    if (event.key === "Escape" && isTyping) event.target.blur();
    return;
  }
  const scrolls = record.open && (event.key === "ArrowDown" || event.key === "ArrowUp");
  if (KEYS[event.key] && !scrolls) {
    event.preventDefault();
    KEYS[event.key]();
  } else if (event.key === "Enter" && event.target === document.body && state.entries.length) {
    open(state.entries[state.at].number);
  }
});

let waiting;
form.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { state.page = 0; search(); }, 200);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(waiting);
  state.page = 0;
  search(true);
});
form.addEventListener("reset", () => setTimeout(() => { state.page = 0; search(); }));
$("before").onclick = () => turn(-1);
$("next").onclick = () => turn(1);
$("page").onchange = () => { state.page = Math.max(0, Math.min($("page").value - 1 || 0, state.pages - 1)); search(); };
$("close").onclick = () => record.close();
$("back").onclick = () => step(-1);
$("forth").onclick = () => step(1);
$("mark").onclick = () => mark(state.opened);
if ($("drawn")) $("drawn").onchange = () => drawPictures(state.told);
record.addEventListener("close", () => {
  // The browser has given the focus back to the card that was opened first.
  const place = state.opened ? state.entries.findIndex((each) => each.number === state.opened.number) : -1;
  state.opened = null;
  select(place < 0 ? state.at : place);
});

for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
  const field = form.elements[name];
  if (name === "page") state.page = Number(value) || 0;
  else if (field && field.type === "checkbox") field.checked = true;
  else if (field) field.value = value;
}
search();
