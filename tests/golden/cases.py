"""What goldens are made of: each kind of source, with tables each kind of label; small, seeded."""

import dataclasses
import io
import json
import pathlib
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import av
import numpy as np
import pyarrow as pa
from PIL import Image

from tests import annotated_files, array_files, data_set_files, sounds
from tests.drawings import draw, draw_smooth, encode_png, write_scenes

COUNT = 16
CLASSES = ("cat", "dog", "ant")
OPTIONS = {"splits": {"train": 0.6, "eval": 0.4}, "shards": 2, "max_bad_fraction": 1}


@dataclasses.dataclass(frozen=True)
class Case:
    """A source with one kind of label.

    Attributes:
      make: writes it into a folder, and gives what `--images` takes.
      options: of ingest.
      label: what records are labelled with: a class, tags, a value, boxes or a mask.
      is_analysed: whether a transform graph is made, too, and a model behind it.
    """

    make: Callable[[pathlib.Path], pathlib.Path | str]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    label: str = "class"
    is_analysed: bool = False


def name_of(number: int) -> str:
    """A path with a class; the third is called by letters that are not ASCII."""
    return f"{CLASSES[number % 3]}/{'zwölf' if number == 3 else f'{number:02d}'}"


def photos() -> Iterator[tuple[str, bytes]]:
    """Paths without an ending, and files: JPEGs of several sizes, PNGs, a copy, a damaged one."""
    for number in range(COUNT):
        pixels = draw_smooth(number, 24 + number, 40 - number)
        if number % 2:
            yield name_of(number) + ".png", encode_png(pixels)
        else:
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "JPEG", quality=92)
            yield name_of(number) + ".jpg", file.getvalue()


def odd_ones() -> Iterator[tuple[str, bytes]]:
    """A copy of the first photo, a file that ends early, and one that is not an image."""
    files = list(photos())
    yield "cat/copy.jpg", files[0][1]
    yield "ant/cut.png", files[1][1][:-40]
    yield "ant/notes.txt", b"not an image"


def _write_folder(folder: pathlib.Path) -> pathlib.Path:
    for name, data in (*photos(), *odd_ones()):
        path = folder / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / "photos"


def _write_tar(name: str) -> Callable[[pathlib.Path], pathlib.Path]:
    def write(folder: pathlib.Path) -> pathlib.Path:
        data_set_files.write_tar(folder / name, dict((*photos(), *odd_ones())))
        return folder / name

    return write


