"""Makes the pictures in docs/images of new runs, on the demo's digits and the notebooks' photos.

`terminal.svg` is what stands in a terminal after the demo and its report, `report.webp` the top of
the page about a run on the photos. Needs Chromium or Chrome; called by `make pictures`.
"""

import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile

import terminal
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
WORK = ROOT / "build" / "docs" / "pictures"
PROGRAMS = ROOT / ".venv" / "bin"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
REPORT_SIZE_PX = (1100, 800)
MAX_BYTES = 200_000


def run_in_terminal(command: list[str]) -> bytes:
    """Runs a command in a terminal of `terminal`'s size; returns all that it wrote there."""
    written = bytearray()

    def keep(descriptor: int) -> bytes:
        chunk = os.read(descriptor, 4096)
        written.extend(chunk)
        return chunk

    size = {"COLUMNS": str(terminal.COLUMNS), "LINES": str(terminal.LINES)}
    os.environ.update(size, TERM="xterm-256color")
    if status := pty.spawn(command, keep):
        raise SystemExit(f"{' '.join(command)} must succeed, got status {status}.")
    return bytes(written)


def leave_out_paths(written: bytes) -> bytes:
    """Puts three dots for lines, next to each other, that name files of this machine."""
    here = re.escape(str(WORK).encode())
    return re.sub(rb"(?m)(^[^\n]*" + here + rb"[^\n]*\n)+", "…\r\n".encode(), written)


def draw_terminal(shown: list[str]) -> str:
    """Runs the program once for each line of arguments; returns the screen as an SVG."""
    program = str(PROGRAMS / "image-pipeline")
    written = b""
    for arguments in shown:
        written += f"\033[32m$\033[0m image-pipeline {arguments}\r\n".encode()
        written += leave_out_paths(run_in_terminal([program, *arguments.split()])) + b"\r\n"
    return terminal.draw(terminal.read_screen(written), title="image-pipeline")


def report_on_photos() -> pathlib.Path:
    """Runs the pipeline on the notebooks' photos; returns the page about it."""
    notebooks = ROOT / "notebooks"
    write = "import photos; photos.write_photos('photos')"
    program, page = str(PROGRAMS / "image-pipeline"), WORK / "photos.html"
    run = [program, "run", "--images", "photos", "--output", "photos-run", "--quiet"]
    seen = os.environ | {"PYTHONPATH": str(notebooks)}
    subprocess.run([str(PROGRAMS / "python"), "-c", write], check=True, env=seen)
    subprocess.run([*run, "--config", str(notebooks / "photos.yaml")], check=True)
    subprocess.run([program, "report", "photos-run", "--output", str(page)], check=True)
    return page


def photograph(page: pathlib.Path, picture: pathlib.Path) -> None:
    """Writes the top of an HTML page as WebP, in the best quality that fits `MAX_BYTES`."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"The report's picture needs a browser, one of {', '.join(BROWSERS)}.")
    with tempfile.TemporaryDirectory() as folder:
        shot = pathlib.Path(folder) / "shot.png"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        flags += ["--disable-background-networking", "--hide-scrollbars"]
        flags += ["--force-device-scale-factor=1.5", f"--user-data-dir={folder}/profile"]
        size = "--window-size={},{}".format(*REPORT_SIZE_PX)
        command = [browser, *flags, size, f"--screenshot={shot}", page.resolve().as_uri()]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        for quality in (90, 80, 70, 60, 50):
            Image.open(shot).convert("RGB").save(picture, quality=quality, method=6)
            if picture.stat().st_size <= MAX_BYTES:
                return
    raise SystemExit(f"{picture} must have at most {MAX_BYTES:,} bytes; make REPORT_SIZE_PX less.")


def main() -> None:
    """Runs the demo and the photos in a new folder, and keeps both pictures."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    IMAGES.mkdir(exist_ok=True)
    os.chdir(WORK)  # So that the paths shown are those that a reader will see.
    drawn = draw_terminal(["demo", "report demo-output/run"])
    (IMAGES / "terminal.svg").write_text(drawn, encoding="utf-8")
    photograph(report_on_photos(), IMAGES / "report.webp")


if __name__ == "__main__":
    sys.exit(main())
