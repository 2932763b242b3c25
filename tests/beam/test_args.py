import pytest
from tfx.utils import dependency_utils

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS, complete_beam_args
from image_pipeline.components.errors import UserError

pytestmark = pytest.mark.unit

NO_IMAGE = "--sdk_container_image=none"
LOCAL = ["--runner=FnApiRunner", "--direct_running_mode=in_memory", NO_IMAGE]


@pytest.mark.parametrize("given", [[], ["--runner=DirectRunner"], ["--runner=FnApiRunner"]])
def test_the_local_runner_and_its_mode_are_always_named(given):
    assert complete_beam_args(given) == LOCAL


def test_a_mode_that_is_given_stays():
    given = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    assert complete_beam_args(given) == ["--runner=FnApiRunner", *given, NO_IMAGE]


def test_an_image_that_is_given_stays():
    given = ["--runner=FnApiRunner", "--sdk_container_image=mine"]
    assert complete_beam_args(given) == [*given, "--direct_running_mode=in_memory"]


def test_tfx_does_not_pack_itself_up_for_the_local_runner(monkeypatch):
    monkeypatch.setattr(dependency_utils, "build_ephemeral_package", lambda: "tfx.tar.gz")
    assert dependency_utils.make_beam_dependency_flags(LOCAL) == LOCAL == list(LOCAL_BEAM_ARGS)
    packed = dependency_utils.make_beam_dependency_flags(LOCAL[:2])
    assert packed == [*LOCAL[:2], "--extra_package=tfx.tar.gz"]


def test_another_runner_gets_no_local_mode():
    given = ["--runner=FlinkRunner", "--flink_master=[local]"]
    assert complete_beam_args(given) == given


def test_dataflows_machines_have_one_process_each_and_no_main_session_unless_it_is_said():
    given = ["--runner=DataflowRunner", "--project=p", "--experiments=use_runner_v2"]
    one, none = "--experiments=no_use_multiple_sdk_containers", "--no_save_main_session"
    assert complete_beam_args(given) == [*given, one, none]
    assert complete_beam_args([*given, one, none]) == [*given, one, none]
    other = [*given, "--experiments=use_multiple_sdk_containers", "--save_main_session"]
    assert complete_beam_args(other) == other


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
    with pytest.raises(UserError, match=r"unknown Beam runner 'x'; known: FnApiRunner"):
        complete_beam_args(["--runner=x"])


@pytest.mark.parametrize(
    ("name", "runner", "reason"),
    [
        ("dask", "DaskRunner", "wrong results, silently"),
        ("apache_beam.runners.dask.dask_runner.DaskRunner", "DaskRunner", "wrong results"),
        ("ray", "RayRunner", "Beam has none"),
    ],
)
def test_runners_that_do_harm_are_refused(name, runner, reason):
    message = rf"--runner={runner} is refused: .*{reason}.*; use FlinkRunner or SparkRunner\."
    with pytest.raises(UserError, match=message):
        complete_beam_args([f"--runner={name}"])


@pytest.mark.parametrize("name", ["spark", "SparkRunner", "prism", "PrismRunner"])
def test_engines_get_no_local_mode(name):
    runner = "SparkRunner" if "park" in name else "PrismRunner"
    assert complete_beam_args([f"--runner={name}"]) == [f"--runner={runner}"]
