"""Reports of images with tags, values or boxes: what they count, choose and show."""

import json
import re

import numpy as np
import pytest
from markupsafe import escape

from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.report.classes import choose_samples
from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.label_tables import describe_labels
from image_pipeline.report.page import make_report
from image_pipeline.report.pictures import Pictures
from image_pipeline.show.ingest_summary import ingest_rows, summarize_data_set
from tests.drawings import draw, encode_png
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam


COUNT, SIDE = 24, 160
TAGS = ("sky", "tree", "<b>")


def tags_of(number):
    """Every image that 2, 3 or 8 divides has a tag for it."""
    return [tag for tag, every in zip(TAGS, (2, 3, 8), strict=True) if number % every == 0]


def boxes_of(number):
    """Every second image has a small box, every fourth a large one, every eighth a crowd, too."""
    sides = [[0, 0, 10, 20], [10, 30, 100, 120], [40, 40, 40, 40]][: (2, 0, 1, 0)[number % 4]]
    named = [
        {"bbox": box, "category": name} for box, name in zip(sides, ("cat", "ant"), strict=False)
    ]
    crowd = {"bbox": [40, 40, 40, 40], "category": "cat", "iscrowd": 1}
    return named + [crowd] * (number % 8 == 0)


SAID = {
    "tags": lambda n: {"tags": tags_of(n)},
    "values": lambda n: {"label": n / 4 + 0.5},
    "boxes": lambda n: {"boxes": boxes_of(n)},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("said")
    for number in range(COUNT):
        (folder / f"{number:02d}.png").write_bytes(encode_png(draw(number, SIDE, SIDE)))
    for kind, say in SAID.items():
        rows = [{"path": f"{n:02d}.png", "split": ("train", "eval")[n % 3 == 1], **say(n)}
                for n in range(COUNT)]  # fmt: skip
        (folder / f"{kind}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        ingest(folder / f"{kind}.jsonl", folder / kind)
    return folder


def _open(folder, kind):
    manifest = read_manifest(str(folder / kind))
    return manifest, open_data_set(str(folder / kind), manifest)


def _page(folder, kind):
    figures, page = make_report(str(folder / kind))
    return figures, " ".join(page.decode().split())


def test_tags_are_counted_by_split(folder):
    (tags,) = describe_labels(*_open(folder, "tags")).values()
    assert tags.table.splits == ["train", "eval"]
    assert {row.name: row.counts for row in tags.table.rows} == {
        tag: [sum(tag in tags_of(n) for n in range(COUNT) if (n % 3 == 1) is held)
              for held in (False, True)]
        for tag in TAGS
    }  # fmt: skip
    assert tags.without == [sum(not tags_of(n) for n in range(COUNT) if n % 3 != 1), 4]
    assert (tags.median, tags.most) == (1, 3)


def test_the_page_of_tags_lists_them_under_thumbnails(folder):
    figures, page = _page(folder, "tags")
    assert "3 tags; an image has 1 in the median, 3 at most." in page
    assert "Images without any tag: 4 of train, 4 of eval." in page
    assert f"<figcaption><b>{escape('<b>, sky, tree')}</b>" in page
    assert "<h4>(no tag)</h4>" in page and "no label" not in page
    assert "Tags without records in the split eval: 1 of 3; more images." in page
    assert [row.name for row in figures["samples"].rows] == ["", "<b>", "sky", "tree"]


def test_values_are_counted_by_split(folder):
    manifest, data = _open(folder, "values")
    (values,) = describe_labels(manifest, data).values()
    own = [np.array([n / 4 + 0.5 for n in range(COUNT) if (n % 3 == 1) is held])
           for held in (False, True)]  # fmt: skip
    for row, expected in zip(values.splits, own, strict=True):
        assert row.records == len(expected) and row.mean == expected.mean()
        assert row.quartiles == np.percentile(expected, [0, 25, 50, 75, 100]).tolist()
    assert (values.histogram.min, values.histogram.max) == (0.5, 6.25)
    assert sum(values.histogram.counts) == COUNT
    shown = choose_samples(data)
    assert [each.name for each in shown.rows] == [f"{n / 4 + 0.5:,.5g}" for n in range(COUNT)]


def test_the_page_of_values_tells_them_under_thumbnails(folder):
    _, page = _page(folder, "values")
    assert "<b>0.5 to 6.25</b>" in page and "Values of all splits" in page
    assert "24 images from the least value to the greatest, at even ranks." in page
    assert "<figcaption><b>5.75</b>" in page


def test_pictures_are_filtered_by_each_tag_and_each_class_of_boxes(folder):
    expected = {
        "tags": [sorted(tags_of(n)) for n in range(COUNT)],
        "values": [[]] * COUNT,
        "boxes": [sorted({box["category"] for box in boxes_of(n)}) for n in range(COUNT)],
    }
    for kind, names in expected.items():
        data = _open(folder, kind)[1]
        pictures = Pictures(data, str(folder / kind))
        for row in range(COUNT):
            shown = pictures.of_row(row)
            assert json.loads(shown.names_json) == names[int(shown.path[:2])]


def test_boxes_are_counted_by_class_size_and_image(folder):
    (boxes,) = describe_labels(*_open(folder, "boxes")).values()
    of_split = [[boxes_of(n) for n in range(COUNT) if (n % 3 == 1) is held] for held in (False, 1)]
    of_split[1] = [boxes_of(n) for n in range(COUNT) if n % 3 == 1]
    for number, (row, images) in enumerate(zip(boxes.splits, of_split, strict=True)):
        flat = [box for own in images for box in own]
        assert (row.images, row.boxes) == (len(images), len(flat))
        assert row.without == sum(not own for own in images)
        assert row.most == 3 and row.median == np.median(list(map(len, images)))
        crowds = sum(box.get("iscrowd", 0) for box in flat)
        ants = sum(box["category"] == "ant" for box in flat)
        assert row.crowds == crowds
        # 10 · 20 px, 40 · 40 px and 100 · 120 px.
        assert row.sizes == {"small": len(flat) - ants - crowds, "medium": crowds, "large": ants}
        table = {each.name: each.counts[number] for each in boxes.table.rows}
        assert table == {"ant": ants, "cat": len(flat) - ants}


def test_the_page_of_boxes_names_and_draws_them(folder):
    figures, page = _page(folder, "boxes")
    assert "Boxes of 2 classes." in page and "images without a box" in page
    assert "<figcaption><b>cat, ant, cat (crowd)</b>" in page
    assert [row.name for row in figures["samples"].rows] == ["", "ant", "cat"]
    _, data = _open(folder, "boxes")
    bare = [row for row in range(COUNT) if not data.say_label(row)]
    pictures = Pictures(data, str(folder / "boxes"))
    plain = _open(folder, "tags")[1]
    rows = plain.find_rows(data.name_source(row) for row in range(COUNT))
    shown = Pictures(plain, str(folder / "tags"))
    for row in range(COUNT):
        same = pictures.draw_row(row) == shown.draw_row(rows[data.name_source(row)])
        assert same is (row in bare)


def test_the_lines_after_an_ingest_say_what_there_is(folder):
    lines = {kind: dict(ingest_rows(summarize_data_set(str(folder / kind))))[kind] for kind in SAID}
    assert lines == {
        "tags": "3, most sky (12), fewest <b> (3)",
        "values": "0.5 to 6.25, mean 3.375",
        "boxes": "21 of 2 classes, most cat (15), fewest ant (6)",
    }


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
    assert f"Same file, different {labels}" in said
    assert f"Files with the same bytes as one with {another}: 1" in said
    assert f"with {another}: 1; correct the {labels}, and ingest again." in " ".join(page.split())
    for each, claim in CLAIMS.items():
        assert (claim.format(labels=labels) in said) == (each == way), said
