"""The order of training beside what tf.data's shuffle buffers make of it.

    python benchmarks/order.py [--records 100000] [--classes 100] [--shards 50] [--views 10]
        [--json FILE]

The records are ids, stored sorted by class in shards of equal size: what is measured is the order
in which they come, not the reading. An ideal order is a random permutation by NumPy, and for two of
the figures there is a formula, too. Time and memory come first, before TensorFlow is imported.
"""

import argparse
import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from bench.raw import add_json_argument, write_raw
from image_pipeline.components.order import quality
from image_pipeline.components.order.batches import batch_positions
from image_pipeline.components.order.order import Order, ShardsOrder, ShuffledOrder, ViewsOrder

if TYPE_CHECKING:
    import tensorflow as tf

BATCH_SIZE, BUFFERS, CYCLE, AT_ONCE = 64, (1_000, 10_000), 16, (1, 4, 16, 64)


def report_cost() -> list[dict[str, Any]]:
    """Prints how long a permuted order takes to set up and to draw from, and what it holds."""
    print("cost of a permuted order, one thread:")
    print(
        f"  {'records':>13}  {'rows':<6}{'set up':>10}{'resident':>11}{'first batch':>14}"
        f"{'batch of 64':>14}{'of 1024':>12}{'in bulk':>18}"
    )
    sizes = ((10**7, False), (10**9, False), (10**7, True))
    return [_print_cost(range(count), as_array) for count, as_array in sizes]


def _print_cost(rows: range, as_array: bool) -> dict[str, Any]:
    before, started = _resident_mb(), time.perf_counter()
    order = ShuffledOrder(np.arange(len(rows)) if as_array else rows, seed=0)
    set_up_ms = 1e3 * (time.perf_counter() - started)
    first_ms = 1e3 * _batch_s(order, BATCH_SIZE, batches=1)
    small_ms, large_ms = (1e3 * _batch_s(order, size) for size in (BATCH_SIZE, 1024))
    resident_mb = _resident_mb() - before
    rate = 2**18 / _batch_s(order, 2**18, batches=8) / 1e6
    print(
        f"  {len(rows):>13,}  {'array' if as_array else 'range':<6}{set_up_ms:>7.1f} ms"
        f"{resident_mb:>8.1f} MB{first_ms:>11.2f} ms{small_ms:>11.3f} ms{large_ms:>9.3f} ms"
        f"{rate:>8.1f} million/s"
    )
    return {
        "records": len(rows),
        "as_array": as_array,
        "set_up_ms": set_up_ms,
        "batch_of_64_ms": small_ms,
        "resident_mb": resident_mb,
    }


