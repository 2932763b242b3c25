"""Makes the goldens: `python -m tests.golden.freeze [CASE …]` writes them again.

A golden is what users have of a case: the files of its data set, its index row by row, the batches
of three epochs. One that changes is changed in a commit that says why.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import tensorflow as tf

from image_pipeline.api import analyze, ingest, input_fn, predict
from image_pipeline.components.json_text import to_json
from tests.golden import models
from tests.golden.cases import CASES, OPTIONS, Case

FOLDER = pathlib.Path(__file__).parent / "results"
VIEW = {"height_px": 16, "width_px": 24}
FEEDING = {"batch_size": 4}
STEPS = {"augment": ["random_resized_crop", "flip_horizontal"]}
EPOCHS = 3
# What commands say, what is refused, and the form of what commands say of a run.
SAID = ("messages", "refusals", "run")
# Bytes that name the version of a library, or hash such bytes.
_VERSIONS = ("code_version", "function_version", "manifests")
_UNSTABLE = ("index.parquet", "manifest_sha256")


def freeze(name: str, folder: pathlib.Path) -> Any:
    """What a case gives, or what commands say, as JSON; `folder` is an empty one of any name."""
    if name in SAID:
        return ask_commands(name, folder)
    case = CASES[name]
    (folder / "source").mkdir()
    images = case.make(folder / "source")
    data = folder / "data"
    ingest(str(images), str(data), **(OPTIONS | case.options))
    found = {
        "files": dict(sorted(list_files(data))),
        "index": [show_row(row) for row in pq.read_table(data / "index.parquet").to_pylist()],
        "batches": list_batches(data),
    }
    return found if not case.is_analysed else found | describe_graph(case, data, folder)


def ask_commands(name: str, folder: pathlib.Path) -> Any:
    """What commands say, in a process of its own: tests have changed how this one logs."""
    call = [sys.executable, "-m", "tests.golden.messages", name, str(folder)]
    done = subprocess.run(call, stdout=subprocess.PIPE, check=True, cwd=FOLDER.parents[2])
    return json.loads(done.stdout)


def describe_graph(case: Case, data: pathlib.Path, folder: pathlib.Path) -> dict[str, Any]:
    """The constants of the transform graph, and what a model behind it answers."""
    graph = folder / "graph"
    analyze(str(data), str(graph), view=VIEW)
    analysis = json.loads((graph / "analysis.json").read_text())
    kinds = (analysis.get(name) for name in ("box_classes", "mask_classes", "classes"))
    classes = next(filter(None, kinds), [])
    names = [each["name"] if isinstance(each, dict) else each for each in classes]
    models.export(case.label, graph, VIEW, names or ["value"], str(folder / "model" / "1"))
    fed = [show_batch(batch[1:]) for batch in read(data, "eval", epochs=1, graph_dir=str(graph))]
    asked = sorted(
        str(path) for path in (folder / "source").rglob("*0[0-3].*") if "masks" not in str(path)
    )
    answers = [
        {name: value for name, value in each.items() if name != "file"}
        for each in predict(str(folder / "model"), asked)
    ]
    return {
        "analysis": round_all({name: analysis[name] for name in analysis if name not in _VERSIONS}),
        "labels": fed,
        "answers": round_all(answers),
    }


def round_all(value: Any) -> Any:
    """JSON with numbers of five digits: the last ones are the processor's."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, bytes | np.ndarray):
        return digest(bytes(value))
    if isinstance(value, dict):
        return {name: round_all(each) for name, each in value.items()}
    return [round_all(each) for each in value] if isinstance(value, list | tuple) else value


def list_files(data: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Each file of a data set, by its name: a short text, or its size and checksum."""
    for path in data.rglob("*"):
        name = path.relative_to(data).as_posix()
        if not path.is_file() or name.startswith(".") or name == "index.parquet":
            continue
        content = path.read_bytes()
        if name == "manifest.json":
            yield name, _without_unstable(json.loads(content))
        elif name.endswith(".jsonl"):
            yield name, [json.loads(line) for line in content.splitlines()]
        else:
            yield name, f"{len(content)} bytes, {digest(content)}"


def _without_unstable(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_unstable(each) for key, each in value.items() if key not in _UNSTABLE}


def show_row(row: Mapping[str, Any]) -> str:
    """A row of the index in one line; what is as long as a hash in short."""
    return ", ".join(f"{name} {_show(value)}" for name, value in row.items() if value is not None)


def _show(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()[:12]
    return to_json(value, ensure_ascii=False)


def list_batches(data: pathlib.Path) -> dict[str, list[str]]:
    """The batches of training, evaluation, and of two workers with random views.

    And that resuming goes on alike.
    """
    train = [show_batch(batch) for batch in read(data, "train", epochs=EPOCHS)]
    steps = len(train) // EPOCHS
    resumed = read(data, "train", epochs=EPOCHS - 1, first_epoch=1, first_step=1)
    assert [show_batch(batch) for batch in resumed] == train[steps + 1 :]
    workers = [
        [show_batch(batch) for batch in read(data, "train", epochs=1, **STEPS, **share)]
        for share in ({"worker": 0, "workers": 2}, {"worker": 1, "workers": 2})
    ]
    evaluated = [show_batch(batch) for batch in read(data, "eval", epochs=1)]
    return {"train": train, "eval": evaluated, "workers": [*workers[0], *workers[1]]}


def read(data: pathlib.Path, split: str, **options: Any) -> tf.data.Dataset:
    """Batches of a split."""
    return input_fn(str(data), split, view=VIEW, seed=7, **FEEDING, **options)


def show_batch(batch: Any) -> str:
    """The shapes, types and digests of a batch's parts; few labels themselves."""
    flat = tf.nest.flatten(batch)
    return "; ".join(_show_array(np.asarray(each)) for each in flat)


def _show_array(values: np.ndarray) -> str:
    if values.ndim == 1 and values.size <= FEEDING["batch_size"]:
        if values.dtype == object:
            return " ".join(value.decode() for value in values)
        return " ".join(map(str, values.tolist()))
    return f"{values.dtype}{list(values.shape)} {digest(np.ascontiguousarray(values).tobytes())}"


def digest(content: bytes) -> str:
    """A short checksum."""
    return hashlib.sha256(content).hexdigest()[:16]


def path_of(name: str) -> pathlib.Path:
    """A case's golden."""
    return FOLDER / f"{name.replace(', ', '-').replace(' ', '-')}.json"


def main(names: list[str]) -> None:
    """Writes the goldens of these cases, or all."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or (*CASES, *SAID):
        with tempfile.TemporaryDirectory() as folder:
            found = freeze(name, pathlib.Path(folder))
        path_of(name).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
