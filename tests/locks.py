"""What the lock files pin."""

import pathlib
import platform

from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[1]
PYTHONS = ("3.11.0", "3.12.0", "3.13.0")


def read_pins(name: str, python: str = platform.python_version()) -> dict[str, str]:
    """The pins of a lock file, as versions by packages, that hold for a version of Python."""
    environment = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    lines = (ROOT / name).read_text().splitlines()
    # Each is followed by its hashes, indented.
    all_pins = [Requirement(line.removesuffix("\\")) for line in lines if line[:1].isalnum()]
    pins = [pin for pin in all_pins if not pin.marker or pin.marker.evaluate(environment)]
    versions = {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}
    assert len(versions) == len(pins)
    return versions