def _batch_s(order: Order, batch_size: int, batches: int = 200) -> float:
    """Mean seconds to draw a batch, of batches all over the epoch."""
    steps = np.linspace(0, order.length // batch_size - 1, batches).astype(int).tolist()
    started = time.perf_counter()
    for step in steps:
        order.draw(0, batch_positions(step, batch_size, order.length))
    return (time.perf_counter() - started) / batches


def _resident_mb() -> float:
    return psutil.Process().memory_info().rss / 2**20


def make_buffered(records: int, shards: int) -> dict[str, "tf.data.Dataset"]:
    """What people write with tf.data: ids of one epoch, another order in every iteration."""
    import tensorflow as tf

    edges = tf.constant([records * number // shards for number in range(shards + 1)], tf.int64)

    def read(files: "tf.data.Dataset") -> "tf.data.Dataset":
        return files.interleave(
            lambda shard: tf.data.Dataset.range(edges[shard], edges[shard + 1]), CYCLE
        )

    sequential, files = tf.data.Dataset.range(records), tf.data.Dataset.range(shards)
    pipelines = {
        f"sequential, shuffle({size})": sequential.shuffle(size, seed=1) for size in BUFFERS
    }
    pipelines[f"interleave({CYCLE})"] = read(files)
    pipelines[f"interleave({CYCLE}), shuffle(10000)"] = read(files).shuffle(BUFFERS[-1], seed=1)
    shuffled_files = read(files.shuffle(shards, seed=2))
    pipelines["the same, files shuffled"] = shuffled_files.shuffle(BUFFERS[-1], seed=1)
    return pipelines


def take_ids(dataset: "tf.data.Dataset") -> np.ndarray:
    """One epoch's ids: int64 [n]."""
    return np.concatenate(list(dataset.batch(4096).as_numpy_iterator()))


def draw_rows(order: Order, epoch: int) -> np.ndarray:
    """One epoch's ids: int64 [n]."""
    return order.draw(epoch, np.arange(order.length)).rows


def report_quality(records: int, classes: int, shards: int) -> dict[str, dict[str, float]]:
    """Prints the figures of two successive epochs, side by side."""
    labels = np.arange(records) * classes // records
    generator, ours = np.random.default_rng(0), ShuffledOrder(range(records), seed=0)
    epochs = {"ours": [draw_rows(ours, epoch) for epoch in (0, 1)]}
    edges = np.arange(shards + 1) * records // shards
    for at_once in AT_ONCE:
        by_shards = ShardsOrder(range(records), edges, 0, BATCH_SIZE, at_once)
        name = f"ours, shuffle=shards, {at_once} at once"
        epochs[name] = [draw_rows(by_shards, epoch) for epoch in (0, 1)]
    epochs["ideal (NumPy)"] = [generator.permutation(records) for _ in (0, 1)]
    for name, dataset in make_buffered(records, shards).items():
        epochs[name] = [take_ids(dataset) for _ in (0, 1)]
    as_ingested = generator.permutation(labels)  # Which stores by a hash.
    print(f"\n{records:,} records sorted by class, {classes} classes, {shards} shards:")
    print(
        f"  {'':<32}{'rank corr.':>11}{'neighbours':>12}{'classes in':>12}{'run of one':>12}"
        f"{'classes, as':>13}"
    )
    print(
        f"  {'':<32}{'with stored':>11}{'repeated':>12}{'batch of 64':>12}{'class':>12}"
        f"{'ingest stores':>15}"
    )
    found, ideal = {}, quality.ideal_quality(labels, BATCH_SIZE)
    for name, (first, second) in epochs.items():
        assert np.array_equal(np.sort(first), np.arange(records)), name
        figures = quality.measure_quality(first, second, labels, BATCH_SIZE)
        by_hash = quality.classes_in_batch(as_ingested[first], BATCH_SIZE)
        found[name] = dataclasses.asdict(figures) | {"classes_as_ingested": by_hash}
    expected = dataclasses.asdict(ideal) | {"classes_as_ingested": ideal.classes_in_batch}
    for name, each in (found | {"expected of an ideal": expected}).items():
        correlation, repeated, in_batch, run, by_hash = each.values()
        print(
            f"  {name:<32}{correlation:>11.4f}{repeated:>12.3%}{in_batch:>12.2f}{run:>12.3f}"
            f"{by_hash:>13.2f}"
        )
    return found | {"expected of an ideal": expected}


def report_views(records: int, views: int) -> dict[str, dict[str, float]]:
    """Prints how close together the views of one image come."""
    import tensorflow as tf

    ours = ViewsOrder(range(records), seed=0, views=views)
    flat_map = tf.data.Dataset.range(records).flat_map(
        lambda number: tf.data.Dataset.from_tensors(number).repeat(views)
    )
    sequences = {"ours": draw_rows(ours, 0)}
    sequences["flat_map, shuffle(10000)"] = take_ids(flat_map.shuffle(BUFFERS[-1], seed=1))
    sequences["ideal permutation (NumPy)"] = np.random.default_rng(0).permutation(
        np.repeat(np.arange(records), views)
    )
    print(f"\n{views} views of each of {records:,} images (ours promises {ours.min_distance():,}):")
    print(f"  {'':<32}{'batches of 64 with two':>24}{'least distance':>18}")
    found = {}
    for name, ids in sequences.items():
        repeats, distance = quality.repeats_in_batches(ids, BATCH_SIZE), quality.min_distance(ids)
        print(f"  {name:<32}{repeats:>24.2%}{distance:>18,}")
        found[name] = {"batches_with_two": float(repeats), "least_distance": int(distance)}
    return found


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--shards", type=int, default=50)
    parser.add_argument("--views", type=int, default=10)
    add_json_argument(parser)
    arguments = parser.parse_args()
    cost = report_cost()
    qualities = report_quality(arguments.records, arguments.classes, arguments.shards)
    views = report_views(arguments.records, arguments.views)
    raw = {"cost": cost, "quality": qualities, "views": views}
    write_raw(arguments.json, "order", arguments, raw)


if __name__ == "__main__":
    main()
