"""Images that look alike, found among the measured ones where ingest did not look for them."""

from collections.abc import Sequence

import numpy as np

from image_pipeline.components.ingest.clusters import cluster_hashes
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.pixels import ImageFigures
from image_pipeline.report.problems import MOST_GROUPS, MOST_MEMBERS, Alike, Member, NearDuplicates

MOST_BITS = 4
"""In how many of 64 bits the hashes of images that look alike differ at most."""


def find_look_alikes(measured: Sequence[ImageFigures], data: DataSet) -> NearDuplicates:
    """Groups the measured images by their perceptual hashes, as `ingest.near_duplicates=4` does."""
    rows = np.array([each.row for each in measured], np.int64)
    hashes = np.array([each.perceptual_hash for each in measured], np.uint64)
    clusters = cluster_hashes(hashes, MOST_BITS)
    sizes = np.bincount(clusters) if len(clusters) else np.zeros(0, np.int64)
    several = np.flatnonzero(sizes > 1)
    shown = several[np.argsort(-sizes[several], kind="stable")][:MOST_GROUPS]
    largest = [
        Alike(len(members), [_describe(row, data) for row in members[:MOST_MEMBERS]])
        for number in shown.tolist()
        for members in [rows[clusters == number].tolist()]
    ]
    splits = np.unique(np.stack([clusters, data.split[rows]]), axis=1)[0]
    straddling = int((np.bincount(splits, minlength=1) > 1).sum())
    return NearDuplicates(len(several), int(sizes[several].sum()), largest, straddling, len(rows))


def _describe(row: int, data: DataSet) -> Member:
    split = data.splits[data.split[row]]
    return Member(data.name_source(row), data.say_label(row), split, row)
