"""Each hostile input in a real process: its exit code, its message, and how much memory it took."""

import re

import pytest

from tests.hostile.inputs import write_inputs
from tests.hostile.measured import run_measured
from tests.hostile.rows import ROWS

pytestmark = pytest.mark.e2e

# A good input's peak differs by some tens of MiB from run to run.
_MORE_MB = 300


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def peak_of_good(inputs, tmp_path_factory):
    """The peak of a command on a good input, in MiB; measured once."""
    peaks = {}

    def measure(words: str) -> float:
        if words not in peaks:
            out = tmp_path_factory.mktemp("good") / "out"
            ran = run_measured(words.format(out=out).split(), inputs)
            assert ran.code == 0, ran.output
            peaks[words] = ran.peak_mb
        return peaks[words]

    return measure


@pytest.mark.parametrize("name", ROWS)
def test_a_hostile_input_is_refused_in_a_sentence_and_in_bounded_memory(
    name, inputs, peak_of_good, tmp_path
):
    row = ROWS[name]
    ran = row.run(inputs, tmp_path / "out")
    assert ran.code == row.code, ran.output
    assert re.search(row.says, ran.output), ran.output
    assert "Traceback" not in ran.output
    assert ran.peak_mb < peak_of_good(row.good) + _MORE_MB
