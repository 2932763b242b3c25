"""The page of `report` in a browser: its tables, its width, and a person's way through by keys."""

import itertools
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

from benchmarks.chromium import WIDTHS, Tab
from tests.drawings import draw_smooth, encode_png

# What a person who has only keys must reach, where it is to be seen.
_CONTROLS = "a[href], button, input, select, summary, [tabindex='0']"
# What has the focus: whether it has a ring, is not covered, and lies folded; None without any.
_HELPERS = """
window.numbers = new Map();
window.describeFocus = () => {
  const e = document.activeElement;
  if (!e || e === document.body) return null;
  if (!numbers.has(e)) numbers.set(e, numbers.size);
  const style = getComputedStyle(e);
  const parts = [...e.getClientRects()].map((box) => [
    Math.max(box.left, 0), Math.max(box.top, 0),
    Math.min(box.right, innerWidth), Math.min(box.bottom, innerHeight)]);
  const shown = parts.find(([left, top, right, bottom]) => right > left && bottom > top);
  const over = shown
    && document.elementFromPoint((shown[0] + shown[2]) / 2, (shown[1] + shown[3]) / 2);
  return {
    number: numbers.get(e),
    name: `${e.tagName.toLowerCase()} ${(e.ariaLabel || e.name || e.textContent).trim()}`,
    hasRing: e.matches(":focus-visible") && style.outlineStyle !== "none"
      && parseFloat(style.outlineWidth) > 0,
    isSeen: Boolean(over) && (e.contains(over) || over.contains(e) && over.matches("summary, a")),
    isFolded: e.matches("summary") && !e.parentElement.open,
  };
};
window.listUnreached = (controls) => [...document.querySelectorAll(controls)]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled && !numbers.has(e))
  .map((e) => e.outerHTML.slice(0, 100));
0"""
_FOCUS = "describeFocus()"
_SHOWN = "[...document.querySelectorAll('figure')].filter((each) => !each.hidden).length"


def check_report(tab: Tab, shots: pathlib.Path) -> Iterator[tuple[str, bool]]:
    """Copies a table of a report that lies on disk, by the keyboard, and looks at its width."""
    tab.wait("document.readyState === 'complete' && document.querySelector('button.csv') !== null")
    # As where a browser has no clipboard for pages on disk: what is copied is heard.
    tab.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined }); 0")
    tab.evaluate(
        "document.addEventListener('copy', (event) => "
        "{ window.copied = event.clipboardData.getData('text/plain'); })"
    )
    tab.evaluate("document.querySelector('#classes button.csv').focus()")
    tab.press("Enter")
    tab.wait("window.copied !== undefined")
    rows = tab.evaluate("window.copied").split("\r\n")
    counts = [line.split(",") for line in rows[1:-1]]
    whole = all(int(train) + int(held) == int(every) for _, train, held, every in counts)
    yield f"a table as CSV: {rows}", rows[0] == "class,train,eval,in all" and rows[-1] == ""
    yield "its rows", sorted(name for name, *_ in counts) == ["ant", "bee", "cat"] and whole
    written = {"=1+1": "'=1+1", "@a": "'@a", "-x": "'-x", "'=1": "''=1", "-1.5": "-1.5"}
    written |= {"+1,234": "+1234", "-2e-05": "-2e-05", "-0.5 (-1 to 0)": "'-0.5 (-1 to 0)"}
    cell = "(text) => writeCell(Object.assign(document.createElement('td'), "
    cell += "{ textContent: text, className: 'n' }))"
    found = tab.evaluate(f"{json.dumps([*written])}.map({cell})")
    yield f"formulas are marked, numbers are not: {found}", found == [*written.values()]
    stays = "document.activeElement === document.querySelector('#classes button.csv')"
    yield "the keyboard stays at its place", tab.evaluate(stays)
    headed = "[...document.querySelectorAll('table')].every((each) => each.tHead)"
    yield "every table has a header", tab.evaluate(headed)
    for (name, size), scheme in itertools.product(WIDTHS.items(), ("light", "dark")):
        tab.show(size, scheme)
        tab.save(shots / f"report-{name}-{scheme}.png")
        wide = tab.evaluate("document.documentElement.scrollWidth")
        yield f"the report is no wider than {size[0]} px, {scheme}", wide <= size[0]
    yield f"the report complains of nothing {tab.troubles}", not tab.troubles


