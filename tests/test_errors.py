import pytest

from components.errors import UserError, find_user_error, walk_causes

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
    "text",
    [
        "tensorflow.python.framework.errors_impl.AbortedError: All 10 retry attempts failed. The "
        "last failure: Error executing an HTTP request: libcurl code 52 meaning 'no data',\n"
        "error details: Empty reply\n\t when uploading gs://bucket/graph/ [while running 'Write']",
        "Error executing an HTTP request: libcurl code 52 meaning 'no data', error details: Empty "
        "reply\n\t when reading metadata of gs://bucket/graph/",
    ],
)
def test_a_store_that_failed_tensorflow_s_tries_is_named(text):
    assert str(find_user_error(RuntimeError(text))) == (
        "gs://bucket/graph/: its store refused or did not answer (libcurl code 52 meaning 'no "
        "data', error details: Empty reply); check the address, the network, and what the "
        "credentials allow."
    )


def test_a_store_s_answer_is_cut():
    text = f"Error executing an HTTP request: HTTP response code 403 with body '{'x' * 1000}'"
    assert len(str(find_user_error(RuntimeError(text)))) < 500
