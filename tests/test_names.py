import os

import pytest

from image_pipeline.components.names import decode_name, printable, printable_text

pytestmark = pytest.mark.unit


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
