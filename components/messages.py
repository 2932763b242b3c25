"""What a library's error says, in the one line of its message that a person can use."""

import re

_MOST_CHARACTERS = 300
# "Traceback", indented lines, "module.Type: message", up to the next traceback.
_RAISED = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)*"
    r"([\w.]+)(?:: ((?:.|\n)*?))?(?=\nTraceback|\n\nDuring|\n\nThe above|\Z)",
    re.MULTILINE,
)
# First lines of Keras's and TensorFlow's that only lead up to the message.
_LEADS_UP = re.compile(r".*:$|Exception encountered when calling|\d+ root error")
# "Arguments received by Dense.call():" and a list, at the end of Keras's messages.
_ARGUMENTS = re.compile(r"^\s*(?:Call a|A)rguments received by ", re.MULTILINE)
# "[[{{node model/dense}}]] [Op:__inference_one_step_12]", at the end of TensorFlow's.
_NODE = re.compile(r"\s*(?:\[\[.*?\]\]|\[Op:[^\]]*\]).*$")
# "(0) INVALID_ARGUMENT: message", where several nodes failed, and the lines that count them.
_ORDINAL = re.compile(r"^\(\d+\)\s+(?:[A-Z_]+: +)?")
_COUNT = re.compile(r"\d+ (?:successful operations|derived errors ignored|root error)")


def describe_error(error: BaseException) -> str:
    """Says in one line what an error nobody foresaw is about: "ValueError: must be positive".

    Args:
      error: whose message may have many lines, or hold a worker's traceback as text.
    """
    name, text = type(error).__name__, str(error)
    if found := _RAISED.findall(text):  # The last of them is what the others came of.
        name, text = found[-1]
    words = [name.rpartition(".")[2], find_line(text)]
    return ": ".join(filter(None, words))[:_MOST_CHARACTERS]


def find_line(message: str) -> str:
    """The line of a message that says what went wrong: the first one, if it does not lead up to it.

    Keras's and TensorFlow's begin with the likes of "Graph execution error:", and end with lists of
    arguments, names of nodes and counts of errors; the message is the last line between them.
    """
    text = _ARGUMENTS.split(message)[0]
    lines = [line for line in text.splitlines() if line.strip()]
    said = [_NODE.sub("", line).strip() for line in lines]
    said = [_ORDINAL.sub("", line) for line in said if line and not _COUNT.match(line)]
    if not said:
        return lines[0].strip() if lines else ""
    return said[-1] if _LEADS_UP.match(lines[0].strip()) else said[0]
