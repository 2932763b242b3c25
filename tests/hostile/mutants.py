"""Files that the pipeline wrote for itself, damaged in every simple way.

A mutation takes the file's path and random numbers, changes the file in place, and returns False
where it does not apply. `damaged` puts the file back.
"""

import contextlib
import json
import os
import pathlib
import random
import shutil
from collections.abc import Callable, Iterator
from typing import Any

Mutate = Callable[[pathlib.Path, random.Random], bool]
WRONG = (None, True, -1, 1.5, 10**30, "text", "\ud800", [], [[]], {}, {"a": 1})


def truncate(path: pathlib.Path, rng: random.Random) -> bool:
    """Keeps the first bytes."""
    content = path.read_bytes()
    if not content:
        return False
    path.write_bytes(content[: rng.randrange(len(content))])
    return True


def flip(path: pathlib.Path, rng: random.Random) -> bool:
    """Changes a bit."""
    content = bytearray(path.read_bytes())
    if not content:
        return False
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return True


def scramble(path: pathlib.Path, rng: random.Random) -> bool:
    """Overwrites some bytes, and puts others between them."""
    content = bytearray(path.read_bytes())
    if not content:
        return False
    start = rng.randrange(len(content))
    content[start : start + rng.randrange(64)] = rng.randbytes(rng.randrange(64))
    path.write_bytes(content)
    return True


def empty(path: pathlib.Path, rng: random.Random) -> bool:
    """Leaves no byte."""
    path.write_bytes(b"")
    return True


def delete(path: pathlib.Path, rng: random.Random) -> bool:
    """Leaves no file."""
    path.unlink()
    return True


def make_folder(path: pathlib.Path, rng: random.Random) -> bool:
    """Puts a folder in its place."""
    path.unlink()
    path.mkdir()
    return True


def make_loop(path: pathlib.Path, rng: random.Random) -> bool:
    """Puts a link to itself in its place, which nobody can read, not even root."""
    path.unlink()
    path.symlink_to(path.name)
    return True


def make_pipe(path: pathlib.Path, rng: random.Random) -> bool:
    """Puts a named pipe in its place, which never ends."""
    path.unlink()
    os.mkfifo(path)
    return True


def swap(path: pathlib.Path, rng: random.Random) -> bool:
    """Gives it the content of a neighbour."""
    others = [each for each in sorted(path.parent.iterdir()) if each.is_file() and each != path]
    if not others:
        return False
    path.write_bytes(rng.choice(others).read_bytes())
    return True


def _change_json(path: pathlib.Path, change: Callable[[list[tuple[Any, Any]]], Any]) -> bool:
    """Changes one place of a JSON file, or of a line of one; `change` gets all places."""
    if path.suffix not in (".json", ".jsonl"):
        return False
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    if not lines:
        return False
    value = [json.loads(lines[0])]
    places = list(_walk(value))
    change(places)
    path.write_text("\n".join([json.dumps(value[0]), *lines[1:]]) + "\n")
    return True


def _walk(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of a JSON value with each of its keys."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _walk(value[key])


def retype(path: pathlib.Path, rng: random.Random) -> bool:
    """Puts a value of another type in some place."""

    def change(places: list[tuple[Any, Any]]) -> None:
        container, key = rng.choice(places)
        container[key] = rng.choice(WRONG)

    return _change_json(path, change)


def drop_key(path: pathlib.Path, rng: random.Random) -> bool:
    """Leaves a key out, such as that of the checksum."""

    def change(places: list[tuple[Any, Any]]) -> None:
        named = [place for place in places if isinstance(place[0], dict)]
        if named:
            container, key = rng.choice(named)
            del container[key]

    return _change_json(path, change)


def add_key(path: pathlib.Path, rng: random.Random) -> bool:
    """Adds a key that nobody knows."""

    def change(places: list[tuple[Any, Any]]) -> None:
        named = [place for place in places if isinstance(place[0], dict)]
        if named:
            rng.choice(named)[0]["unknown"] = rng.choice(WRONG)

    return _change_json(path, change)


def _replace_text(path: pathlib.Path, rng: random.Random, text: bytes) -> bool:
    """Puts text in the place of a number or a text of a JSON file."""
    if path.suffix not in (".json", ".jsonl"):
        return False
    content = path.read_bytes()
    places = [at for at in range(len(content) - 1) if content[at : at + 1] == b":"]
    if not places:
        return False
    at = rng.choice(places) + 1
    path.write_bytes(content[:at] + text + content[at:])
    return True


def nest(path: pathlib.Path, rng: random.Random) -> bool:
    """Nests without end."""
    return _replace_text(path, rng, b"[" * 100_000)


def spoil_text(path: pathlib.Path, rng: random.Random) -> bool:
    """Adds what is not UTF-8, or a NUL."""
    return _replace_text(path, rng, rng.choice([b"\xff", b"\0", b'"\xc3", ']))


def lengthen_number(path: pathlib.Path, rng: random.Random) -> bool:
    """Puts digits without end before a value."""
    return _replace_text(path, rng, rng.choice([b"9" * 5000, b"1e999, ", b"9" * 400 + b", "]))


def repeat_key(path: pathlib.Path, rng: random.Random) -> bool:
    """Gives a key twice, with another value."""
    if path.suffix not in (".json", ".jsonl") or not path.read_text().strip():
        return False
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    value = json.loads(lines[0])
    if not isinstance(value, dict) or not value:
        return False
    key = rng.choice(sorted(value))
    twice = f"{{{json.dumps(key)}: 0, {json.dumps(value)[1:]}"
    path.write_text("\n".join([twice, *lines[1:]]) + "\n")
    return True


MUTATIONS: dict[str, Mutate] = {
    each.__name__: each
    for each in (
        *(truncate, flip, scramble, empty, delete, make_folder, make_loop, make_pipe, swap),
        *(retype, drop_key, add_key, nest, spoil_text, lengthen_number, repeat_key),
    )
}


@contextlib.contextmanager
def damaged(path: pathlib.Path, mutate: Mutate, seed: str) -> Iterator[bool]:
    """Damages a file while the block runs; gives whether there was something to damage."""
    content = path.read_bytes()
    try:
        yield mutate(path, random.Random(seed)) and (
            not path.is_file() or path.is_symlink() or path.read_bytes() != content
        )
    finally:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.write_bytes(content)