def write_classes(folder: pathlib.Path) -> None:
    """Three pictures of each of 24 classes, a copy, and a file that is not an image."""
    for number in range(72):
        place = folder / f"kind_{number % 24:02d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.png").write_bytes(encode_png(draw_smooth(number, height=40, width=60)))
    shutil.copy(folder / "kind_00" / "0.png", folder / "kind_00" / "copy.png")
    (folder / "kind_01" / "text.png").write_bytes(b"not a picture")


def walk_by_keyboard(tab: Tab) -> Iterator[tuple[str, bool]]:
    """Goes through the page by Tab, there and back, and works each kind of control by keys."""
    tab.wait("document.readyState === 'complete' && document.querySelector('button.csv') !== null")
    tab.evaluate(_HELPERS)
    for name, is_open in (("narrow", False), ("wide", True)):
        tab.show(WIDTHS[name], "light")
        contents = "document.querySelector('nav details').open"
        yield f"the contents of a {name} page", tab.wait(f"{contents} === {json.dumps(is_open)}")
    there = list(_walk(tab))
    folded = [each["name"] for each in there if each["isFolded"]]
    yield (
        f"Enter unfolds what is folded: {folded}",
        bool(folded) and all(each["unfolds"] for each in there if each["isFolded"]),
    )
    unreached = tab.evaluate(f"listUnreached({json.dumps(_CONTROLS)})")
    yield f"Tab reaches {len(there)} controls, and all: {unreached[:5]}", not unreached
    back = list(_walk(tab, shift=True))
    numbers = [[each["number"] for each in way] for way in (there, back)]
    yield "Shift and Tab go the same way back", numbers[0] == numbers[1][::-1]
    for way, name in ((there, "forth"), (back, "back")):
        bare = [each["name"] for each in way if not each["hasRing"]]
        yield f"the focus has a ring everywhere, {name}: {bare[:5]}", not bare
        covered = [each["name"] for each in way if not each["isSeen"]]
        yield f"nothing covers the focus, {name}: {covered[:5]}", not covered
    yield from _follow_links(tab)
    yield from _filter(tab)
    yield from _enlarge(tab)
    yield from _work_tables(tab)
    yield f"the page complains of nothing {tab.troubles}", not tab.troubles


def _walk(tab: Tab, shift: bool = False) -> Iterator[dict[str, Any]]:
    """What has the focus, from one end of the page to the other; unfolds what is folded."""
    seen: set[int] = set()
    while True:
        tab.press("Tab", shift)
        found = tab.evaluate(_FOCUS)
        if found is None or found["number"] in seen:
            return
        seen.add(found["number"])
        if found["isFolded"]:
            tab.press("Enter")
            found["unfolds"] = not tab.evaluate(_FOCUS)["isFolded"]
        yield found


def _focus(tab: Tab, selector: str) -> None:
    """Goes to a control by Tab, from the first on."""
    tab.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    tab.evaluate("document.querySelector('.skip').focus()")
    wanted = f"document.activeElement === document.querySelector({json.dumps(selector)})"
    for _ in range(500):
        if tab.evaluate(wanted):
            return
        tab.press("Tab")
    raise LookupError(f"Tab does not reach {selector}")


def _follow_links(tab: Tab) -> Iterator[tuple[str, bool]]:
    _focus(tab, ".skip")
    tab.press("Enter")
    tab.press("Tab")
    inside = "document.querySelector('main').contains(document.activeElement)"
    yield "the first link skips the contents", tab.evaluate(inside)
    details = "document.querySelector('#shards > details').open"
    tab.evaluate(f"{details} = false")
    for again in ("", " again"):
        _focus(tab, "nav a[href='#shards']")
        tab.press("Enter")
        tab.wait(details)
        tab.press("Tab")
        at = tab.evaluate("document.activeElement.closest('section')?.id")
        yield (
            f"a link of the contents opens its section, and Tab goes on there{again}",
            (at == "shards"),
        )
        tab.press(" ")
        yield f"Space folds it{again}", tab.wait(f"!{details}")


