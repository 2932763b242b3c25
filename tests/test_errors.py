import pytest

from components.errors import (
    UserError,
    describe_error,
    find_user_error,
    raise_interrupt,
    walk_causes,
)

pytestmark = pytest.mark.unit


def test_finds_the_error_itself_without_beams_stage():
    error = UserError("Add images.\nNow. [while running 'Ingest/Plan']")
    assert str(find_user_error(error)) == "Add images.\nNow."


def test_finds_it_as_a_cause():
    try:
        try:
            raise UserError("Add images.")
        except UserError as cause:
            raise RuntimeError("job failed") from cause
    except RuntimeError as error:
        assert str(find_user_error(error)) == "Add images."


def test_finds_it_in_the_text_of_a_remote_traceback():
    text = (
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    raise UserError(m)\n'
        "components.errors.UserError: First line:\n  second line [while running 'Ingest/Plan']\n\n"
        "Some other words of the runner."
    )
    assert str(find_user_error(RuntimeError(text))) == "First line:\n  second line"


def test_other_errors_are_none():
    assert find_user_error(ValueError("x")) is None


def test_causes_in_a_circle_end():
    error, cause = ValueError("x"), OSError("y")
    error.__cause__, cause.__cause__ = cause, error
    assert list(walk_causes(error)) == [error, cause]
    assert find_user_error(error) is None


_REMOTE = """The job failed:
Traceback (most recent call last):
  File "worker.py", line 1, in do
    process()
OSError: [Errno 5] Input/output error

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "worker.py", line 2, in do
    raise
some.package.OtherError: the disk is gone [while running 'Ingest/Write']
"""
_GRAPH = """Graph execution error:

Detected at node Equal defined at (most recent call last):
  File "model.py", line 3, in call

Detected at node Equal defined at (most recent call last):
<stack traces unavailable>
Incompatible shapes: [32] vs. [32,2]
\t [[{{node Equal}}]] [Op:__inference_multi_step_on_iterator_77]"""
_ROOTS = """Graph execution error:

Detected at node 'Cast' defined at (most recent call last):
2 root error(s) found.
  (0) INVALID_ARGUMENT:  labels must be below 2
\t [[{{node Cast}}]]
  (1) CANCELLED:  Function was cancelled
0 successful operations."""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("x must be y\nand more"), "ValueError: x must be y"),
        (KeyError("accuracy"), "KeyError: 'accuracy'"),
        (RuntimeError(), "RuntimeError"),
        (RuntimeError("\n \n"), "RuntimeError"),
        (
            RuntimeError(_REMOTE),
            "OtherError: the disk is gone [while running 'Ingest/Write']",
        ),
        (RuntimeError(_GRAPH), "RuntimeError: Incompatible shapes: [32] vs. [32,2]"),
        (RuntimeError(_ROOTS), "RuntimeError: (0) INVALID_ARGUMENT:  labels must be below 2"),
        (RuntimeError("Graph execution error:"), "RuntimeError: Graph execution error:"),
        (OSError("a" * 999), f"OSError: {'a' * 291}"),
    ],
    ids=range(9),
)
def test_an_unforeseen_error_is_told_by_the_line_that_says_what_happened(error, line):
    assert describe_error(error) == line


def test_ctrl_c_is_found_behind_what_a_runner_made_of_it():
    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise RuntimeError("KeyboardInterrupt [while running 'Write']")  # noqa: B904
    except RuntimeError as error:
        with pytest.raises(KeyboardInterrupt):
            raise_interrupt(error)
    raise_interrupt(ValueError("another"))
