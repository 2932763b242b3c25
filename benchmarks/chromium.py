"""A real Chromium, driven through its DevTools protocol as people drive it: keys, fields, sizes."""

import base64
import contextlib
import itertools
import json
import pathlib
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection, connect

PATIENCE_S = 120
WIDTHS = {"wide": (1280, 900), "narrow": (390, 844)}


class Tab:
    """A tab of Chromium."""

    def __init__(self, socket: ClientConnection):
        """Takes the tab's connection."""
        self._socket, self._numbers = socket, itertools.count(1)
        self.troubles: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict:
        """Calls a method of the protocol; notes what the page complains of meanwhile."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE_S))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            if message.get("method") == "Runtime.exceptionThrown":
                self.troubles.append(json.dumps(message["params"]["exceptionDetails"])[:500])
            if message.get("method") == "Log.entryAdded":
                self.troubles.append(message["params"]["entry"]["text"])

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, (script, answer)
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """Waits until an expression is true, and returns its value."""
        until_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < until_s:
            if value := self.evaluate(script):
                return value
            time.sleep(0.05)
        raise TimeoutError(script)

    def press(self, key: str, shift: bool = False) -> None:
        """Presses a key, alone or with Shift."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowRight": 39, "ArrowDown": 40}
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        code = codes.get(key, ord(key[0].upper()))
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 * shift}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def write(self, field: str, text: str) -> None:
        """Puts text into a field of the form as typing does."""
        self.evaluate(
            f"(() => {{ const f = document.querySelector('form').elements[{json.dumps(field)}];"
            f"f.value = {json.dumps(text)};"
            "f.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )

    def show(self, size: tuple[int, int], scheme: str) -> None:
        """Sets the window's size in pixels, and the colour scheme."""
        width, height = size
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def save(self, path: pathlib.Path) -> None:
        """Saves what is seen as a PNG."""
        self.evaluate("new Promise((done) => setTimeout(done, 300))")
        content = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(content))

    def read_pixels(self, title: str) -> np.ndarray:
        """The pixels of one of the opened record's pictures: uint8 [height, width, 3]."""
        found = self.evaluate(
            f"""(() => {{
              const image = [...document.querySelectorAll('#pictures img')]
                .find((each) => each.alt === {json.dumps(title)});
              const canvas = document.createElement('canvas');
              canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
              const context = canvas.getContext('2d');
              context.drawImage(image, 0, 0);
              const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
              return {{shape: [canvas.height, canvas.width, 4], data: [...data]}};
            }})()"""
        )
        return np.array(found["data"], np.uint8).reshape(found["shape"])[..., :3]


@contextlib.contextmanager
def open_chromium(program: str, folder: pathlib.Path, url: str) -> Iterator[Tab]:
    """Starts Chromium with a page."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    flags += ["--disable-background-networking", "--remote-debugging-port=0"]
    flags += [f"--user-data-dir={folder}", "--force-color-profile=srgb"]
    process = subprocess.Popen([program, *flags, url], stderr=subprocess.DEVNULL)
    try:
        ready, until_s = folder / "DevToolsActivePort", time.monotonic() + PATIENCE_S
        while not (ready.exists() and ready.read_text().strip()) and time.monotonic() < until_s:
            time.sleep(0.1)
        port = int(ready.read_text().split()[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            tabs = [each for each in json.load(answer) if each["type"] == "page"]
        with connect(tabs[0]["webSocketDebuggerUrl"], max_size=None) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        process.wait()
