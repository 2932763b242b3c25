"""Of a library's message, the line that says what went wrong."""

import pytest

from components.messages import describe_error, find_line

pytestmark = pytest.mark.unit


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
    assert find_line(message) == told


def test_the_first_of_several_plain_lines_is_told():
    assert find_line("must be positive\nsee the manual") == "must be positive"


def test_a_type_and_its_line_and_of_a_workers_traceback_the_last_one():
    assert describe_error(ValueError("must be positive")) == "ValueError: must be positive"
    assert describe_error(MemoryError()) == "MemoryError"
    text = (
        'job failed: Traceback\nTraceback (most recent call last):\n  File "x.py", line 1, in f\n'
        "OSError: first\n\nDuring handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "y.py", line 1, in g\n'
        "package.errors.StrangeError: second\nwith details"
    )
    assert describe_error(RuntimeError(text)) == "StrangeError: second"
