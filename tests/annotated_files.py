"""Writes images with annotations as people have them, for tests and goldens: a box or two each."""

import io
import json
import pathlib
import struct
from collections.abc import Iterable

import numpy as np
from PIL import Image

from tests.drawings import encode_png

Photos = Iterable[tuple[str, bytes]]
NAMES = ("disc", "ring")


def _split_of(number: int, splits: tuple[str, str]) -> str:
    return splits[number % 4 == 3]


def _boxes(number: int) -> list[tuple[int, int, int, int, int]]:
    """The number of a class, and left, top, right and bottom in pixels, of each box."""
    return [(at, 1 + at, 2, 9 + at, 11) for at in range(number % 3)]


def _write(path: pathlib.Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def write_voc(folder: pathlib.Path, photos: Photos) -> None:
    """`JPEGImages`, `Annotations` and `ImageSets`."""
    lists: dict[str, list[str]] = {"train": [], "val": []}
    for number, (name, data) in enumerate(photos):
        name = name.replace("/", "-")
        stem = name.rpartition(".")[0]
        _write(folder / "JPEGImages" / name, data)
        objects = "".join(
            f"<object><name>{NAMES[at]}</name><difficult>{at}</difficult><bndbox>"
            f"<xmin>{a + 1}</xmin><ymin>{b + 1}</ymin><xmax>{c}</xmax><ymax>{d}</ymax>"
            "</bndbox></object>"
            for at, a, b, c, d in _boxes(number)
        )
        text = f"<annotation><filename>{name}</filename>{objects}</annotation>"
        _write(folder / "Annotations" / f"{stem}.xml", text)
        lists[_split_of(number, ("train", "val"))].append(stem)
    for split, stems in lists.items():
        _write(folder / "ImageSets/Main" / f"{split}.txt", "".join(f"{stem}\n" for stem in stems))


def write_yolo(folder: pathlib.Path, photos: Photos) -> None:
    """A folder a split, with `data.yaml`; images without a box have an empty file or none."""
    for number, (name, data) in enumerate(photos):
        part = folder / _split_of(number, ("train", "valid"))
        name = name.replace("/", "-")
        _write(part / "images" / name, data)
        lines = [f"{at} 0.5 0.5 0.25 {0.25 * (1 + at)}\n" for at in range(number % 3)]
        if lines or number % 2:
            _write(part / "labels" / f"{name.rpartition('.')[0]}.txt", "".join(lines))
    said = f"train: ../train/images\nval: ../valid/images\nnames: [{', '.join(NAMES)}]\n"
    _write(folder / "data.yaml", said)


def write_image_folder(folder: pathlib.Path, photos: Photos) -> None:
    """A folder a split, with `metadata.csv`; the class is what is before a name's slash."""
    tables: dict[str, list[str]] = {"train": [], "validation": []}
    for number, (name, data) in enumerate(photos):
        split = _split_of(number, ("train", "validation"))
        called = name.replace("/", "-")
        _write(folder / split / called, data)
        tables[split].append(f"{called},{name.partition('/')[0]}\n")
    for split, rows in tables.items():
        _write(folder / split / "metadata.csv", "file_name,label\n" + "".join(rows))


def write_coco(folder: pathlib.Path, photos: Photos) -> None:
    """A folder a split, with `_annotations.coco.json`."""
    images: dict[str, list[dict]] = {"train": [], "valid": []}
    boxes: dict[str, list[dict]] = {"train": [], "valid": []}
    for number, (name, data) in enumerate(photos):
        split = _split_of(number, ("train", "valid"))
        called = name.replace("/", "-")
        _write(folder / split / called, data)
        images[split].append({"id": number, "file_name": called})
        boxes[split] += [
            {"id": 2 * number + at, "image_id": number, "category_id": 1 + at}
            | {"bbox": [a, b, c - a, d - b]}
            for at, a, b, c, d in _boxes(number)
        ]
    categories = [{"id": 0, "name": "shapes"}, *({"id": 1 + n, "name": NAMES[n]} for n in range(2))]
    for split, listed in images.items():
        content = {"images": listed, "annotations": boxes[split], "categories": categories}
        _write(folder / split / "_annotations.coco.json", json.dumps(content))


def _write_images(folder: pathlib.Path, photos: Photos) -> list[dict]:
    """Writes images; returns what COCO's files say of them."""
    images = []
    for number, (name, data) in enumerate(photos):
        called = name.replace("/", "-")
        _write(folder / called, data)
        with Image.open(io.BytesIO(data)) as opened:
            width, height = opened.size
        images.append({"id": number, "file_name": called, "width": width, "height": height})
    return images


def _size_of(image: dict) -> tuple[int, int]:
    return image["width"], image["height"]


def write_outlines(folder: pathlib.Path, photos: Photos) -> None:
    """`instances.json` of polygons and run lengths without boxes; every third image has none."""
    images, said = _write_images(folder / "images", photos), []
    for number, (width, height) in enumerate(map(_size_of, images)):
        runs = {"size": [height, width], "counts": [9, 4 * height, (width - 4) * height - 9]}
        outlines = ([[1, 2, 9, 2, 9, 8 + number % 3, 1, 7]], runs)[: number % 3]
        said += [
            {"id": 2 * number + at, "image_id": number, "category_id": 1 + at, "segmentation": each}
            for at, each in enumerate(outlines)
        ]
    categories = [{"id": 1 + n, "name": NAMES[n]} for n in range(2)]
    content = {"images": images, "annotations": said, "categories": categories}
    _write(folder / "instances.json", json.dumps(content))


def write_labelme(folder: pathlib.Path, photos: Photos) -> None:
    """A JSON file beside each image, of a polygon and a circle; every third one has no shape."""
    for number, (name, data) in enumerate(photos):
        path = folder / _split_of(number, ("train", "val")) / name.replace("/", "-")
        _write(path, data)
        points = [[1, 2], [9, 2], [9, 8 + number % 3], [1, 7]], [[12, 12], [12, 16]]
        shapes = [
            {"label": NAMES[at], "points": each, "shape_type": ("polygon", "circle")[at]}
            for at, each in enumerate(points[: number % 3])
        ]
        said = {"shapes": shapes, "imagePath": f"..\\{path.name}", "imageData": None}
        _write(path.with_suffix(".json"), json.dumps(said))


def write_createml(folder: pathlib.Path, photos: Photos) -> None:
    """A folder a split, with `_annotations.createml.json`."""
    images: dict[str, list[dict]] = {"train": [], "valid": []}
    for number, (name, data) in enumerate(photos):
        split = _split_of(number, ("train", "valid"))
        called = name.replace("/", "-")
        _write(folder / split / called, data)
        boxes = [
            {"label": NAMES[at]}
            | {"coordinates": {"x": (a + c) / 2, "y": (b + d) / 2, "width": c - a, "height": d - b}}
            for at, a, b, c, d in _boxes(number)
        ]
        images[split].append({"image": called, "annotations": boxes})
    for split, listed in images.items():
        _write(folder / split / "_annotations.createml.json", json.dumps(listed))


def write_cub(folder: pathlib.Path, photos: Photos) -> None:
    """CUB-200's lists; the class is what is before a name's slash."""
    lists: dict[str, list[str]] = {"images": [], "image_class_labels": [], "train_test_split": []}
    names: dict[str, int] = {}
    for number, (name, data) in enumerate(photos, 1):
        _write(folder / "images" / name, data)
        class_ = names.setdefault(name.partition("/")[0], 1 + len(names))
        lists["images"].append(f"{number} {name}")
        lists["image_class_labels"].append(f"{number} {class_}")
        lists["train_test_split"].append(f"{number} {int(number % 4 != 3)}")
    lists["classes"] = [f"{number} {name}" for name, number in names.items()]
    for name, lines in lists.items():
        _write(folder / f"{name}.txt", "\n".join(lines))


def write_idx(folder: pathlib.Path, pixels: Iterable[bytes], height: int, width: int) -> None:
    """The images and labels of two splits, of which the test has the last four."""
    rows = list(pixels)
    for split, part in (("train", rows[:-4]), ("t10k", rows[-4:])):
        images = struct.pack(">IIII", 2051, len(part), height, width) + b"".join(part)
        labels = struct.pack(">II", 2049, len(part)) + bytes(n % 3 for n in range(len(part)))
        _write(folder / f"{split}-images-idx3-ubyte", images)
        _write(folder / f"{split}-labels-idx1-ubyte", labels)


def write_run_lengths(folder: pathlib.Path, photos: Photos) -> None:
    """`train.csv` of an object a row, and images; every third one has no object."""
    rows = ["ImageId,ClassId,EncodedPixels"]
    for number, (name, data) in enumerate(photos):
        called = name.replace("/", "-")
        _write(folder / "train" / called, data)
        runs = [f"{1 + 40 * at} {5 + number % 7} {21 + 40 * at} 3" for at in range(number % 3)]
        rows += [f"{called},{1 + at},{text}" for at, text in enumerate(runs)] or [f"{called},1,"]
    _write(folder / "train.csv", "\n".join(rows))


def write_panoptic(folder: pathlib.Path, photos: Photos) -> None:
    """Images, and a PNG each of a square, a stripe, and pixels that are of no segment."""
    images, said = _write_images(folder / "images", photos), []
    for number, (width, height) in enumerate(map(_size_of, images)):
        colors = np.zeros((height, width, 3), np.uint8)
        colors[2:7, 2 : 6 + number % 5], colors[height - 3 :] = (7, 1, 0), (9, 0, 0)
        _write(folder / "panoptic" / f"{number}.png", encode_png(colors))
        segments = [{"id": 263, "category_id": 1}, {"id": 9, "category_id": 300}]
        said.append({"image_id": number, "file_name": f"{number}.png", "segments_info": segments})
    categories = [{"id": 300, "name": "ground"}, {"id": 1, "name": "ring"}]
    content = {"images": images, "annotations": said, "categories": categories}
    _write(folder / "panoptic.json", json.dumps(content))
