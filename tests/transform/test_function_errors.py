"""What tf.Transform says when a traced function fails on data, in one sentence."""

import pytest

from image_pipeline.components.transform.run import find_function_error

pytestmark = pytest.mark.unit

# As tf.Transform and TensorFlow write it, cut short.
REPORT = """An error occurred while trying to apply the transformation: "Graph execution error:

Detected at node StringToNumber defined at (most recent call last):
<stack traces unavailable>
StringToNumberOp could not correctly convert string: "cat"
\t [[{{node StringToNumber}}]] [Op:__inference_wrapped_finalized_613]".
          Batch instances: pyarrow.RecordBatch
image: list<item: uint8> [while running 'Analyze']"""


def test_the_sentence_and_the_operation_are_kept():
    found = find_function_error(ValueError(REPORT), "pkg.fn")
    assert str(found) == (
        "preprocessing_fn pkg.fn fails on the data: StringToNumberOp could not correctly convert "
        'string: "cat" (operation StringToNumber); it must take every image, label and column of '
        "the data set."
    )


def test_it_is_found_behind_another_error_and_in_a_traceback():
    outer = RuntimeError("a worker died")
    outer.__cause__ = RuntimeError(f"Traceback (most recent call last):\nValueError: {REPORT}")
    assert "(operation StringToNumber)" in str(find_function_error(outer, "pkg.fn"))


def test_a_message_without_an_operation_keeps_its_last_line():
    report = REPORT.replace(
        "\t [[{{node StringToNumber}}]] [Op:__inference_wrapped_finalized_613]", ""
    )
    assert "fails on the data: StringToNumberOp could" in str(
        find_function_error(ValueError(report), "pkg.fn")
    )


def test_any_other_error_is_left_alone():
    assert find_function_error(ValueError("the disk is full"), "pkg.fn") is None
