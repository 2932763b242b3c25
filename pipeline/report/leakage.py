"""Whether anything in one split is also in another."""

import dataclasses

import numpy as np
import pyarrow.compute as pc

from image_pipeline.components.dataset.lists import Duplicate, read_list
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.names import decode_name
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.problems import NearDuplicates
from image_pipeline.show.words import format_count


@dataclasses.dataclass(frozen=True)
class Check:
    """One kind of leakage.

    Attributes:
      name: what belongs together.
      found: how many cases; None if the check could not be made.
      note: what was compared, or how to make the check possible.
    """

    name: str
    found: int | None
    note: str


def check_leakage(
    data_dir: str, manifest: Manifest, data: DataSet, alike: NearDuplicates
) -> list[Check]:
    """Counts images that belong together but are in several splits.

    Args:
      data_dir: the data set's folder.
      manifest: its manifest.
      data: the data set.
      alike: the images that look alike, by ingest's search or among those that were measured.
    """
    return [
        Check(
            "identical files",
            _count_split_copies(data_dir, data),
            "files with the same bytes that are stored in two splits",
        ),
        _check_near_duplicates(alike),
        _check_groups(manifest, data),
        Check(
            "units that paths separate",
            manifest.books.straddling,
            "images that belong together, but for which split_pattern names different splits",
        ),
    ]


def _count_split_copies(data_dir: str, data: DataSet) -> int:
    """Counts stored copies whose split is not their original's."""
    written = [line for line in read_list(data_dir, Duplicate) if line.written]
    rows = data.find_rows(path for line in written for path in (line.path, line.original))
    split = {path: int(data.split[row]) for path, row in rows.items()}
    pairs = ((decode_name(line.path), decode_name(line.original)) for line in written)
    return sum(split[path] != split[original] for path, original in pairs)


def _check_near_duplicates(alike: NearDuplicates) -> Check:
    note = "groups of images that look alike, in two splits"
    if alike.compared is not None:
        note += (
            f", among {format_count(alike.compared, 'image')}; ingest with --set "
            "ingest.near_duplicates=4 to keep them in one"
        )
    return Check("look-alikes", alike.straddling, note)


def _check_groups(manifest: Manifest, data: DataSet) -> Check:
    name = "groups"
    if manifest.options.get("group_pattern") is None:
        note = "no groups are named; ingest.group_pattern keeps a patient or a scene in one split"
        return Check(name, None, note)
    groups = data.table["group"].combine_chunks().dictionary_encode()
    is_named = pc.not_equal(pc.fill_null(data.table["group"], ""), "").to_numpy()
    codes = pc.fill_null(groups.indices, 0).to_numpy()[is_named]
    pairs = np.unique(codes.astype(np.int64) * len(data.splits) + data.split[is_named])
    counts = np.unique(pairs // len(data.splits), return_counts=True)[1]
    note = "groups by group_pattern with records in two splits"
    return Check(name, int((counts > 1).sum()), note)
