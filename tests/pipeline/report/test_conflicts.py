"""What the page says of files of the same bytes with other labels, for each kind of label."""

import json
import re

import numpy as np
import pytest

from image_pipeline.report.page import make_report
from tests.drawings import draw, encode_png
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam

BOX = {"bbox": [1, 1, 3, 3], "category": "a"}
# By the kind: what the page calls its labels, one that differs, and the labels of two images.
KINDS = {
    "class": ("labels", "another label", {"label": "a"}, {"label": "b"}),
    "tags": ("tags", "other tags", {"tags": ["a"]}, {"tags": ["a", "b"]}),
    "value": ("values", "another value", {"label": 0.5}, {"label": 1.5}),
    "boxes": ("boxes", "other boxes", {"boxes": [BOX]}, {"boxes": []}),
    "mask": ("masks", "another mask", {"mask": "m0.png"}, {"mask": "m1.png"}),
}
CLAIMS = {
    "quarantine": "All of them, and those they repeat, are rejected",
    "keep_first": "The {labels} of the first file are kept",
    "keep_all": "Each is stored with its own {labels}",
}


@pytest.mark.parametrize("way", CLAIMS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_becomes_of_them_is_what_the_page_says(tmp_path, kind, way):
    labels, another, one, other = KINDS[kind]
    images = tmp_path / "images"
    images.mkdir()
    for level in (0, 1):
        mask = np.full((8, 10), level, np.uint8)
        (images / f"m{level}.png").write_bytes(encode_png(mask))
    rows = []
    for number in range(10):
        (images / f"{number}.png").write_bytes(encode_png(draw(max(number, 1))))  # 0 repeats 1.
        rows.append({"path": f"{number}.png", **(other if number == 1 else one)})
    (images / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = {"max_bad_fraction": 0.5, "conflicting_labels": way}
    if way != "quarantine":
        options |= {"conflicting_labels": "keep", "duplicates": way}
    if kind == "mask":
        options["masks"] = {"classes": ["ground", "block"]}
    manifest = ingest(images / "t.jsonl", tmp_path / "data", **options)
    assert manifest.books.written == {"quarantine": 8, "keep_first": 9, "keep_all": 10}[way]
    page = make_report(str(tmp_path / "data"))[1].decode()
    section = page.split('<section id="conflicts"')[1].split("</section>")[0]
    said = " ".join(re.sub("<[^>]*>", "", section).split())
    assert f"Files with the same bytes as one with {another}: 1" in said
    for each, claim in CLAIMS.items():
        assert (claim.format(labels=labels) in said) == (each == way), said
