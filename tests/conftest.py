"""What all tests share: their order, examples without a clock, a heap kept apart, a data set."""

import contextlib
import gc
import os
import pathlib
import shutil
import sys
from collections.abc import Generator

import hypothesis
import pytest

from tests.drawings import write_folder
from tests.plain import only_plain_functions
from tests.quick import is_quick, needs_tfx
from tests.tiers import list_unmarked, thin_out

# TensorFlow reads these when it is imported: where a store is made to fail for good, its ten tries
# are not minutes apart.
os.environ.setdefault("GCS_RETRY_CONFIG_INIT_DELAY_TIME_US", "1000")
os.environ.setdefault("GCS_RETRY_CONFIG_MAX_DELAY_TIME_US", "10000")

# What takes longest, in that order: begun last, it would be waited for alone.
LONGEST = (
    "tests/beam/test_on_engines.py",
    "tests/golden",
    "tests/test_docs.py",
    "tests/kubeflow_compile",
    "tests/feeding/test_reader.py",
    "tests/notebooks",
    "tests/object_store/test_faults.py",
    "tests/pipeline/test_interrupts.py",
    "tests/pipeline/test_unforeseen_errors.py",
    "tests/pipeline/test_measured_runs.py",
    "tests/pipeline/test_end_to_end.py",
    "tests/pipeline/doctor",
    "tests/pipeline/test_span_runs.py",
    "tests/contracts",
    "tests/training",
    "tests/evaluation",
    "tests/models",
    "tests/tasks",
    "tests/transform",
    "tests/pipeline/test_api.py",
    "tests/ingest/test_paired_runs.py",
    "tests/feeding/test_fed_boxes.py",
    "tests/feeding/test_further_columns.py",
    "tests/augment/test_rand_augment.py",
    "tests/views/test_parity.py",
)

# What waits for servers, other processes and clocks of a machine that others use, too: what fails
# there is tried twice more, and each such retry is printed. What compares the bytes, order or
# weights of engines, generators and machines is not among it.
WAITING = (
    "tests/inference/test_serving_shapes.py",
    "tests/notebooks",
    "tests/object_store/test_faults.py",
    "tests/pipeline/browse",
    "tests/pipeline/doctor",
    "tests/pipeline/run",
    "tests/pipeline/show/test_terminal.py",
    "tests/test_docs.py",
    "tests/test_locks.py",
    "tests/test_progress.py",
    "tests/test_threads.py",
    "tests/test_warm.py",
    "tests/training/test_cluster.py",
    "tests/training/test_profile.py",
)

# How many examples of each property: in `make test`, and in `make test-all`. How long one takes
# depends on the machine and on what else it does.
for name, count in {"some": 25, "many": 300}.items():
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile(
        name, max_examples=count, deadline=None, suppress_health_check=slow
    )
hypothesis.settings.load_profile("some")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds what `make quick` and `make wheel-check` ask for."""
    parser.addoption("--quick", action="store_true", help="collect only what is imported quickly")
    parser.addoption("--core", action="store_true", help="collect only what needs no TFX")


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Leaves out, when asked for, what imports TensorFlow, Beam or TFX."""
    is_left_out = (config.option.quick and not is_quick(collection_path)) or (
        config.option.core and needs_tfx(collection_path)
    )
    return True if is_left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the longest files and folders first, and marks what is tried again."""
    thin_out(items)
    if unmarked := list_unmarked(items):
        raise pytest.UsageError(f"Mark as unit, beam or e2e: {', '.join(unmarked)}.")
    first = [config.rootpath / name for name in LONGEST]
    waiting = {config.rootpath / name for name in WAITING}
    if gone := [str(path) for path in [*first, *waiting] if not path.exists()]:
        raise pytest.UsageError(f"tests/conftest.py names {gone}, which is not there.")
    for item in items:
        if waiting & {item.path, *item.path.parents}:
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=5))

    def place(item: pytest.Item) -> int:
        paths = {item.path, *item.path.parents}
        return next((n for n, path in enumerate(first) if path in paths), len(first))

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Holds unit tests to what they are."""
    is_unit = item.get_closest_marker("unit") and not item.get_closest_marker("e2e")
    with only_plain_functions() if is_unit else contextlib.nullcontext():
        return (yield)


gc.disable()  # Until all is imported: its searches find none, and cost 3 s for TFX alone.


def pytest_collection_finish() -> None:
    """Spares Python's search for garbage the million objects that TFX and its libraries leave."""
    if "apache_beam.transforms.core" in sys.modules:
        from tests.beam_memo import remember  # Here, since it imports Beam.

        remember()
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def data_set(tmp_path_factory):
    """30 images of 2 classes in a train split of 3 shards and an eval split of 3."""
    from tests.ingest_runs import ingest  # Here, since it imports Beam.

    root = tmp_path_factory.mktemp("data_set")
    images = write_folder(root / "images", per_class=15)
    ingest(images, root / "data", shards=3)
    return root / "data"


@pytest.fixture(scope="session")
def train_shards(data_set):
    """The paths of the train split's shards, sorted."""
    return sorted(map(str, data_set.glob("Split-train/*")))


@pytest.fixture
def copied(data_set, tmp_path):
    """The paths of a copy of the train split, to be damaged."""
    shutil.copytree(data_set, tmp_path / "data")
    return sorted(map(str, (tmp_path / "data").glob("Split-train/*")))


@pytest.fixture
def damaged(copied):
    """The train shards of a copy whose record 2 has a flipped bit."""
    from image_pipeline.components.dataset.index import read_index
    from tests.shards import flip_bit  # Here, since it imports TensorFlow.

    flip_bit(copied[0], int(read_index(copied).offset[2]) + 30)
    return copied


@pytest.fixture
def cut_parts(monkeypatch):
    """What is cut out of stored JPEGs from now on, whatever the machine: None for whole ones."""
    from image_pipeline.components.views import fast_decode  # Here, since it imports TensorFlow.

    parts, cut = [], fast_decode.cut_part

    def cut_noting(*arguments):
        parts.append(cut(*arguments))
        return parts[-1]

    monkeypatch.setattr(fast_decode, "cut_part", cut_noting)
    monkeypatch.setattr(fast_decode, "_has_few_cores", lambda: True)
    return parts
