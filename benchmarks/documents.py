"""Tables that a benchmark measured, kept in a document between two marks."""

import pathlib
import re


def write_into(path: pathlib.Path, name: str, text: str) -> None:
    """Replaces what a document has between the marks of a name."""
    begin, end = f"<!-- {name}: measured -->", f"<!-- {name}: end -->"
    document = path.read_text()
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(document)) != 1:
        raise ValueError(f"{path} must have {begin} and {end} once")
    path.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", document))
