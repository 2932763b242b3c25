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

// Two fields of the form ask for a batch of training instead of a search.
const isBatch = () => Boolean(form.elements.epoch.value || form.elements.step.value);

function query() {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value && !(name === "order" && value === "stored")) asked.set(name, value);
  }
  if (state.page && !isBatch()) asked.set("page", state.page);
  return asked;
}

// The address says what is shown, so that a reload, or a link to it, shows the same.
function showAddress() {
  const asked = query();
  if (state.opened) asked.set("record", state.opened.number);
  history.replaceState(null, "", asked.size ? "?" + asked : location.pathname);
}

async function search(focus = false, asked = query()) {
  const turn = ++state.asked;
  if (isBatch()) $("count").textContent = "The batch is being made; the first takes some seconds, since TensorFlow is loaded for it …";
  try {
    const found = await ask("search?" + asked);
    if (turn !== state.asked) return;
    tell(null);
    Object.assign(state, { entries: found.entries, page: found.page, pages: found.pages, at: 0 });
    show(found);
    showAddress();
    if (focus) select(0);
    if ("opened" in found) {
      select(Math.max(0, found.entries.findIndex((each) => each.number === found.opened)));
      await open(found.opened);
    }
  } catch (error) {
    if (turn !== state.asked) return;
    tell(error);
    Object.assign(state, { entries: [], page: 0, pages: 1, at: 0 });
    grid.replaceChildren();
    $("count").textContent = "Nothing to show.";
  }
}

function show(found) {
  const number = (value) => value.toLocaleString("en");
  const batch = "epoch" in found, first = batch ? 0 : 1, last = found.pages - 1 + first;
  $("count").textContent = batch
    ? `Epoch ${number(found.epoch)}, step ${number(found.page)}: ${number(found.found)} pictures in the order in which they are fed`
    : found.found === found.of ? number(found.of) + " in all" : number(found.found) + " of " + number(found.of);
  $("marked").textContent = number(found.marked);
  $("turned").textContent = batch ? "Step" : "Page";
  Object.assign($("page"), { value: found.page + first, min: first, max: last });
  $("pages").textContent = (batch ? "up to " : "of ") + number(last);
  $("before").disabled = !found.page;
  $("next").disabled = found.page + 1 >= found.pages;
  grid.replaceChildren(...found.entries.map(makeCard));
}

function makeCard(entry, place) {
  const frame = make("span", { className: "frame" }, makeImage(
    entry.picture || `record/${entry.number}/thumbnail.picture`, "", () => frame.replaceChildren("no picture")));
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
    const answer = await ask("mark", { number: entry.number, marked: wanted });
    entry.is_marked = wanted;
    $("marked").textContent = answer.marked.toLocaleString("en");
    state.entries.forEach((each, place) => { // A batch may have a record more than once.
      if (each.number !== entry.number) return;
      each.is_marked = wanted;
      showMark(grid.children[place], each);
    });
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
    showAddress();
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
    makeFigure(`record/${number}/${name}.picture${name === "stored" ? suffix : ""}`, name)));
  if (!told.has_views) return;
  const waiting = make("figure", {}, make("div", { className: "absent",
    textContent: "The views are being made; the first take some seconds, since TensorFlow is loaded for them …" }));
  const shown = [...$("pictures").querySelectorAll("img")].map((image) => image.complete
    || new Promise((done) => { image.addEventListener("load", done); image.addEventListener("error", done); }));
  $("pictures").append(waiting);
  await Promise.all(shown); // What is there at once comes first.
  if (state.told !== told || suffix !== drawnSuffix()) return;
  try {
    const views = await ask(`record/${number}/views${suffix}`);
    if (state.told !== told || suffix !== drawnSuffix()) return;
    waiting.replaceWith(...views.map((view) =>
      makeFigure(view.picture, view.title, view.captions)));
  } catch (error) {
    waiting.firstChild.textContent = error.message;
  }
}

function makeFigure(address, title, captions = []) {
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

function goTo(page) {
  state.page = page;
  if (isBatch()) form.elements.step.value = page;
}

async function turn(pages, place = 0) {
  const wanted = state.page + pages;
  if (wanted < 0 || wanted >= state.pages) return false;
  goTo(wanted);
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
form.addEventListener("input", (event) => {
  clearTimeout(waiting);
  if (!["epoch", "step"].includes(event.target.name)) form.elements.epoch.value = form.elements.step.value = "";
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
$("page").onchange = () => { goTo(Math.max(0, Math.min($("page").value - $("page").min || 0, state.pages - 1))); search(); };
$("close").onclick = () => record.close();
$("back").onclick = () => step(-1);
$("forth").onclick = () => step(1);
$("mark").onclick = () => mark(state.opened);
if ($("drawn")) $("drawn").onchange = () => drawPictures(state.told);
record.addEventListener("close", () => {
  // The browser has given the focus back to the card that was opened first.
  const place = state.opened ? state.entries.findIndex((each) => each.number === state.opened.number) : -1;
  state.opened = null;
  showAddress();
  select(place < 0 ? state.at : place);
});

// The link is asked for as it is, so that what is wrong with it is said.
const link = new URLSearchParams(location.search);
for (const [name, value] of link) {
  const field = form.elements.namedItem(name);
  if (field && field.type === "checkbox") field.checked = true;
  else if (field) field.value = value;
}
search(false, link);