def _write_zip(folder: pathlib.Path) -> pathlib.Path:
    with zipfile.ZipFile(folder / "photos.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in (*photos(), *odd_ones()):
            file.writestr(name, data)
    return folder / "photos.zip"


def _write_web_data_set(folder: pathlib.Path) -> pathlib.Path:
    members: dict[str, bytes] = {}
    for number, (name, data) in enumerate(photos()):
        key = f"{number:06d}"
        members |= {f"{key}.{name.rpartition('.')[2]}": data, f"{key}.cls": b"%d" % (number % 3)}
    data_set_files.write_tar(folder / "web.tar", members)
    return folder / "web.tar"


LABELS: dict[str, Callable[[int], dict[str, Any]]] = {
    "class": lambda number: {"label": CLASSES[number % 3]},
    "tags": lambda number: {"tags": [["red"], [], ["red", "big"], ["big", "far"]][number % 4]},
    "value": lambda number: {"value": number / 7 - 0.5},
    "boxes": lambda number: {
        "boxes": [
            {"bbox": [2 + at, 3, 9, 8 + number], "category": ("disc", "ring")[at % 2]}
            for at in range(number % 3)
        ]
    },
    "mask": lambda number: {"mask": f"masks/{number:02d}.png"},
}


# What ingest is told of a table's label.
TOLD: dict[str, dict[str, Any]] = {
    "tags": {"columns": {"label": "tags"}, "tag_separator": ";"},
    "value": {"columns": {"label": "value"}, "column_types": {"label": "float"}},
}


def _write_table(
    kind: str, label: str, write: Callable[[pathlib.Path, list[dict[str, Any]]], None]
) -> Callable[[pathlib.Path], pathlib.Path]:
    def make(folder: pathlib.Path) -> pathlib.Path:
        if label == "mask":
            write_scenes(folder, COUNT)
            paths = [f"images/{number:02d}.png" for number in range(COUNT)]
        else:
            _write_folder(folder)
            paths = [f"photos/{name}" for name, _ in photos()]
        rows = [
            {"path": path, **LABELS[label](number), "camera": f"c{number % 2}"}
            for number, path in enumerate(paths)
        ]
        write(folder / f"table.{kind}", rows)
        return folder / f"table.{kind}"

    return make


def _write_lines(path: pathlib.Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _write_cells(path: pathlib.Path, rows: list[dict[str, Any]]) -> None:
    separator = {".csv": ",", ".tsv": "\t"}[path.suffix]

    def write(cell: Any) -> str:
        if not isinstance(cell, list):
            return str(cell)
        return ";".join(cell) if all(isinstance(each, str) for each in cell) else json.dumps(cell)

    quoted = [['"' + write(cell).replace('"', '""') + '"' for cell in row.values()] for row in rows]
    lines = [separator.join(cells) for cells in (list(rows[0]), *quoted)]
    path.write_text("\n".join(lines) + "\n")


def _write_paths(folder: pathlib.Path) -> pathlib.Path:
    _write_folder(folder)
    (folder / "list.txt").write_text("".join(f"photos/{name}\n" for name, _ in photos()))
    return folder / "list.txt"


def _write_coco(folder: pathlib.Path) -> pathlib.Path:
    _write_folder(folder)
    images = [
        {"id": number, "file_name": f"photos/{name}"} for number, (name, _) in enumerate(photos())
    ]
    boxes = [
        {"id": 10 * number + at, "image_id": number, "category_id": 1 + at}
        | {"bbox": [1 + at, 2, 8, 9], "area": 72, "iscrowd": 0}
        for number in range(COUNT)
        for at in range(number % 3)
    ]
    categories = [{"id": 1, "name": "disc"}, {"id": 2, "name": "ring"}]
    content = {"images": images, "annotations": boxes, "categories": categories}
    (folder / "coco.json").write_text(json.dumps(content))
    return folder / "coco.json"


def _write_annotated(
    write: Callable[[pathlib.Path, annotated_files.Photos], None], table: str = ""
) -> Callable[[pathlib.Path], pathlib.Path]:
    def make(folder: pathlib.Path) -> pathlib.Path:
        write(folder / "set", photos())
        return folder / "set" / table

    return make


def _write_idx(folder: pathlib.Path) -> pathlib.Path:
    rows = (draw(number, 12, 10)[..., 0].tobytes() for number in range(COUNT))
    annotated_files.write_idx(folder / "set", rows, 12, 10)
    return folder / "set"


def _write_pairs(folder: pathlib.Path) -> pathlib.Path:
    write_scenes(folder / "scenes", COUNT)
    return folder / "scenes"


def _write_columns(
    ending: str, write: Callable[[pathlib.Path, pa.Table], None]
) -> Callable[[pathlib.Path], pathlib.Path]:
    def make(folder: pathlib.Path) -> pathlib.Path:
        files = [(data, name) for name, data in photos()]
        labels = pa.array([CLASSES[number % 3] for number in range(COUNT)])
        write(folder / f"images.{ending}", data_set_files.make_table(files, label=labels))
        return folder / f"images.{ending}"

    return make


def _write_records(folder: pathlib.Path) -> pathlib.Path:
    examples = [
        {"image/encoded": [data], "image/filename": [name.encode()]}
        | {"image/class/text": [CLASSES[number % 3].encode()], "image/class/label": [number % 3]}
        for number, (name, data) in enumerate(photos())
    ]
    data_set_files.write_tfrecord(folder / "images.tfrecord", examples)
    return folder / "images.tfrecord"


def _write_arrays(
    name: str, write: Callable[[pathlib.Path, dict[str, np.ndarray]], pathlib.Path]
) -> Callable[[pathlib.Path], pathlib.Path]:
    def make(folder: pathlib.Path) -> pathlib.Path:
        images = np.stack([draw(100 + number) for number in range(COUNT)])
        return write(folder / name, {"images": images, "labels": np.arange(COUNT) % 3})

    return make


def _write_videos(folder: pathlib.Path) -> pathlib.Path:
    for clip in range(6):
        path = folder / "videos" / CLASSES[clip % 3] / f"{clip}.mkv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), "w") as file:
            stream = file.add_stream("ffv1", rate=5)
            stream.width, stream.height, stream.pix_fmt = 32, 24, "bgr0"
            for number in range(2):
                frame = av.VideoFrame.from_ndarray(draw(number + 10 * clip, 24, 32), "rgb24")
                file.mux(stream.encode(frame))
            file.mux(stream.encode())
    return folder / "videos"


def _write_sounds(folder: pathlib.Path) -> pathlib.Path:
    for number in range(COUNT):
        path = folder / "sounds" / CLASSES[number % 3] / f"{number:02d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sounds.encode(sounds.make_tone(300 + 100 * number)))
    return folder / "sounds"


def _say(address: str) -> Callable[[pathlib.Path], str]:
    return lambda folder: address


CASES = {
    "folder": Case(_write_folder),
    "tar": Case(_write_tar("photos.tar")),
    "tar.gz": Case(_write_tar("photos.tar.gz")),
    "zip": Case(_write_zip),
    "webdataset": Case(_write_web_data_set),
    "paths": Case(_write_paths),
    **{
        f"csv, {label}": Case(
            _write_table("csv", label, _write_cells), TOLD.get(label, {}), label, True
        )
        for label in LABELS
    },
    "tsv": Case(_write_table("tsv", "class", _write_cells)),
    **{
        f"jsonl, {label}": Case(
            _write_table("jsonl", label, _write_lines), TOLD.get(label, {}), label
        )
        for label in LABELS
    },
    "coco": Case(_write_coco, label="boxes"),
    "coco folder": Case(_write_annotated(annotated_files.write_coco), label="boxes"),
    "createml": Case(_write_annotated(annotated_files.write_createml), label="boxes"),
    "cub": Case(_write_annotated(annotated_files.write_cub)),
    "voc": Case(_write_annotated(annotated_files.write_voc), label="boxes"),
    "panoptic": Case(_write_annotated(annotated_files.write_panoptic), label="mask"),
    "outlines": Case(_write_annotated(annotated_files.write_outlines), label="mask"),
    "labelme": Case(_write_annotated(annotated_files.write_labelme), label="mask"),
    "run lengths": Case(
        _write_annotated(annotated_files.write_run_lengths, "train.csv"), label="mask"
    ),
    "yolo": Case(_write_annotated(annotated_files.write_yolo), label="boxes"),
    "image folder": Case(_write_annotated(annotated_files.write_image_folder)),
    "idx": Case(_write_idx),
    "pairs": Case(
        _write_pairs,
        {"masks": {"images": "images/{key}.png", "masks": "masks/{key}.png", "ignored": [255]}},
        "mask",
    ),
    "parquet": Case(_write_columns("parquet", data_set_files.write_parquet)),
    "arrow": Case(_write_columns("arrow", data_set_files.write_arrow)),
    "tfrecord": Case(_write_records),
    "hdf5": Case(_write_arrays("images.h5", array_files.write_hdf5)),
    "npz": Case(_write_arrays("images.npz", array_files.write_npz)),
    "zarr": Case(_write_arrays("images.zarr", array_files.write_zarr)),
    "video": Case(_write_videos, {"video": {"frames_per_second": 5}}),
    "sound": Case(
        _write_sounds,
        {"prepare": {"sound": {"sample_rate_hz": 8000, "duration_s": 0.2, "mel_bins": 24}}},
    ),
    "generator": Case(
        _say("generator:tests.golden.sources:generate"), {"generator": {"shards": 3}}
    ),
    "own source": Case(_say("source:tests.golden.sources:open_source")),
    "own rows": Case(_say("rows:tests.golden.sources:Rows")),
}
