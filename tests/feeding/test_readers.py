"""Whoever reads: Keras, a custom loop, MirroredStrategy over two devices, and very many shards."""

import collections
import itertools
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.index_file import INDEX_SCHEMA
from image_pipeline.components.dataset.tfrecord import frame
from tests import shards

pytestmark = pytest.mark.beam


def run_python(program, *arguments):
    """Runs a program in a process of its own; gives what its last line says, in JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ".", "PATH": "/usr/bin:/bin", "TF_CPP_MIN_LOG_LEVEL": "2"},
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def two_thousand_shards(tmp_path_factory):
    """2,400 records in 2,000 shards, with an index: one of 12 is a dog."""
    root = tmp_path_factory.mktemp("many")
    folder = root / "Split-train"
    folder.mkdir()
    examples = [
        shards.make_example(shards.draw_image(n, 2, 2), "cat" if n % 12 else "dog", "raw", f"{n}")
        for n in range(2400)
    ]
    rows = []
    for number in range(2000):
        data = b""
        for example in examples[number::2000]:
            values = record.decode_example(example)
            row = {
                "split": "train",
                "shard": number,
                "record_offset": len(data),
                "record_length": len(example),
                "payload_length": len(values[record.IMAGE]),
                "record_id": values[record.SOURCE_ID].decode(),
                "label": values[record.LABEL].decode(),
                "format": "raw",
                "source": values[record.FILENAME].decode(),
                **{name: values[f"image/{name}"] for name in ("height", "width", "channels")},
            }
            rows.append({field.name: row.get(field.name) for field in INDEX_SCHEMA})
            data += frame(example)
        (folder / f"data_tfrecord-{number:05d}-of-02000").write_bytes(data)
    pq.write_table(pa.Table.from_pylist(rows, INDEX_SCHEMA), root / "index.parquet")
    return sorted(map(str, folder.iterdir()))


READ_MANY = """
import collections, glob, json, os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from image_pipeline.components.feeding.reader import BatchReader
from image_pipeline.components.feeding.input_fn import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.verify_epoch import verify_epoch
from image_pipeline.components.views.options import ViewOptions

paths = sorted(glob.glob(sys.argv[1] + "/*"))
feeding = FeedingOptions(**json.loads(sys.argv[2]), batch_size=100)
verified = verify_epoch(paths, feeding, seed=1, epoch=2)  # Raises if any comes not as it should.
view = ViewOptions(height_px=2, width_px=2)
batches = input_fn(
    paths, view=view, feeding=feeding, transform_graph_dir=None, mode="train", seed=1, epochs=2
)
labels = [
    label.decode() for _, batch in batches.as_numpy_iterator() for label in batch.tolist()
]
open_files = len(os.listdir("/proc/self/fd"))
print(json.dumps([verified.draws, verified.records, collections.Counter(labels), open_files]))
"""


@pytest.mark.wide
@pytest.mark.parametrize(
    ("feeding", "labels"),
    [({}, {"cat": 4400, "dog": 400}), ({"balance": "uniform"}, {"cat": 2400, "dog": 2400})],
    ids=str,
)
def test_two_thousand_shards_are_read_with_256_open_files(two_thousand_shards, feeding, labels):
    folder = two_thousand_shards[0].rpartition("/")[0]
    draws, records, drawn, open_files = run_python(READ_MANY, folder, json.dumps(feeding))
    assert draws == 2400
    # Balanced, every dog comes 6 times and the 2,200 cats share the 1,200 other draws.
    assert records == (1400 if feeding else 2400)
    assert drawn == labels
    assert open_files < 256


STRATEGY = """
import glob, json, sys
import keras
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from image_pipeline.components.feeding.input_fn import input_fn, steps_per_epoch
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions

paths = sorted(glob.glob(sys.argv[1] + "/*"))
feeding = FeedingOptions(batch_size=4, **json.loads(sys.argv[2]))

def make(context=None, again="next"):
    part = {} if context is None else {
        "worker": context.input_pipeline_id, "workers": context.num_input_pipelines
    }
    return input_fn(
        paths, view=ViewOptions(height_px=8, width_px=8), feeding=feeding,
        transform_graph_dir=None, mode="train", seed=3, epochs=2, again=again, **part
    )

def fingerprint(images):
    return tf.strings.as_string(tf.reduce_sum(tf.cast(images, tf.int64), [1, 2, 3]))

def name(values):
    return [value.decode() for value in values.numpy().tolist()]

found = {"loop": [], "replicas": [[], []], "parts": [[], []], "devices": [], "keras": []}
for images, labels in make():
    found["loop"].append(name(fingerprint(images)))

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
def part(context):
    return make(context).rebatch(context.get_per_replica_batch_size(4))

for key, function in (("replicas", make), ("parts", part)):
    for images, labels in strategy.distribute_datasets_from_function(function):
        parts = strategy.experimental_local_results(
            strategy.run(lambda images: fingerprint(images), args=(images,))
        )
        for number, one in enumerate(parts):
            found[key][number].append(name(one))
found["devices"] = len(set(strategy.extended.worker_devices))

class Watching(keras.Sequential):
    def train_step(self, data):
        tf.py_function(lambda names: found["keras"].append(name(names)), [fingerprint(data[0])], [])
        return super().train_step(data)

with strategy.scope():
    layers = keras.layers
    model = Watching([layers.Input((8, 8, 3)), layers.Rescaling(1 / 255), layers.Flatten(),
                      layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
# Under a strategy Keras looks at the first batch, and begins again.
data = make(again="same").map(lambda images, labels: (images, tf.zeros([tf.shape(images)[0], 1])))
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
history = model.fit(
    data.with_options(options), epochs=2, steps_per_epoch=steps_per_epoch(paths, feeding, "train"),
    shuffle=False, verbose=0,
)
found["losses"] = len(history.history["loss"])
print(json.dumps(found))
"""


@pytest.mark.wide
def test_a_loop_keras_and_two_replicas_read_the_same_batches(train_shards):
    folder = train_shards[0].rpartition("/")[0]
    options = {"remainder": "pad", "augment": []}
    found = run_python(STRATEGY, folder, json.dumps(options))
    records = len(read_index(train_shards))
    steps = -(-records // 4)
    assert [len(batch) for batch in found["loop"]] == [4] * (2 * steps)
    epochs = [_count(found["loop"][:steps]), _count(found["loop"][steps:])]
    assert [len(counts) for counts in epochs] == [records, records]
    # Keras halves each batch between the replicas, which run at the same time.
    parts = found["keras"]
    assert [len(part) for part in parts] == [2] * (4 * steps)
    assert [_count(parts[: 2 * steps]), _count(parts[2 * steps :])] == epochs
    assert (found["devices"], found["losses"]) == (2, 2)
    # A data set from a function gives whole batches, to the replicas in turn.
    assert list(itertools.chain(*zip(*found["replicas"], strict=True))) == found["loop"]
    # Parted as docs/feeding.md says, a step of both of them together trains on one global batch.
    assert [one + other for one, other in zip(*found["parts"], strict=True)] == found["loop"]


def _count(batches):
    return collections.Counter(image for batch in batches for image in batch)
