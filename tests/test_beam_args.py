import pytest

from components.beam_args import complete_beam_args
from components.errors import UserError

pytestmark = pytest.mark.unit

LOCAL = ["--runner=FnApiRunner", "--direct_running_mode=in_memory"]


@pytest.mark.parametrize("given", [[], ["--runner=DirectRunner"], ["--runner=FnApiRunner"]])
def test_the_local_runner_and_its_mode_are_always_named(given):
    assert complete_beam_args(given) == LOCAL


def test_a_mode_that_is_given_stays():
    given = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    assert complete_beam_args(given) == ["--runner=FnApiRunner", *given]


def test_another_runner_gets_no_local_mode():
    given = ["--runner=FlinkRunner", "--flink_master=[local]"]
    assert complete_beam_args(given) == given


def test_the_mode_that_loses_records_is_refused():
    with pytest.raises(UserError, match=r"multi_threading is refused: .* loses records"):
        complete_beam_args(["--direct_running_mode=multi_threading"])


def test_a_flag_needs_its_dashes():
    with pytest.raises(UserError, match=r"written --name=value, got 'runner=Flink'"):
        complete_beam_args(["runner=Flink"])
