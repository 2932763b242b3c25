"""Prints what a model answers: a line for each file."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from image_pipeline.components.names import printable
from image_pipeline.show.words import format_count

_MOST_WIDTH = 60  # of the first column; longer names are never cut, but push the line


@dataclasses.dataclass
class PredictionTable:
    """Prints predictions as they come, in columns, and counts them.

    Attributes:
      console: where to print.
      answered, failed, skipped, converted: how many files were.
    """

    console: Console
    answered: int = 0
    failed: int = 0
    skipped: int = 0
    converted: int = 0
    _width: int = 0

    def count(self, prediction: dict[str, Any]) -> None:
        """Counts one."""
        self.failed += "error" in prediction
        self.skipped += "skipped" in prediction
        self.converted += "converted" in prediction
        self.answered += "error" not in prediction and "skipped" not in prediction

    def print(self, prediction: dict[str, Any]) -> None:
        """Prints one, unless it is not an image."""
        if "skipped" in prediction:
            return
        name = printable(prediction["file"])
        self._width = max(self._width, min(len(name), _MOST_WIDTH))
        style = "red" if "error" in prediction else ""
        line = f"{name:<{self._width}}  {describe(prediction)}"
        self.console.print(line, style=style, markup=False, soft_wrap=True)

    def finish(self) -> None:
        """Says what the lines do not."""
        sentences = []
        if self.failed:
            sentences.append(f"{format_count(self.failed, 'file')} could not be predicted")
        if self.skipped == 1:
            sentences.append("1 file in folders is not an image")
        elif self.skipped:
            sentences.append(f"{self.skipped:,} files in folders are not images")
        if self.converted == 1:
            sentences.append("1 file marked * was decoded here, since a server refuses it")
        elif self.converted:
            many = f"{self.converted:,} files marked * were"
            sentences.append(f"{many} decoded here, since a server refuses them")
        if sentences:
            self.console.print(f"\n{'; '.join(sentences)}.", soft_wrap=True)


def describe(prediction: dict[str, Any]) -> str:
    """A prediction in a line, after the file's name."""
    if "error" in prediction:
        return printable(f"{prediction['error']}: {prediction['message']}")
    mark = "* " if "converted" in prediction else ""
    return mark + printable(_describe_answer(prediction))


def _describe_answer(prediction: dict[str, Any]) -> str:
    if "value" in prediction:
        return f"{prediction['value']:.6g}"
    if "objects" in prediction:
        return _describe_objects(prediction)
    if "confidence" in prediction:
        shares = _join(list(prediction["classes"].items()), ".1%")
        return f"{shares}  (confidence {prediction['confidence']:.4f})"
    ranked = [(each["label"], each["probability"]) for each in prediction["top"]]
    if "tags" in prediction:
        tags = ", ".join(prediction["tags"]) or "none"
        return f"{tags}  ({_join(ranked, '.4f')})"
    others = _join(ranked[1:], ".4f")
    first = f"{prediction['label']}  {prediction['probability']:.4f}"
    return f"{first}  ({others})" if others else first


def _describe_objects(prediction: dict[str, Any]) -> str:
    """Each object with its box in percent of the image's sides: top, left, bottom, right."""
    named = [
        f"{each['label']} {each['score']:.4f} at "
        + "/".join(f"{100 * side:.0f}" for side in each["box"])
        + " %"
        for each in prediction["objects"]
    ]
    further = prediction["count"] - len(named)
    return ", ".join([*named, f"{further} more"] if further else named) or "nothing found"


def _join(pairs: Sequence[tuple[str, float]], form: str) -> str:
    return ", ".join(f"{name} {number:{form}}" for name, number in pairs)
