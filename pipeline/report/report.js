"use strict";
// The page is whole without this: it filters, sorts, enlarges and copies.
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const one = (selector, within = document) => within.querySelector(selector);
document.documentElement.classList.add("js");

// Contents: folded while they would fill a small screen; a link opens the section it leads to.
const narrow = matchMedia("(max-width: 56rem)");
const foldContents = () => (one("nav details").open = !narrow.matches);
narrow.addEventListener("change", foldContents);
foldContents();
function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && one(":scope > details", target)) {
    one(":scope > details", target).open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", openTarget);
addEventListener("click", (event) => { // Also where the address stays what it is.
  if (event.target.closest("a[href^='#']")) setTimeout(openTarget);
});
openTarget();

// Filter: by a figure's class (any of its tags, or of its boxes' classes), split, reason and path,
// and by a table row's class.
const filter = one(".filter");
const fields = all("select, input", filter);
const figures = all("figure");
const rows = all("tr[data-class]");
const output = one("output", filter);
const names = new Map(figures.map((figure) => [figure, JSON.parse(figure.dataset.names)]));
const pathOf = (figure) => JSON.parse(figure.dataset.path);
const read = (figure, name) => (name === "class" ? names.get(figure) : [figure.dataset[name]]);
for (const field of all("select", filter)) {
  const values = new Set(figures.flatMap((figure) => read(figure, field.name)).filter(Boolean));
  for (const value of [...values].sort()) field.add(new Option(value, value));
  field.parentElement.hidden = values.size === 0;
}
function isShown(figure) {
  return fields.every(({ name, value }) => {
    if (!value) return true;
    if (name === "path") return pathOf(figure).toLowerCase().includes(value.toLowerCase());
    return read(figure, name).includes(value);
  });
}
function applyFilter() {
  for (const figure of figures) figure.hidden = !isShown(figure);
  const label = one("[name=class]", filter).value;
  for (const row of rows) row.hidden = Boolean(label) && row.dataset.class !== label;
  for (const group of all(".pictures")) {
    const own = all("figure", group);
    group.hidden = own.length > 0 && own.every((figure) => figure.hidden);
    const whole = group.closest(".group");
    if (whole) whole.hidden = group.hidden;
    const title = group.previousElementSibling;
    if (title && title.tagName === "H4") title.hidden = group.hidden;
  }
  const shown = figures.filter((figure) => !figure.hidden).length;
  output.textContent = `${shown} of ${figures.length} pictures`;
}
for (const field of fields) field.addEventListener("input", applyFilter);
const unfold = one("[name=unfold]", filter);
unfold.addEventListener("click", () => {
  const parts = all("section > details");
  const open = parts.some((part) => !part.open);
  for (const part of parts) part.open = open;
  unfold.textContent = open ? "Fold all" : "Unfold all";
});
filter.hidden = figures.length === 0;
applyFilter();

// Tables: long ones show their first rows; a heading sorts by its column.
const FIRST = 20;
for (const table of all("table.long")) {
  const body = table.tBodies[0];
  if (body.rows.length <= FIRST) continue;
  const more = document.createElement("button");
  let isWhole = false;
  const cut = () => {
    [...body.rows].forEach((row, n) => (row.style.display = isWhole || n < FIRST ? "" : "none"));
    more.textContent = isWhole ? `Show the first ${FIRST}` : `Show all ${body.rows.length}`;
  };
  more.type = "button";
  more.addEventListener("click", () => { isWhole = !isWhole; cut(); });
  table.addEventListener("sorted", cut);
  for (const field of fields) {
    field.addEventListener("input", () => { isWhole = isWhole || Boolean(field.value); cut(); });
  }
  table.after(more);
  cut();
}
function readCell(row, column, isNumber) {
  const text = row.cells[column].textContent.trim();
  if (!isNumber) return text;
  const number = parseFloat(text.replaceAll(",", ""));
  const unit = { kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 }[text.split(" ")[1]] || 1;
  return number * unit;
}
function compare(a, b, sign) {
  if (typeof a === "string") return sign * a.localeCompare(b, undefined, { numeric: true });
  const lacking = Number.isNaN(a) - Number.isNaN(b); // What is not a number comes last, either way.
  return lacking || Number.isNaN(a) ? lacking : sign * (a - b);
}
function sortBy(table, heading) {
  const column = heading.cellIndex;
  const wasFirst = heading.getAttribute("aria-sort");
  const isNumber = heading.classList.contains("n");
  const sign = wasFirst ? (wasFirst === "ascending" ? -1 : 1) : isNumber ? -1 : 1;
  const ordered = [...table.tBodies[0].rows].sort(
    (a, b) => compare(readCell(a, column, isNumber), readCell(b, column, isNumber), sign));
  for (const each of all("th", table.tHead)) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  table.tBodies[0].append(...ordered);
  table.dispatchEvent(new Event("sorted"));
}
for (const table of all("table.sortable")) {
  for (const heading of all("th", table.tHead)) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sortBy(table, heading));
    heading.append(button);
  }
}

