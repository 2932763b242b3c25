"""Parts of messages: an error in one line, the name that was probably meant, a value in short."""

import difflib
import re
import reprlib
from collections.abc import Iterable

_MOST_CHARACTERS = 300
# "Traceback", indented lines, "module.Type: message", up to the next traceback.
_RAISED = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)*"
    r"([\w.]+)(?:: ((?:.|\n)*?))?(?=\nTraceback|\n\nDuring|\n\nThe above|\Z)",
    re.MULTILINE,
)
# First lines of Keras and TensorFlow messages that only introduce them.
_LEADS_UP = re.compile(r".*:$|Exception encountered when calling")
# "Arguments received by Dense.call():" and a list, at the end of Keras's messages.
_ARGUMENTS = re.compile(r"^\s*(?:Call a|A)rguments received by ", re.MULTILINE)
# "[[{{node model/dense}}]] [Op:__inference_one_step_12]", at the end of TensorFlow's.
_NODE = re.compile(r"\s*(?:\[\[.*?\]\]|\[Op:[^\]]*\]).*$")
# What TensorFlow begins messages with when an op is called by itself.
_CALLER = re.compile(r"\{\{function_node [^}]*\}\} ?")
_BOLD = re.compile(r"\x1b\[[\d;]*m")  # Keras's messages have colours for terminals.
# "(0) INVALID_ARGUMENT: message", where several nodes failed.
_FIRST_NODE = re.compile(r"root error\(s\) found\.\s*^\s*\(0\)\s+(?:[A-Z_]+: +)?(.*)", re.MULTILINE)


_MOST_SHOWN = 200  # characters of a text: as long as most paths


class _Shown(reprlib.Repr):
    """As `repr`, in short; bytes are not spelled out, whether or not they were made text."""

    def repr_bytes(self, value: bytes, level: int) -> str:
        """How many there are."""
        return f"<{len(value)} bytes>"

    def repr_str(self, value: str, level: int) -> str:
        """The text, if it is one."""
        is_text = len(value) <= _MOST_SHOWN or (value.isascii() and "\0" not in value)
        return super().repr_str(value, level) if is_text else f"<{len(value)} characters>"


_SHOWN = _Shown()
_SHOWN.maxstring = _SHOWN.maxother = _MOST_SHOWN


def show(value: object) -> str:
    """A value of a person's data as a message may have it: what is long is shortened."""
    return _SHOWN.repr(value)


def describe_error(error: BaseException) -> str:
    """Describes an unforeseen error in one line: "ValueError: must be positive".

    Args:
      error: its message may have many lines, or hold a worker's traceback as text.
    """
    name, text = type(error).__name__, str(error)
    if found := _RAISED.findall(text):  # The last one caused the others.
        name, text = found[-1]
    name, line = name.rpartition(".")[2], find_line(text)
    words = [] if line.startswith(f"{name}: ") else [name]  # AutoGraph's messages begin with it.
    words.append(line)
    return ": ".join(filter(None, words))[:_MOST_CHARACTERS]


def find_line(message: str) -> str:
    """The line of a message that says what went wrong: the first, unless it is an introduction.

    Keras's and TensorFlow's begin with the likes of "Graph execution error:", and end with lists of
    arguments and names of nodes; the message is the last line between them. Where several nodes
    failed, it is that of the first, which TensorFlow numbers 0.
    """
    message = _BOLD.sub("", _CALLER.sub("", message))
    if first := _FIRST_NODE.search(message):
        return first[1].strip()
    lines = [line.strip() for line in _ARGUMENTS.split(message)[0].splitlines() if line.strip()]
    kept = [line for line in (_NODE.sub("", line) for line in lines) if line]
    if not kept:
        return ""
    return kept[-1] if _LEADS_UP.match(lines[0]) else kept[0]


def suggest(name: str, known: Iterable[str], most: int = 1) -> str:
    """A hint for an unknown name: "did you mean rotate? ", or "" if no known name is similar.

    It ends in a space, since a list of the known names usually follows.

    Args:
      name: as it was given; upper and lower case do not count.
      known: the right names.
      most: how many of them may be named.
    """
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=most)
    return f"did you mean {' or '.join(by_lower[each] for each in near)}? " if near else ""
