"""Of a library's message, the line that says what went wrong."""

import os

import pytest

from image_pipeline.components.messages import describe_error, find_line, show, suggest
from image_pipeline.components.names import decode_name, printable, printable_text

pytestmark = pytest.mark.unit


def test_autographs_messages_name_the_error_once():
    text = 'in user code:\n\n    File "steps.py", line 3, in f\n\n    TypeError: no number\n'
    assert describe_error(TypeError(text)) == "TypeError: no number"


def test_what_is_shown_of_data_is_short_and_spells_out_no_bytes():
    assert show({"bytes": b"\x89PNG" * 99, "n": [1, "a b.png"]}) == (
        "{'bytes': <396 bytes>, 'n': [1, 'a b.png']}"
    )
    assert show(os.fsdecode(bytes(range(256)))) == "<256 characters>"
    assert len(show("a" * 5000)) == 200 and show("é.png") == "'é.png'"


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
        (
            "{{function_node __wrapped__DecodeImage_device_/job:localhost/device:CPU:0}} Unknown "
            "image file format. [Op:DecodeImage] name: ",
            "Unknown image file format.",
        ),
        (
            "\x1b[1mInput 0 is not compatible\x1b[0m\n\nArguments received by D",
            "Input 0 is not compatible",
        ),
    ],
    ids=["plain", "empty", "keras", "tensorflow", "several nodes", "an op by itself", "colours"],
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
        (RuntimeError(_REMOTE), "OtherError: the disk is gone [while running 'Ingest/Write']"),
        (RuntimeError(_GRAPH), "RuntimeError: Incompatible shapes: [32] vs. [32,2]"),
        (RuntimeError(_ROOTS), "RuntimeError: labels must be below 2"),
        (RuntimeError("Graph execution error:"), "RuntimeError: Graph execution error:"),
        (OSError("a" * 999), f"OSError: {'a' * 291}"),
    ],
    ids=range(9),
)
def test_an_unforeseen_error_is_told_by_the_line_that_says_what_happened(error, line):
    assert describe_error(error) == line


def test_the_nearest_name_is_suggested_in_any_case():
    assert suggest("flnkrunner", ["FlinkRunner", "SparkRunner"]) == "did you mean FlinkRunner? "
    assert suggest("rotat", ["rotate", "rotates"], most=2) == "did you mean rotate or rotates? "
    assert suggest("qqqq", ["rotate"]) == ""


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a/with space.png", "a/with space.png"),
        ("größe \N{CAT FACE}.png", "größe \N{CAT FACE}.png"),
        ("\x1b[2J\x1b]0;title\x07.png", r"\x1b[2J\x1b]0;title\x07.png"),
        ("a\nb\tc\rd\x7f", r"a\x0ab\x09c\x0dd\x7f"),
        ("\x9b31m.png", r"\x9b31m.png"),
        ("gnp.\u202eexe", r"gnp.\u202eexe"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        (os.fsdecode(b"\xff.png"), r"\xff.png"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_could_move_a_terminal_is_shown_as_an_escape(name, shown):
    assert printable(name) == shown
    assert printable(shown) == shown
    shown.encode()


def test_a_message_keeps_its_lines():
    assert printable_text("two\n\tlines\x1b") == "two\n\tlines\\x1b"


def test_labels_keep_all_but_what_is_no_text():
    assert decode_name(os.fsdecode(b"a\x1b\xff")) == "a\x1b\\xff"
