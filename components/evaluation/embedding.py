"""What an exported model's last layer sees of records, by random access to a data set."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components import files, threads
from image_pipeline.components.arrays.in_place import fetch, refers
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import RecordIndex
from image_pipeline.components.dataset.stored import StoredRecords, take_parsed_image
from image_pipeline.components.evaluation.answers import LEAST_PROBABILITY
from image_pipeline.components.tasks.signatures import (
    EMBED_EXAMPLES,
    EMBEDDING,
    EXAMPLES,
    LABEL,
    PROBABILITIES,
    SERVE_EXAMPLES,
    TRANSFORM_FEATURES,
)

_BATCH = 128


def choose_rows(index: RecordIndex, most: int) -> np.ndarray:
    """Chooses records by their ids, which are hashes: always the same ones, spread evenly.

    Args:
      index: of the data set.
      most: how many to choose; all of them if there are fewer.

    Returns:
      int64 [up to most], rows of the index, sorted.
    """
    order = np.argsort(fold_keys(index, np.arange(len(index))), kind="stable")
    return np.sort(order[:most])


def fold_keys(index: RecordIndex, rows: np.ndarray) -> np.ndarray:
    """The first half of the ids of some records, which are hashes: uint64 [rows]."""
    first = np.ascontiguousarray(index.record_id[rows, :8])
    return first.view(">u8").ravel().astype(np.uint64)


def embed_rows(model: Any, index: RecordIndex, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Asks a model what it sees of records, and what class they have.

    Args:
      model: a loaded SavedModel of a classifier; one without `EMBED_EXAMPLES` gives the logarithms
        of its probabilities instead.
      index: of the data set.
      rows: int64 [n], rows of the index.

    Returns:
      float32 [n, any], and int64 [n], ids of the model's vocabulary, -1 for none.
    """
    read = model.signatures[TRANSFORM_FEATURES]
    can_embed = EMBED_EXAMPLES in model.signatures
    ask, answer = (EMBED_EXAMPLES, EMBEDDING) if can_embed else (SERVE_EXAMPLES, PROBABILITIES)
    embeddings, labels = [], []
    for batch in _read_batches(index, rows):
        examples = {EXAMPLES: tf.constant(batch, tf.string)}
        seen = model.signatures[ask](**examples)[answer].numpy()
        embeddings.append(seen if can_embed else np.log(np.maximum(seen, LEAST_PROBABILITY)))
        labels.append(read(**examples)[LABEL].numpy())
    return np.concatenate(embeddings), np.concatenate(labels)


def _read_batches(index: RecordIndex, rows: np.ndarray) -> Iterator[Sequence[bytes]]:
    records = StoredRecords(index)
    workers = max(threads.usable_cores() + 1, files.count_threads(index.roots[0]))
    read = threads.map_in_order(
        lambda row: fetch_record(records.read(row)), rows.tolist(), workers, batch=8
    )
    return iter(lambda: list(itertools.islice(read, _BATCH)), [])


def fetch_record(serialized: bytes) -> bytes:
    """A serialized record with its image, also if it holds only where that is.

    Raises:
      UserError: if the file that has the image is gone, or was changed.
    """
    if not refers(serialized):
        return serialized
    example = tf.train.Example.FromString(serialized)
    feature = example.features.feature
    feature[record.IMAGE].bytes_list.value[0] = bytes(fetch(take_parsed_image(feature)).encoded)
    return example.SerializeToString()
