"""Which of a data set's images a served model would see differently, or not at all.

Ingest reads more kinds of files than TensorFlow does, and converts colour profiles; a served model
has TensorFlow only.
"""

import collections

import pyarrow as pa
import pyarrow.compute as pc

from image_pipeline.components.dataset.index_file import scan_index

ANIMATION, FLAC = "animated WebP", "FLAC"
PROFILE = "colour profile"
_FORMATS = {
    **{
        "gif": "GIF",
        "bmp": "BMP",
        "tiff": "TIFF",
        "avif": "AVIF",
        "heic": "HEIC",
        "jxl": "JPEG XL",
        "dicom": "DICOM",
    },
    "flac": FLAC,
}
NOT_SERVED = (*_FORMATS.values(), ANIMATION)


def count_unserved(examples_dir: str) -> dict[str, int]:
    """Counts a data set's images by why serving differs from training; leaves out zeros.

    Args:
      examples_dir: the folder that ingest wrote.
    """
    counts: collections.Counter[str] = collections.Counter()
    for rows in scan_index(examples_dir, ["source_format", "notes"]):
        counts.update(_count_batch(rows))
    return {kind: counts[kind] for kind in (*NOT_SERVED, PROFILE) if counts[kind]}


def _count_batch(rows: pa.Table) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    for source_format, kind in _FORMATS.items():
        counts[kind] = pc.sum(pc.equal(rows["source_format"], source_format)).as_py() or 0
    noted = rows.filter(pc.greater(pc.list_value_length(rows["notes"]), 0))
    for row in noted.to_pylist():
        counts[PROFILE] += row["source_format"] not in _FORMATS and "icc" in row["notes"]
        is_animated = any(note.startswith("frames:") for note in row["notes"])
        counts[ANIMATION] += row["source_format"] == "webp" and is_animated
    return counts
