"""Reads 17 list columns on one and on two replicas; prints losses, and which operations ran.

Run as a program: logical devices can only be made before TensorFlow has begun.
"""

import json
import pathlib
import sys
import tempfile

import tensorflow as tf

from image_pipeline.api import input_fn
from image_pipeline.components.views.options import ViewOptions

LISTS = [f"list_{number}" for number in range(17)]
STEPS = 2


def read(data_dir):
    view = ViewOptions(height_px=8, width_px=8)
    options = {"view": view, "batch_size": 8, "augment": [], "remainder": "drop", "columns": LISTS}
    return input_fn(data_dir, "train", **options).take(STEPS)


def list_operations(data):
    """The types of all operations of a data set, those of its functions too."""
    serialized = tf.raw_ops.DatasetToGraphV2(input_dataset=data._variant_tensor).numpy()
    graph = tf.compat.v1.GraphDef.FromString(serialized)
    nodes = [*graph.node, *(node for body in graph.library.function for node in body.node_def)]
    return {node.op for node in nodes}


def measure(strategy, data):
    """The loss of each step, summed over the replicas: how far a weight is from each value."""
    weight = tf.constant(0.5)

    def replica_loss(inputs, labels):
        del labels
        loss = tf.reduce_sum(tf.cast(inputs["image"], tf.float32)) / 1e4
        for name in LISTS:
            mask = tf.sequence_mask(inputs[f"{name}_length"], tf.shape(inputs[name])[1])
            errors = (tf.cast(inputs[name], tf.float32) * weight - 1) ** 2
            loss += tf.reduce_sum(tf.where(mask, errors, 0.0))
        return loss

    @tf.function
    def step(inputs, labels):
        losses = strategy.run(replica_loss, args=(inputs, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    batches = strategy.experimental_distribute_dataset(data)
    return [float(step(*batch)) for batch in batches]


def main(data_dir):
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [logical, logical])
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    one = measure(tf.distribute.OneDeviceStrategy("CPU:0"), read(data_dir))
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            both = measure(two, read(data_dir))
        (trace,) = (path.read_bytes() for path in pathlib.Path(folder).rglob("*.xplane.pb"))
    sparse = tf.data.Dataset.range(4).map(lambda number: tf.sparse.from_dense([number])).batch(2)
    told = {
        "one": one,
        "two": both,
        "replicas": two.num_replicas_in_sync,
        "operations": sorted(list_operations(read(data_dir))),
        "operations_of_sparse": sorted(list_operations(sparse)),
        "traced_parsing": b"ParseExample" in trace,
        "traced_sparse": b"SerializeSparse" in trace or b"SerializeManySparse" in trace,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