def _filter(tab: Tab) -> Iterator[tuple[str, bool]]:
    everything = tab.evaluate(_SHOWN)
    _focus(tab, ".filter select[name=class]")
    tab.press("ArrowDown")
    chosen = tab.wait("document.querySelector('.filter select[name=class]').value")
    yield f"the arrow chooses the class {chosen}", 0 < tab.evaluate(_SHOWN) < everything
    tab.press("ArrowDown")
    tab.wait(f"document.querySelector('.filter select[name=class]').value !== {chosen!r}")
    tab.evaluate(
        "(() => { const f = document.querySelector('.filter select[name=class]');"
        "f.value = ''; f.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    _focus(tab, ".filter input[name=path]")
    for letter in "kind_02/":
        tab.press(letter)
    tab.wait("document.querySelector('.filter input[name=path]').value === 'kind_02/'")
    yield "a path is typed", 0 < tab.evaluate(_SHOWN) < everything
    tab.press("Escape")
    yield "Escape clears it", tab.wait(f"{_SHOWN} === {everything}")
    open_ = "[...document.querySelectorAll('section > details')].every((each) => each.open)"
    _focus(tab, ".filter button[name=unfold]")
    tab.press(" ")
    yield "Space unfolds all", tab.wait(open_)
    tab.press("Enter")
    yield "Enter folds all", tab.wait(f"!{open_}")
    tab.press("Enter")
    tab.wait(open_)


def _enlarge(tab: Tab) -> Iterator[tuple[str, bool]]:
    path = "document.querySelector('#viewer dd').textContent"
    shown = "[...document.querySelectorAll('figure')].filter((each) => each.checkVisibility() && "
    shown += "each.querySelector('img')).map(pathOf)"
    paths = tab.evaluate(shown)
    _focus(tab, "figure .open")
    tab.press("Enter")
    tab.wait("document.querySelector('#viewer').open")
    yield f"Enter enlarges {paths[0]}", tab.evaluate(path) == paths[0]
    tab.press("ArrowRight")
    yield "the arrow shows the next", tab.wait(path) == paths[1]
    names = []
    for _ in range(4):
        names.append(tab.evaluate("document.activeElement.name"))
        tab.press("Tab")
    yield f"its buttons: {names}", sorted(names) == ["close", "copy", "next", "previous"]
    tab.press("Escape")
    tab.wait("!document.querySelector('#viewer').open")
    seen = "[document.activeElement.closest('figure')].filter(Boolean).map(pathOf)[0]"
    back = tab.wait(f"{seen} === {json.dumps(paths[1])}")
    yield "Escape closes, and the focus is at what was seen last", back
    # As where a browser has no clipboard for pages on disk: what is copied is heard.
    tab.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined }); 0")
    tab.evaluate(
        "document.addEventListener('copy', (event) => "
        "{ window.copied = event.clipboardData.getData('text/plain'); })"
    )
    tab.press("Tab")
    tab.press(" ")
    yield "Space copies its path", tab.wait("window.copied") == paths[1]


def _work_tables(tab: Tab) -> Iterator[tuple[str, bool]]:
    rows = "[...document.querySelector('#classes table').tBodies[0].rows]"
    seen = f"{rows}.filter((each) => each.style.display !== 'none').length"
    _focus(tab, "#classes thead button")
    for key, order in (("Enter", "ascending"), (" ", "descending")):
        tab.press(key)
        sort = tab.wait("document.querySelector('#classes th').getAttribute('aria-sort')")
        first = tab.evaluate(f"{rows}[0].dataset.class")
        wanted = {"ascending": "kind_00", "descending": "kind_23"}[order]
        yield f"{key!r} sorts {order}: {first}", (sort, first) == (order, wanted)
    _focus(tab, "#classes table ~ button:not(.csv)")
    for key, count in (("Enter", 20), (" ", 24)):  # A filter has shown all.
        tab.press(key)
        yield f"{key!r} shows {count} rows of 24", tab.wait(f"{seen} === {count}") is True
    tab.show(WIDTHS["narrow"], "light")
    far = "[...document.querySelectorAll('.wide')].find((each) => each.scrollWidth > "
    far += "each.clientWidth && each.checkVisibility())"
    tab.evaluate(f"({far}).id = 'far'")
    _focus(tab, "#far")
    tab.press("ArrowRight")
    yield "the arrow moves a wide table", tab.wait("document.getElementById('far').scrollLeft > 0")
