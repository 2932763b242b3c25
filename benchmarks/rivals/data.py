"""The data sets of the benchmark: ours by ingest, and the same stored bytes for everyone else.

Each data set's folder gets `records/` (ours: shards with an index, which tf.data reads too),
`payload.bin` and `records.npy` (the stored bytes, one after the other), `files/` (a JPEG a record)
and `meta.json`. `graphs/` holds the transform graphs.
"""

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.folders import claim, list_photos
from rivals import protocol

RECORD_DTYPE = np.dtype(
    [("offset", "<i8"), ("length", "<i8"), ("height", "<i4"), ("width", "<i4"), ("label", "<i4")]
)
_PREPARE = {
    "stored": {"size_px": 256, "enlarge": True, "encoding": "jpeg", "jpeg_quality": 90},
    "raw": {"size_px": 256, "enlarge": True, "encoding": "raw"},
    "originals": {"resize": "none", "encoding": "original"},
    "cifar": {"resize": "none", "encoding": "raw"},
}
_SHARDS = 8


def make_data(
    root: pathlib.Path, images_dir: str | None, cifar_dir: str | None, records: int, small: int
) -> None:
    """Makes the data sets that are not there yet.

    Args:
      root: their folder.
      images_dir: photos, in any layout; those that end in .jpg or .jpeg are used.
      cifar_dir: small images of one size, in class folders.
      records: photos to store; the folder's are repeated, each a class of its own.
      small: small images to store, at most.
    """
    if images_dir is not None:
        source = pathlib.Path(images_dir).resolve()
        photos = list_photos(source)
        claim(root, {"photos": str(source), "files": len(photos), "records": records})
        links = _link_photos(photos, root / "photos", records)
        for name in ("stored", "raw", "originals"):
            _make_data_set(root, name, links, "stored")
        for name in ("stored", "originals"):
            _describe_for_tfds(root / name / "records")
    if cifar_dir is not None:
        source = pathlib.Path(cifar_dir).resolve()
        claim(root / "cifar", {"images": str(source), "records": small})
        links = _link_small(source, root / "small", small)
        _make_data_set(root, "cifar", links, "cifar")


def _link_photos(
    photos: Sequence[pathlib.Path], target: pathlib.Path, records: int
) -> pathlib.Path:
    """A folder a photo, of links to it, so that label counts tell which photos were read."""
    for number in range(records):
        copy, photo = divmod(number, len(photos))
        _link(photos[photo], target / f"{photo:05d}" / f"{copy}.jpg")
    return target


def _link_small(source: pathlib.Path, target: pathlib.Path, most: int) -> pathlib.Path:
    """The same layout with fewer images, every class in turn."""
    paths = sorted(source.glob("*/*"), key=lambda path: (path.name, path.parent.name))
    for path in paths[:most]:
        _link(path, target / path.parent.name / path.name)
    return target


def _link(path: pathlib.Path, link: pathlib.Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        os.symlink(path.resolve(), link)


def _make_data_set(root: pathlib.Path, name: str, images: pathlib.Path, graph: str) -> None:
    folder = root / name
    if (folder / "meta.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    _ingest(images, folder, name)
    graph_dir = root / "graphs" / graph
    centre_fraction = 1.0 if name == "cifar" else protocol.CENTRE_FRACTION
    if not (graph_dir / "analysis.json").exists():
        _analyse(folder / "records", graph_dir, 32 if name == "cifar" else 224, centre_fraction)
    analysis = json.loads((graph_dir / "analysis.json").read_text())
    meta = {
        "mean": analysis["statistics"]["mean"],
        "std": analysis["statistics"]["std"],
        "classes": [_class_name(entry) for entry in analysis["classes"]],
        "graph": str(graph_dir),
        "centre_fraction": centre_fraction,
        "shards": sorted(map(str, (folder / "records").glob("Split-train/*tfrecord*"))),
    }
    meta["format"] = _pack(folder, meta)
    (folder / "meta.json").write_text(json.dumps(meta))


def _describe_for_tfds(records: pathlib.Path) -> None:
    """Two files beside the shards, with which TFDS reads them as its own."""
    from image_pipeline.components.dataset.as_tfds import write_tfds_metadata

    if not (records / "dataset_info.json").exists():
        write_tfds_metadata(str(records))


def _class_name(entry: Any) -> str:
    return entry["name"]


def _ingest(images: pathlib.Path, folder: pathlib.Path, name: str) -> None:
    from image_pipeline.components.ingest.run import run_ingest
    from image_pipeline.components.meaning.options import IngestOptions

    options = IngestOptions.model_validate(
        {
            "prepare": _PREPARE[name],
            "duplicates": "keep_all",
            "splits": {"train": 1.0},
            "shards": _SHARDS,
            "follow_links": True,
            "max_bad_fraction": 0,
        }
    )
    run_ingest(str(images), str(folder / "records"), str(folder / ".work"), options, _make_pipeline)


def _analyse(
    records: pathlib.Path, graph_dir: pathlib.Path, size_px: int, centre_fraction: float
) -> None:
    from image_pipeline.components.transform.options import TransformOptions
    from image_pipeline.components.transform.run import run_analysis
    from image_pipeline.components.views.options import ViewOptions

    view = ViewOptions(height_px=size_px, width_px=size_px, crop_fraction=centre_fraction)
    run_analysis(str(records), str(graph_dir), view, TransformOptions(), _make_pipeline)


def _make_pipeline() -> Any:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS

    return beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS)))


def _pack(folder: pathlib.Path, meta: dict[str, Any]) -> str:
    """Writes the stored bytes for the others; returns their format."""
    import tensorflow as tf

    ids = {name: number for number, name in enumerate(meta["classes"])}
    rows: list[tuple[int, ...]] = []
    formats, offset = set(), 0
    (folder / "files").mkdir(exist_ok=True)
    with open(folder / "payload.bin", "wb") as payload:
        for serialized in tf.data.TFRecordDataset(meta["shards"]).as_numpy_iterator():
            features = tf.train.Example.FromString(serialized).features.feature
            stored = features["image/encoded"].bytes_list.value[0]
            sides = [features[f"image/{side}"].int64_list.value[0] for side in ("height", "width")]
            label = features["image/class/text"].bytes_list.value[0].decode()
            formats.add(features["image/format"].bytes_list.value[0].decode())
            if formats == {"jpeg"}:
                (folder / "files" / f"{len(rows)}.jpg").write_bytes(stored)
            payload.write(stored)
            rows.append((offset, len(stored), *sides, ids[label]))
            offset += len(stored)
    if len(formats) != 1:
        raise ValueError(f"all records must have one format, got {formats}; leave out the others.")
    np.save(folder / "records.npy", np.array(rows, RECORD_DTYPE))
    return formats.pop()
