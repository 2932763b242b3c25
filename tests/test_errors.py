import pytest

from components.errors import UserError, find_last_line, find_user_error, walk_causes

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


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("one line", "one line"),
        ("", ""),
        (
            "Exception encountered when calling Functional.call().\n\nInput 0 is incompatible.\n\n"
            "Arguments received by Functional.call():\n  • inputs=tf.Tensor(shape=(4, 8))\n",
            "Input 0 is incompatible.",
        ),
        (
            "Graph execution error:\n\nDetected at node loss/x defined at:\n  File 'a.py'\n\n"
            "Received a label value of 5 which is outside the valid range of [0, 2).\n"
            "\t [[{{node loss/x}}]] [Op:__inference_one_step_on_iterator_12]",
            "Received a label value of 5 which is outside the valid range of [0, 2).",
        ),
        (
            "2 root error(s) found.\n  (0) INVALID_ARGUMENT:  bad shape\n\t [[{{node a}}]]\n"
            "  (1) INVALID_ARGUMENT:  bad shape\n\t [[{{node a}}]]\n0 successful operations.\n"
            "0 derived errors ignored. [Op:__inference_f_3]",
            "bad shape",
        ),
    ],
    ids=["plain", "empty", "keras", "tensorflow", "several nodes"],
)
def test_of_a_long_message_the_line_is_shown_that_says_what_is_wrong(message, told):
    assert find_last_line(RuntimeError(message)) == told
