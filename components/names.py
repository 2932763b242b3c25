"""Names of files and classes, made safe to show: whoever made a file chose its name."""

import os
import re

# Control characters (C0, DEL, C1), which move a terminal's cursor or change its colours or title;
# line ends, which would look like further lines; marks that reverse the order of text (Unicode's
# UAX 9) or are invisible, so that one name looks like another; and surrogates, which stand for
# bytes that are not UTF-8 and cannot be printed.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff]"
)


def decode_name(path: str | bytes) -> str:
    """A name as in labels and the index: bytes that are not UTF-8 become backslash escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def printable(text: str) -> str:
    """A name that any terminal or page can show: unsafe characters become backslash escapes.

    Different names may then look the same; the JSON Lines files have them exactly.
    """
    return _UNSAFE.sub(_escape, text)


def printable_text(text: str) -> str:
    """The same for a message of several lines, whose line ends and tabs stay."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # as `os.fsdecode` has the byte
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def read_windows(text: str) -> str:
    """Text of which bytes were not UTF-8, as Windows wrote it in western languages (cp1252).

    Text that is not of that encoding stays as `os.fsdecode` has it, with a half character a byte.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return os.fsencode(text).decode("cp1252")
        except (UnicodeDecodeError, UnicodeEncodeError):
            return text
    return text
