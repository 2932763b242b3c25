"""Opens the page in the person's browser, and keeps its address from everybody else.

Everyone on a machine can read the command lines of its processes, and that of a browser has the
address that it is to open. So it is given the name of a private file, which leads to the page.
"""

import contextlib
import html
import os
import pathlib
import tempfile
import threading
import webbrowser
from collections.abc import Iterator

from image_pipeline.components.threads import start

# A browser that has not come by then did not understand what it was asked for.
_COMES_WITHIN_S = 120.0


@contextlib.contextmanager
def open_page(url: str, is_open: threading.Event) -> Iterator[None]:
    """Asks the browser to open an address, by a file that is there until it has, or the block ends.

    Args:
      url: the address.
      is_open: set once the browser has the page.
    """
    with tempfile.TemporaryDirectory() as folder:  # Only its owner may look into it.
        path = pathlib.Path(folder, "browse.html")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(
                f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(url)}">'
                f'<a href="{html.escape(url)}">To the data set</a>'
            )

        def delete_when_open() -> None:
            is_open.wait(_COMES_WITHIN_S)
            path.unlink(missing_ok=True)

        start(delete_when_open)
        webbrowser.open(path.as_uri())
        yield
