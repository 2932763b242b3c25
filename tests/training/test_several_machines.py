"""Several machines learn what one does, from the same batches, and write one model."""

import json
import pathlib
import signal
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline import analyze, ingest
from image_pipeline.components.transform.preprocessing import standardize
from tests import drawings, graphs, shards
from tests.training.machines import PATIENCE_S, end_machines, start_machines

pytestmark = [pytest.mark.e2e, pytest.mark.wide, pytest.mark.timeout(3 * PATIENCE_S)]

SAME = [
    *("dense", "unknown", "weights", "several_steps"),
    *("normalised", "convolved", "averaged", "stopped"),
]
REFUSED = ["parted", "options", "odd"]
MACHINES = 3
COMMAND = pathlib.Path(sys.executable).with_name("image-pipeline")


def draw(count, labels=("cat", "dog")):
    """Records of noise: of `draw_image`'s, a model soon knows too much to tell rounding from."""
    generator = np.random.default_rng(count)
    return [
        shards.make_example(
            generator.integers(0, 256, (8, 8, 3), np.uint8), labels[n % len(labels)], name=f"{n}"
        )
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    shards.write_shards(folder / "Split-train", draw(13), 2)
    shards.write_shards(folder / "Split-unknown", draw(13, ("cat", "bird", "dog")), 2)
    shards.write_shards(folder / "Split-eval", draw(7))
    # With weights of its classes.
    graphs.write_graph(folder / "graph", labels=("cat", "dog"), preprocessing_fn=standardize)
    return folder


@pytest.fixture(scope="module")
def told(folder):
    """What each machine, and one alone, printed of each case."""
    command = ["-m", "tests.training.on_several_machines", str(folder)]
    alone = end_machines(start_machines(1, [*command, *SAME]))
    machines = end_machines(start_machines(MACHINES, [*command, *SAME, *REFUSED], chief=True))
    errors = []
    for code, out, err in (*alone, *machines):
        assert code == 0, err
        lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"case"')]
        errors.append({line["case"]: line["error"] for line in lines})
    return errors[1:]


def read_weights(path):
    (index,) = path.glob("*/variables/variables.index")
    reader = tf.train.load_checkpoint(str(index.with_suffix("")))
    names = sorted(reader.get_variable_to_shape_map())
    return [reader.get_tensor(name) for name in names if name.startswith("weights/")]


def read_metrics(path):
    return json.loads((path / "run/history.json").read_text())["metrics"]


@pytest.mark.parametrize("case", SAME)
def test_machines_learn_as_one_does(told, folder, case):
    assert [each[case] for each in told] == [None] * MACHINES
    one, several = read_metrics(folder / case / "alone"), read_metrics(folder / case / "0")
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} == set(one)
    assert several == {key: pytest.approx(each, rel=1e-5, abs=1e-6) for key, each in one.items()}
    weights = read_weights(folder / case / "alone"), read_weights(folder / case / "0")
    # float32 sums in another order: they differ by up to 2e-6.
    for alone, shared in zip(*weights, strict=True):
        np.testing.assert_allclose(shared, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", SAME)
def test_the_chief_alone_writes(told, folder, case):
    assert {each.name for each in (folder / case).iterdir()} == {"alone", "0"}


def test_the_model_knows_of_no_machine(told, folder):
    loaded = tf.saved_model.load(str(folder / "dense/0/model"))
    answer = loaded.signatures["serving_examples"](examples=tf.constant(draw(4)))
    assert answer["probabilities"].shape == (4, 2)
    assert b"localhost" not in (folder / "dense/0/model/saved_model.pb").read_bytes()


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("parted", "All machines of TF_CONFIG must go on from the same checkpoint; training."),
        ("options", "All machines of TF_CONFIG must have the same options of view, feeding and"),
        ("odd", "feeding.batch_size must be a multiple of the 3 workers that share each batch"),
    ],
)
def test_what_would_part_machines_is_refused_by_all(told, case, message):
    assert all(each[case].startswith(message) for each in told), told


def make_data_set(folder):
    """A data set and its graph, as `image-pipeline train` takes them."""
    data, graph = str(folder / "data"), str(folder / "graph")
    ingest(str(drawings.write_folder(folder / "images", per_class=15)), data)
    analyze(data, graph, view={"height_px": 8, "width_px": 8})
    return data, graph


def wait_for_checkpoint(processes, output, name):
    while not list(output.glob(f"checkpoints/*/{name}/position.json")):
        assert all(process.poll() is None for process in processes)
        time.sleep(0.01)


def test_a_killed_machine_ends_all_and_all_go_on_from_the_last_checkpoint(tmp_path):
    data, graph = make_data_set(tmp_path)
    options = [
        *("training.model=tests.training.device_models.averaged", "training.epochs=3"),
        *("training.checkpoint_steps=1", "feeding.batch_size=6", "feeding.augment=[]"),
    ]

    def start(name, *more, count=2):
        settings = [word for option in (*options, *more) for word in ("--set", option)]
        output = ["--graph", graph, "--output", str(tmp_path / name)]
        return start_machines(count, [str(COMMAND), "train", data, *output, *settings])

    together = "training.strategy=multi_worker"
    # By SIGTERM it ends as any command does, which TensorFlow would not have it do.
    for epoch, (victim, how, expected) in enumerate(
        ((1, signal.SIGKILL, -9), (0, signal.SIGTERM, 143))
    ):
        processes = start("killed", together)
        wait_for_checkpoint(processes, tmp_path / "killed", f"{epoch:06d}-*[1-9]")
        processes[victim].send_signal(how)
        ends = end_machines(processes)
        code, _, err = ends[1 - victim]
        assert (ends[victim][0], code) == (expected, 1), err
        assert err.startswith("Error: Another machine (") and err.count("\n") == 1, err
    assert not (tmp_path / "killed/Format-Serving").exists()
    for name in ("killed", "whole"):
        ends = end_machines(start(name, together))
        assert [code for code, _, _ in ends] == [0, 0], ends
        assert "worker 1 of 2: the chief has the model" in " ".join(ends[1][1].split())
    ((code, _, err),) = end_machines(start("alone", count=1))
    assert code == 0, err
    found = [read_weights(tmp_path / name) for name in ("killed", "whole", "alone")]
    for ended, through, one in zip(*found, strict=True):
        np.testing.assert_array_equal(ended, through)
        np.testing.assert_allclose(through, one, rtol=1e-5, atol=1e-6)
