"""What is there at once: asked for in a process of its own, which tells what that imported."""

import json
import subprocess
import sys

import pytest

from tests.drawings import write_scenes
from tests.ingest_runs import ingest
from tests.pipeline.browse.browsed import VIEW

pytestmark = pytest.mark.beam

_CODE = """\
import json, sys
from werkzeug.test import Client
from image_pipeline.browse.server import App
from image_pipeline.browse.session import Session

client = Client(App(Session(**json.loads(sys.argv[1])), "token"))
told = []
for address in json.loads(sys.argv[2]):
    answer = client.get(f"/token/{address}", base_url="http://127.0.0.1")
    told.append([address, answer.status_code])
slow = ("tensorflow", "keras", "tfx", "apache_beam")
print(json.dumps([told, [name for name in slow if name in sys.modules]]))
"""
PAGE = ["", "page.js", "page.css", "search", "search?label=cat&order=path", "record/0"]
PICTURES = [f"record/0/{name}.picture" for name in ("thumbnail", "original", "stored")]


def list_slow_imports(tmp_path, addresses, data, images):
    """Those that answers to all addresses needed, where it is known how views are made."""
    asked = {"folder": str(data), "images": str(images), "marks_path": str(tmp_path / "m.txt")}
    asked["overrides"] = [*VIEW, "feeding.augment=[flip_horizontal]"]
    command = [sys.executable, "-c", _CODE, json.dumps(asked), json.dumps(addresses)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, imported = json.loads(done.stdout.splitlines()[-1])
    assert told == [[address, 200] for address in addresses]
    return imported


def test_the_first_page_and_stored_and_original_pictures_need_no_tensorflow(browsed, tmp_path):
    of_copy = "record/25/thumbnail.picture"  # a duplicate's original
    addresses = [*PAGE, *PICTURES, of_copy, "search?file=dog/<b>.png"]
    assert list_slow_imports(tmp_path, addresses, browsed.data, browsed.images) == []


def test_nor_do_masks_over_them_but_views_do(tmp_path):
    scenes, data = tmp_path / "scenes", tmp_path / "data"
    write_scenes(scenes, 4)
    masks = {"images": "images/{key}.png", "masks": "masks/{key}.png"}
    ingest(scenes, data, masks=masks)
    addresses = [*PAGE, *PICTURES, "record/0/stored.picture?drawn"]
    assert list_slow_imports(tmp_path, addresses, data, scenes) == []
    assert "tensorflow" in list_slow_imports(tmp_path, ["record/0/views"], data, scenes)