// Each table as CSV (RFC 4180): numbers without their thousands' commas, and no text that a
// spreadsheet would take for a formula, as evaluation/facts.py writes it.
const FORMULA = /^'*[=@]|^'*[+-](?![\d.,]+(e[+-]?\d+)?$)/;
function writeCell(cell) {
  let text = cell.textContent.trim().replace(/\s+/g, " ");
  if (cell.classList.contains("n")) text = text.replace(/(\d),(?=\d{3})/g, "$1");
  if (FORMULA.test(text)) text = `'${text}`;
  return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
function writeCsv(table) {
  return [...table.rows].map((row) => `${[...row.cells].map(writeCell).join()}\r\n`).join("");
}
for (const table of all("table")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "csv";
  button.textContent = "copy as CSV";
  button.addEventListener("click", () => copy(writeCsv(table), button));
  table.after(button);
}

// Copying: the clipboard, or, where a browser keeps it from pages on disk, a selected text.
const labels = new Map();
async function copy(text, button) {
  let said = "copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    const give = (event) => { // The text itself: a field's has its ends of lines changed.
      event.clipboardData.setData("text/plain", text);
      event.preventDefault();
    };
    area.value = text;
    area.className = "copying";
    (button.closest("dialog") || document.body).append(area);
    area.select();
    area.addEventListener("copy", give);
    if (!document.execCommand("copy")) said = "not copied";
    area.remove();
    button.focus({ preventScroll: true });
  }
  if (!labels.has(button)) labels.set(button, button.textContent);
  button.textContent = said;
  setTimeout(() => (button.textContent = labels.get(button)), 1000);
}
for (const button of all("button.copy")) {
  button.addEventListener("click", () => copy(pathOf(button.closest("figure")), button));
}

// The viewer: a picture large, with all that is known of it.
const viewer = document.getElementById("viewer");
let current = null;
const FACTS = ["path", "class", "split", "prediction", "reason", "note"];
function show(figure) {
  current = figure;
  const own = one("img", figure);
  const large = one("img", viewer);
  large.src = own.src;
  large.alt = own.alt;
  large.className = own.className;
  one("dl", viewer).replaceChildren(...FACTS.filter((name) => figure.dataset[name]).flatMap((name) => {
    const term = document.createElement("dt");
    const fact = document.createElement("dd");
    term.textContent = name;
    fact.textContent = name === "path" ? own.alt : figure.dataset[name];
    return [term, fact];
  }));
  if (!viewer.open) viewer.showModal();
}
function step(by) {
  const shown = figures.filter((figure) => one("img", figure) && figure.checkVisibility());
  const next = shown[(shown.indexOf(current) + by + shown.length) % shown.length];
  if (next) show(next);
}
for (const button of all("button.open")) {
  button.addEventListener("click", () => show(button.closest("figure")));
}
one("[name=previous]", viewer).addEventListener("click", () => step(-1));
one("[name=next]", viewer).addEventListener("click", () => step(1));
one("[name=close]", viewer).addEventListener("click", () => viewer.close());
one("[name=copy]", viewer).addEventListener(
  "click", (event) => copy(pathOf(current), event.currentTarget));
viewer.addEventListener("keydown", (event) => {
  if (event.key === "ArrowLeft") step(-1);
  if (event.key === "ArrowRight") step(1);
});
viewer.addEventListener("click", (event) => { if (event.target === viewer) viewer.close(); });
viewer.addEventListener("close", () => current && one(".open", current).focus());
