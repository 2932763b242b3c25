"""What holds for all tests: the order of files, examples without a clock, and a heap kept apart."""

import gc
import os

import hypothesis
import pytest

# TensorFlow reads these when it is imported: where a store is made to fail for good, its ten tries
# are not minutes apart.
os.environ.setdefault("GCS_RETRY_CONFIG_INIT_DELAY_TIME_US", "1000")
os.environ.setdefault("GCS_RETRY_CONFIG_MAX_DELAY_TIME_US", "10000")

# What takes longest, in that order: begun last, it would be waited for alone.
LONGEST = (
    "tests/beam/test_on_flink.py",
    "tests/test_docs.py",
    "tests/kubeflow_compile",
    "tests/feeding/test_indexed.py",
    "tests/notebooks",
    "tests/object_store/test_faults.py",
    "tests/pipeline/test_interrupts.py",
    "tests/pipeline/test_unforeseen_errors.py",
    "tests/pipeline/test_measured_runs.py",
    "tests/pipeline/test_end_to_end.py",
    "tests/pipeline/doctor",
    "tests/pipeline/test_span_runs.py",
    "tests/training",
    "tests/transform",
    "tests/pipeline/test_api.py",
    "tests/augment/test_rand_augment.py",
    "tests/views/test_parity.py",
)

# How long an example takes depends on the machine and on what else it does.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the longest files and folders first; within them, and after them, the order stays."""
    first = [config.rootpath / name for name in LONGEST]
    if gone := [str(path) for path in first if not path.exists()]:
        raise pytest.UsageError(f"LONGEST in tests/conftest.py names {gone}, which is not there.")

    def place(item: pytest.Item) -> int:
        paths = {item.path, *item.path.parents}
        return next((n for n, path in enumerate(first) if path in paths), len(first))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Spares Python's search for garbage the million objects that TFX and its libraries leave."""
    gc.collect()
    gc.freeze()
