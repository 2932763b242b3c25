import errno
import os

import pytest

from image_pipeline.components.errors import (
    UserError,
    find_user_error,
    raise_interrupt,
    walk_causes,
)
from image_pipeline.components.ingest.plan import EmptySplit

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
        "image_pipeline.components.errors.UserError: First line:\n"
        "  second line [while running 'Ingest/Plan']\n\n"
        "Some other words of the runner."
    )
    assert str(find_user_error(RuntimeError(text))) == "First line:\n  second line"


def test_finds_one_of_its_kinds_in_the_text_of_a_remote_traceback():
    name = f"{EmptySplit.__module__}.{EmptySplit.__name__}"
    text = f"Traceback (most recent call last):\n{name}: Add images. [while running 'Plan']\n\nx"
    assert str(find_user_error(RuntimeError(text))) == "Add images."


def test_other_errors_are_none():
    assert find_user_error(ValueError("x")) is None


def test_causes_in_a_circle_end():
    error, cause = ValueError("x"), OSError("y")
    error.__cause__, cause.__cause__ = cause, error
    assert list(walk_causes(error)) == [error, cause]
    assert find_user_error(error) is None


def test_a_name_in_a_message_cannot_move_the_terminal():
    assert str(UserError("no such file: \x1b[2Ja\nsecond line")) == (
        "no such file: \\x1b[2Ja\nsecond line"
    )


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/out/a"), "Cannot write /out/a: "),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "Cannot write: "),
        (
            RuntimeError(
                "{{function_node __wrapped__SaveV2_device_/job:localhost}} /out/state_temp/part-0; "
                "No space left on device [Op:SaveV2]"
            ),
            "Cannot write /out/state_temp/part-0: ",
        ),
        (RuntimeError("java.io.IOException: No space left on device"), "Cannot write: "),
    ],
    ids=["Python", "Python, no name", "TensorFlow", "Java"],
)
def test_a_full_disk_is_named_whoever_wrote_there(error, where):
    outer = ValueError("the job failed")
    outer.__cause__ = error
    assert str(find_user_error(outer)) == (
        f"{where}the disk is full; free some space, or choose a folder on another disk, and run "
        "again; what is finished is kept."
    )


def test_a_full_disk_says_less_than_the_error_that_a_person_was_meant_to_read():
    error = OSError(errno.ENOSPC, "")
    error.__cause__ = UserError("Cannot write /out/a: No space left on device; free it.")
    assert str(find_user_error(error)) == str(error.__cause__)


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{function_node f}} corrupted record at 43019 [Op:IteratorGetNext]", "corrupted"),
        ("truncated record at 43019' failed with Read less bytes than requested", "truncated"),
    ],
)
def test_a_damaged_shard_is_no_unforeseen_error(text, said):
    assert str(find_user_error(RuntimeError(text))) == (
        f"A shard is damaged: {said} record at 43019; `image-pipeline verify` with the data set's "
        "folder names it; run ingest again."
    )


@pytest.mark.whole
@pytest.mark.parametrize("damage", ["flip", "cut"])
@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_what_tensorflow_says_of_damage_is_known(damage, compression, tmp_path):
    import tensorflow as tf

    path = str(tmp_path / "shard")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for _ in range(3):
            writer.write(bytes(range(256)) * 9)
    with open(path, "rb+") as file:
        content = bytearray(file.read())
        content[len(content) // 2] ^= 255
        file.seek(0)
        file.truncate()
        file.write(content if damage == "flip" else content[: len(content) // 2])
    with pytest.raises(tf.errors.DataLossError) as raised:
        list(tf.data.TFRecordDataset(path, compression))
    assert str(find_user_error(raised.value)).startswith("A shard is damaged: ")


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


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), "There is too little memory"),
        (
            type("ArrowMemoryError", (MemoryError,), {})("malloc of 64"),
            "There is too little memory",
        ),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "There is too little memory"),
        (
            RuntimeError("Traceback …\npyarrow.lib.ArrowMemoryError: x"),
            "There is too little memory",
        ),
        (
            ImportError("libx.so: failed to map segment from shared object"),
            "There is too little me",
        ),
        (RuntimeError("OOM when allocating tensor with shape[9]"), "There is too little memory"),
        (RuntimeError("error: (-4:Insufficient memory) Failed"), "There is too little memory"),
        (RuntimeError("can't start new thread"), "No further thread or process can be started"),
        (BlockingIOError(errno.EAGAIN, "fork"), "No further thread or process can be started"),
        (OSError(errno.EMFILE, "x"), "Too many files are open"),
        (OSError(errno.EFBIG, "x", "/out/a"), "Cannot write /out/a: the file would be larger than"),
        (OSError(errno.EIO, "x", "/in/a"), "Reading or writing /in/a failed: the disk"),
        (
            OSError("[Errno 5] Input/output error: '/in/b' [while running 'Prepare']"),
            "Reading or writing /in/b failed: the disk",
        ),
        (
            OSError("[Errno 13] Permission denied: 'data/m' [while running 'List']"),
            "'data/m' cannot be read or written: Permission denied; check",
        ),
        (OSError(errno.ESTALE, "x"), "Reading or writing failed: the disk, or the connection"),
    ],
)
def test_what_the_machine_lacks_is_said_whoever_noticed(error, says):
    outer = ValueError("the job failed")
    outer.__cause__ = error
    assert str(find_user_error(outer)).startswith(says)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "Cannot allocate memory"),  # Its number says more.
        ValueError("a MemoryError in the midst of a line"),
        RuntimeError("thread"),
        RuntimeError("Permission denied by what somebody wrote"),
    ],
)
def test_what_the_machine_does_not_lack_is_not_blamed_on_it(error):
    assert find_user_error(error) is None


def test_a_shard_that_tensorflow_finds_gone_is_no_unforeseen_error():
    text = "{{function_node f}} /data/train-0; No such file or directory [Op:IteratorGetNext]"
    assert str(find_user_error(RuntimeError(text))).startswith(
        "/data/train-0 is gone, or was replac"
    )
