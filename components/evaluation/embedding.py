"""What an exported model sees of records: labels that it doubts, images unlike all others."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components import files, threads
from image_pipeline.components.arrays.in_place import fetch, refers
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import RecordIndex, find_index, read_table
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.paths import parse_split
from image_pipeline.components.dataset.stored import StoredRecords, take_parsed_image
from image_pipeline.components.evaluation.answers import LEAST_PROBABILITY
from image_pipeline.components.evaluation.facts import (
    COLUMNS,
    MISLABELLED,
    OUTLIER_COLUMNS,
    OUTLIERS,
    Mislabelled,
    Outliers,
    write_csv,
)
from image_pipeline.components.evaluation.unusual import find_outliers, find_suspects, reduce
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


def look_at_records(
    evaluation_dir: str, model: Any, names: Sequence[str], most: int, data_dirs: Sequence[str]
) -> dict[str, Any]:
    """Writes `MISLABELLED` and `OUTLIERS`, of records of all splits, by what the model sees.

    Args:
      evaluation_dir: where.
      model: a loaded SavedModel of a classifier.
      names: its classes, in the order of their ids.
      most: how many records are looked at; all of them if there are fewer.
      data_dirs: the data sets' folders.

    Returns:
      `mislabelled` and `outliers`, how many there are of how many; both are None if the records
      have no index, by which they would be read.
    """
    shards = [
        files.join(folder, shard.file)
        for folder in data_dirs
        for _, _, shard in read_manifest(folder).list_shards()
        if shard.records
    ]
    index = find_index(shards)
    if index is None:
        return {"mislabelled": None, "outliers": None}
    # Ids are hashes: the records with the least ones are always the same, and spread evenly.
    firsts = [np.ascontiguousarray(each.record_id[:, :8]).view(">u8") for each in index.scan()]
    keys = np.concatenate(firsts).ravel().astype(np.uint64)
    rows = np.sort(np.argsort(keys, kind="stable")[:most])
    embeddings, labels = _embed_rows(model, index, rows)
    is_known = labels >= 0
    rows, embeddings, labels = rows[is_known], embeddings[is_known], labels[is_known]
    doubts = find_suspects(embeddings, labels, keys[rows])
    outliers = find_outliers(reduce(embeddings)) if len(rows) else []
    found: dict[str, list[tuple[Any, ...]]] = {
        MISLABELLED: [
            (it.row, names[it.likelier], it.score, it.likelier_score) for it in doubts.suspects
        ],
        OUTLIERS: [(it.row, it.times) for it in outliers],
    }
    sources, entries = read_table(index.shard_paths, ["source"])["source"], index.take(rows)
    for file, columns in ((MISLABELLED, COLUMNS), (OUTLIERS, OUTLIER_COLUMNS)):
        table = []
        for number, *further in found[file]:
            row = int(rows[number])
            split = parse_split(index.shard_paths[entries.shard[number]])
            identity = sources[row].as_py(), split, names[labels[number]]
            table.append((*identity, *further, entries.record_id[number].tobytes().hex()))
        write_csv(files.join(evaluation_dir, file), columns, table)
    judged, total = doubts.judged, len(index)
    return {
        "mislabelled": Mislabelled(
            judged=judged, of=total, agreed=doubts.agreed, suspected=len(doubts.suspects)
        ),
        "outliers": Outliers(judged=len(rows), of=total, found=len(outliers)),
    }


def _embed_rows(model: Any, index: RecordIndex, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Asks a model what it sees of records, and what class they have.

    Args:
      model: one without `EMBED_EXAMPLES` gives the logarithms of its probabilities instead.
      index: of the data set.
      rows: int64 [n], rows of the index.

    Returns:
      float32 [n, any], and int64 [n], ids of the model's vocabulary, -1 for none.
    """
    can_embed = EMBED_EXAMPLES in model.signatures
    ask, answer = (EMBED_EXAMPLES, EMBEDDING) if can_embed else (SERVE_EXAMPLES, PROBABILITIES)
    records = StoredRecords(index)
    workers = max(threads.usable_cores() + 1, files.count_threads(index.roots[0]))
    read = threads.map_in_order(
        lambda row: fetch_record(records.read(row)), rows.tolist(), workers, batch=8
    )
    embeddings, labels = [], []
    while batch := list(itertools.islice(read, _BATCH)):
        examples = {EXAMPLES: tf.constant(batch, tf.string)}
        seen = model.signatures[ask](**examples)[answer].numpy()
        embeddings.append(seen if can_embed else np.log(np.maximum(seen, LEAST_PROBABILITY)))
        labels.append(model.signatures[TRANSFORM_FEATURES](**examples)[LABEL].numpy())
    return np.concatenate(embeddings), np.concatenate(labels)


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
