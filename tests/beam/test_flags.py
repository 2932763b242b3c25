import logging

import pytest

from image_pipeline.components.beam.flags import JobOptions, find_given, parse_flags
from image_pipeline.components.errors import UserError

pytestmark = pytest.mark.unit


def test_what_is_set_has_beams_own_names():
    flags = ["--worker_machine_type=x", "--no_use_public_ips", "--start_timeout_s=7"]
    given = find_given([*flags, "--experiments=a", "--experiments=b"])
    expected = {"machine_type": "x", "use_public_ips": False, "start_timeout_s": 7.0}
    assert given == {**expected, "experiments": ["a", "b"]}


def test_this_projects_own_flags_have_defaults():
    assert parse_flags([]).view_as(JobOptions).start_timeout_s == 600.0


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--num_wrokers=2", r"unknown Beam flag '--num_wrokers=2'; did you mean --num_workers\?"),
        ("--machin_type=x", r"did you mean --machine_type\?"),  # A second name of a flag.
        ("stray", "unknown Beam flag 'stray'; Beam's documentation lists them"),
        ("--project=", "the Beam flag --project= has no value; give one, or leave it out"),
        ("--num_workers=2x", "Beam rejects its flags: argument --num_workers: invalid int value"),
    ],
)
def test_what_cannot_be_read_is_said_once(flag, message, capfd, caplog):
    with caplog.at_level(logging.WARNING), pytest.raises(UserError, match=message):
        find_given(["--runner=DataflowRunner", flag])
    assert capfd.readouterr().err == "" and caplog.text == ""
