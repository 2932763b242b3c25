"""Drives the pages of `browse` and `report` in a real Chromium, as people do, and checks them.

    make browse-check SHOTS=folder

Keys and clicks are sent through Chromium's DevTools protocol. Pixels are read back from a canvas
in the browser, and compared with those of `input_fn`. Exit code 1 if anything is not as it should.
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator

import numpy as np

from benchmarks.chromium import PATIENCE_S, WIDTHS, Tab, open_chromium
from benchmarks.report_in_browser import check_report, walk_by_keyboard, write_classes
from image_pipeline import ingest, input_fn
from image_pipeline.report.page import write_report
from tests.drawings import draw_smooth, encode_png

_VIEW = {"height_px": 48, "width_px": 64}
_STEPS = ["flip_horizontal", {"op": "color_jitter", "brightness": 0.4}]
_EVIL = "<img src=x onerror=document.title='broken'>.png"


@contextlib.contextmanager
def serve(folder: pathlib.Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """Starts `image-pipeline browse` as a person does; gives the address it prints."""
    options = [f"view.{name}={value}" for name, value in _VIEW.items()]
    options += [f"feeding.augment={json.dumps(_STEPS)}", "feeding.batch_size=32"]
    flags = [flag for option in options for flag in ("--set", option)]
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    code += "from image_pipeline.cli import main; main()"
    command = [sys.executable, "-c", code, "browse", "data", "--no-open", *flags]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1], process
    finally:
        process.kill()


def write_photos(folder: pathlib.Path) -> None:
    """150 drawn pictures in three classes, a duplicate, and a text file with a nasty name."""
    for number in range(150):
        place = folder / ("ant", "bee", "cat")[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        pixels = draw_smooth(number, height=60 + number, width=200)
        (place / f"{number:03d}.png").write_bytes(encode_png(pixels))
    shutil.copy(folder / "ant" / "000.png", folder / "ant" / "copy.png")
    (folder / "bee" / _EVIL).write_bytes(b"not a picture")


def check(tab: Tab, folder: pathlib.Path, shots: pathlib.Path) -> Iterator[tuple[str, bool]]:
    """Uses the page; yields what was checked, and whether it is as it should be."""
    count = "document.getElementById('count')?.textContent"  # Not there before the page is.
    paths = "[...document.querySelectorAll('#grid .name')].map((each) => each.textContent)"
    tab.wait(f"{count} === '152 in all' && document.querySelectorAll('#grid button').length === 60")
    yield "a page of 60 of 152", True
    tab.press("n")
    tab.wait("document.getElementById('page').value === '2'")
    yield "n turns the page", tab.evaluate(f"{paths}.length") == 60
    tab.write("path", "CAT/")
    tab.wait(f"{count} === '50 of 152'")
    yield "a search by path", all(each.startswith("cat/") for each in tab.evaluate(paths))
    tab.evaluate("document.querySelector('form').reset()")
    tab.wait(f"{count} === '152 in all'")
    tab.write("label", "bee")
    tab.wait(f"{count} === '50 of 152'")
    tab.write("most_px", "200")
    tab.write("least_px", "150")
    wanted = sum(150 <= 60 + n <= 200 for n in range(1, 150, 3))
    tab.wait(f"{count} === '{wanted} of 152'")
    yield f"a search by class and size: {wanted}", True
    tab.evaluate("document.querySelector('form').reset()")
    tab.wait(f"{count} === '152 in all'")
    tab.write("state", "quarantined")
    tab.wait(f"{count} === '1 of 152'")
    yield "a name is text, not HTML", tab.evaluate(paths) == [f"bee/{_EVIL}"]
    yield "no picture, said so", tab.wait("document.querySelector('.frame').textContent") != ""
    tab.evaluate("document.querySelector('form').reset()")
    tab.wait(f"{count} === '152 in all'")
    tab.write("order", "path")
    tab.wait(f"{paths}[0] === 'ant/000.png'")
    yield from check_record(tab, folder, shots)
    for (name, size), scheme in itertools.product(WIDTHS.items(), ("light", "dark")):
        tab.show(size, scheme)
        tab.save(shots / f"grid-{name}-{scheme}.png")
        wide = tab.evaluate("document.documentElement.scrollWidth")
        yield f"nothing is wider than {size[0]} px, {scheme}", wide <= size[0]
    # The file that is not an image, and pictures of rejected files that are none, answer 404.
    troubles = [each for each in tab.troubles if "404" not in each]
    yield f"the page complains of nothing {troubles}", not troubles


def check_record(tab: Tab, folder: pathlib.Path, shots: pathlib.Path) -> Iterator[tuple[str, bool]]:
    """Goes to the third record with keys, looks at it, and marks it."""
    tab.evaluate("document.querySelector('#grid button').focus()")
    tab.press("j")
    tab.press("ArrowRight")
    tab.press("Enter")
    path = "document.getElementById('record-path').textContent"
    name = tab.wait(f"document.querySelector('dialog[open]') && {path}")
    yield f"Enter opens {name}", name == "ant/006.png"
    titles = "[...document.querySelectorAll('#pictures img')].filter((each) => each.complete"
    titles += " && each.naturalWidth).map((each) => each.alt)"
    expected = ["original", "stored", "eval", *(f"train, epoch {n}" for n in range(3))]
    tab.wait(f"({titles}).length === {len(expected)}")
    yield "original, stored, eval and train", tab.evaluate(titles) == expected
    for title, pixels in read_views(folder, name).items():
        same = bool(np.array_equal(tab.read_pixels(title), pixels))
        yield f"{title} has the very pixels of input_fn, in the browser", same
    for (width, size), scheme in itertools.product(WIDTHS.items(), ("light", "dark")):
        tab.show(size, scheme)
        tab.save(shots / f"record-{width}-{scheme}.png")
    tab.show(WIDTHS["wide"], "light")
    tab.press("m")
    tab.wait("document.getElementById('mark').textContent === 'Marked'")
    yield "m marks", (folder / "marks.txt").read_text() == f"{name}\n"
    tab.press("j")
    tab.wait(f"{path} === 'ant/009.png'")
    tab.press("m")
    tab.wait("document.getElementById('marked').textContent === '2'")
    tab.press("m")
    tab.wait("document.getElementById('marked').textContent === '1'")
    yield "m again takes the mark away", (folder / "marks.txt").read_text() == f"{name}\n"
    tab.press("m")
    tab.press("m")
    tab.press("j")
    tab.press("j")
    tab.wait(f"{path} === 'ant/015.png'")
    tab.evaluate("state.marking")
    yield "keys in a row lose nothing", (folder / "marks.txt").read_text() == f"{name}\n"
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog[open]')")
    # The browser first gives the focus to what was opened first.
    there = "document.activeElement.getAttribute('aria-label')?.startsWith('ant/015.png')"
    yield "Escape closes, and leaves the focus there", tab.wait(there)


def check_links(tab: Tab, folder: pathlib.Path, url: str) -> Iterator[tuple[str, bool]]:
    """Goes to addresses that open a record, a rejected file and a batch, and to bad ones."""
    count = "document.getElementById('count')?.textContent"
    path = "document.querySelector('dialog[open] h2')?.textContent"
    for file in ("bee/007.png", f"bee/{_EVIL}"):
        tab.call("Page.navigate", url=f"{url}?file={urllib.parse.quote(file)}")
        yield f"a link opens {file}", tab.wait(f"{path} === {json.dumps(file)}")
    asked = tab.evaluate("location.search")
    yield f"the address names it: {asked}", re.search(r"[?&]record=150$", asked) is not None
    tab.call("Page.navigate", url=f"{url}?epoch=1&step=2")
    tab.wait(f"{count}?.startsWith('Epoch 1, step 2: ')")
    names = "[...document.querySelectorAll('#grid .name')].map((each) => each.textContent)"
    key, options = "image/filename", {"first_epoch": 1, "first_step": 2, "epochs": 1}
    fed = input_fn(
        str(folder / "data"),
        "train",
        view=_VIEW,
        augment=_STEPS,
        columns=(key,),
        batch_size=32,
        **options,
    )
    inputs, _ = next(iter(fed))
    expected = [name.decode() for name in inputs[key].numpy()]
    yield "a batch in its order", tab.evaluate(names) == expected
    tab.press("p")
    yield "p goes a step back", tab.wait(f"{count}.startsWith('Epoch 1, step 1: ')")
    for link, said in {
        "file=gone.png": "no record or rejected file of the data set is called 'gone.png'",
        "record=9999": "numbers are from 0 to 151, got 9999.",
    }.items():
        tab.call("Page.navigate", url=f"{url}?{link}")
        trouble = "document.getElementById('trouble')?.textContent"
        yield f"{link} is answered: {said}", tab.wait(f"{trouble}?.startsWith({json.dumps(said)})")


def read_views(folder: pathlib.Path, path: str) -> dict[str, np.ndarray]:
    """What `input_fn` gives of a record, by the titles that the page has."""
    found = {}
    key = "image/filename"
    for split, mode, epochs in itertools.product(("train", "eval"), ("eval", "train"), (3,)):
        batches = input_fn(
            str(folder / "data"),
            split,
            view=_VIEW,
            mode=mode,
            epochs=epochs if mode == "train" else 1,
            augment=_STEPS,
            columns=(key,),
            remainder="keep",
            batch_size=10_000,
        )
        for epoch, (inputs, _) in enumerate(batches):
            names = [name.decode() for name in inputs[key].numpy()]
            if path in names:
                title = f"train, epoch {epoch}" if mode == "train" else "eval"
                found[title] = inputs["image"].numpy()[names.index(path)]
    return found


def main() -> None:
    """Prints a line for each check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="the browser")
    parser.add_argument("--screenshots", type=pathlib.Path, help="folder for pictures of the page")
    asked = parser.parse_args()
    if not asked.chromium:
        parser.error("there is no chromium on the PATH; give it with --chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = pathlib.Path(scratch)
        shots = asked.screenshots or folder
        shots.mkdir(parents=True, exist_ok=True)
        write_photos(folder / "photos")
        ingest(str(folder / "photos"), str(folder / "data"), max_bad_fraction=0.1)
        with serve(folder) as (url, process):
            with open_chromium(asked.chromium, folder / "profile", url) as tab:
                checks = list(report(check(tab, folder, shots)))
                checks += report(check_links(tab, folder, url))
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)
        said = re.search(r"1 path marked in marks.txt", out) is not None
        checks += report(iter([(f"Ctrl-C says what was marked ({err.strip()})", said)]))
        write_report(str(folder / "data"), None, str(folder / "report.html"))
        page = (folder / "report.html").as_uri()
        with open_chromium(asked.chromium, folder / "profile-report", page) as tab:
            checks += report(check_report(tab, shots))
        write_classes(folder / "classes")
        ingest(str(folder / "classes"), str(folder / "many"), max_bad_fraction=0.1)
        write_report(str(folder / "many"), str(folder / "data"), str(folder / "many.html"))
        page = (folder / "many.html").as_uri()
        with open_chromium(asked.chromium, folder / "profile-many", page) as tab:
            checks += report(walk_by_keyboard(tab))
        marked = {"leave_out": str(folder / "marks.txt"), "max_bad_fraction": 0.1}
        summary = ingest(str(folder / "photos"), str(folder / "again"), **marked)
        left = summary["written"] == 149 and summary["skipped"] == 1
        checks += report(iter([("ingest leaves out what was marked", left)]))
    sys.exit(0 if all(checks) else 1)


def report(checks: Iterator[tuple[str, bool]]) -> Iterator[bool]:
    """Prints checks as they are made."""
    for what, holds in checks:
        print(f"{'ok    ' if holds else 'WRONG '} {what}", flush=True)
        yield holds


if __name__ == "__main__":
    main()
