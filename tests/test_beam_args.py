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


@pytest.mark.parametrize("name", ["direct", "DIRECTRUNNER", "fnapi"])
def test_beams_short_names_mean_the_same(name):
    assert complete_beam_args([f"--runner={name}"]) == LOCAL


def test_a_runner_of_ones_own_is_taken_as_it_is():
    assert complete_beam_args(["--runner=my.module.MyRunner"]) == ["--runner=my.module.MyRunner"]


def test_an_unknown_runner_is_named_with_the_nearest_one():
    with pytest.raises(UserError, match=r"unknown Beam runner 'FlnkRunner'; did you mean FlinkR"):
        complete_beam_args(["--runner=FlnkRunner"])
    with pytest.raises(UserError, match=r"unknown Beam runner 'x'; known here: FnApiRunner"):
        complete_beam_args(["--runner=x"])


@pytest.mark.parametrize(
    ("name", "reason"), [("dask", "wrong results, silently"), ("PrismRunner", "from the internet")]
)
def test_runners_that_do_harm_are_refused(name, reason):
    with pytest.raises(UserError, match=rf"Runner is refused: .*{reason}.*; use FlinkRunner"):
        complete_beam_args([f"--runner={name}"])
