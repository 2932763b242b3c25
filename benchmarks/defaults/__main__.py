"""What `init --yes` and training reach, beside Keras's tutorial and its guide to fine-tuning.

    python -m benchmarks.defaults DATA --minutes 1 --seeds 3 --json results.json

DATA holds the unpacked `cifar10`, `imagenet_sample` and `camvid`; other sets are drawn. Of each,
`init --yes --minutes` writes the configuration, ingest and analysis follow it, and the trainer of
`run` trains. Keras's ways get the same images, of the same splits, and as many seconds of processor
time for training as the trainer took. Keras has none for boxes: there, the same number of epochs of
`detector` from random weights stands beside. Each training is a process of its own, on one
processor, as many at once as there are. What is compared is the accuracy on the split `eval`, the
mean IoU of its masks, or COCO's average precision of its boxes; only the network's seed differs.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import types
from typing import Any

import yaml

from benchmarks.defaults.sets import draw_sets

_MASK_CLASSES = (
    *("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car"),
    *("pedestrian", "bicyclist"),
)
_OURS, _SCRATCH = "init and run", "detector from random weights"
_TUTORIAL, _GUIDE, _EXAMPLE = "Keras, small network", "Keras, fine-tuning", "Keras, U-Net"
_BESIDE = {"scenes": (_EXAMPLE,), "boxed_scenes": (_SCRATCH,)}


def prepare(images: pathlib.Path, folder: pathlib.Path, minutes: float) -> None:
    """Writes the configuration, the data set, the graph, and folders for Keras."""
    config = folder / "config.yaml"
    if not config.exists():
        folder.mkdir(parents=True, exist_ok=True)
        arguments = ["init", "--yes", "--minutes", str(minutes), str(images), "--output"]
        start = "from image_pipeline.cli import main; main()"
        subprocess.run([sys.executable, "-c", start, *arguments, str(config)], check=True)
        written = yaml.safe_load(config.read_text())
        if "masks" in written["ingest"]:  # `init` asks for names that no file has.
            written["ingest"]["masks"] |= {"classes": list(_MASK_CLASSES), "ignored": [11]}
            config.write_text(yaml.safe_dump(written))
    if not (folder / "graph").exists():
        from image_pipeline import analyze, ingest

        ingest(str(images), str(folder / "data"), config=str(config))
        analyze(str(folder / "data"), str(folder / "graph"), config=str(config))
    if not (folder / "split").exists():
        _link_splits(images, folder)


def _link_splits(images: pathlib.Path, folder: pathlib.Path) -> None:
    """`split/<split>/<class>/<file>`, or without classes: links to the images of each split."""
    import pyarrow.parquet as pq

    columns = ["split", "label", "source"]
    for row in pq.read_table(folder / "data/index.parquet", columns=columns).to_pylist():
        target = folder / "split" / row["split"] / (row["label"] or "")
        target.mkdir(parents=True, exist_ok=True)
        source = images / row["source"]
        (target / row["source"].replace("/", "_")).symlink_to(source.resolve())


def train_by_trainer(
    folder: pathlib.Path, seed: int, changed: dict[str, Any] | None = None
) -> dict[str, float]:
    """Trains as `run` does; gives the figure, and the processor time of Keras's `fit`.

    Args:
      folder: what `prepare` wrote.
      seed: of weights, order and random views.
      changed: options of `training` in place of the configuration's, but for its epochs.
    """
    import time

    import keras

    from image_pipeline.components.training import trainer

    config = yaml.safe_load((folder / "config.yaml").read_text())
    groups = {name: config.get(name, {}) for name in ("view", "feeding", "training")}
    if changed is not None:
        groups["training"] = {"epochs": groups["training"]["epochs"], **changed}
    groups["training"] |= {"seed": seed}
    fit, spent = keras.Model.fit, 0.0

    def timed_fit(*given: Any, **options: Any) -> Any:
        nonlocal spent
        started = time.process_time()
        try:
            return fit(*given, **options)
        finally:
            spent += time.process_time() - started

    keras.Model.fit = timed_fit
    with tempfile.TemporaryDirectory() as output:
        trainer.run_fn(
            types.SimpleNamespace(
                train_files=[str(folder / "data/Split-train/*")],
                eval_files=[str(folder / "data/Split-eval/*")],
                transform_graph_path=str(folder / "graph"),
                serving_model_dir=f"{output}/model",
                model_run_dir=f"{output}/run",
                custom_config=groups,
            )
        )
        metrics = json.loads(pathlib.Path(output, "run/history.json").read_text())["metrics"]
        if "val_boxes_loss" in metrics:
            figure = _measure_boxes(f"{output}/model", folder / "data")
        else:
            figure = metrics.get("val_mean_io_u", metrics.get("val_accuracy"))[-1]
    return {"figure": figure, "cpu_seconds": spent}


def _measure_boxes(model_dir: str, data_dir: pathlib.Path) -> float:
    """COCO's mean average precision of an exported detector on the records of `eval`."""
    import numpy as np
    import tensorflow as tf

    from image_pipeline.components.evaluation.average_precision import (
        average_precisions,
        join_found,
        match_boxes,
    )
    from image_pipeline.components.tasks.signatures import OBJECTS

    asked = tf.saved_model.load(model_dir).signatures
    found: dict[int, list[Any]] = {}
    paths = sorted(map(str, data_dir.glob("Split-eval/*")))
    for records in tf.data.TFRecordDataset(paths, "GZIP" if paths[0].endswith("gz") else "").batch(
        8
    ):
        answers = asked["serving_examples"](records)[OBJECTS].numpy()
        truths = asked["transform_features"](records)[OBJECTS].numpy()
        for true, answer in zip(truths, answers, strict=True):
            for label, matched in match_boxes(true, answer).items():
                found.setdefault(label, []).append(matched)
    of_all = [average_precisions(join_found(each)) for each in found.values()]
    return float(np.mean([each for each in of_all if not np.isnan(each).any()]))


def train_by_keras(way: str, folder: pathlib.Path, seed: int, cpu_seconds: float) -> float:
    """Trains one of Keras's ways for so long."""
    from benchmarks.defaults import keras_ways

    if way == _EXAMPLE:
        return keras_ways.segmentation(_read_masks(folder), len(_MASK_CLASSES), seed, cpu_seconds)
    from PIL import Image

    side = min(Image.open(next((folder / "split/train").rglob("*.*"))).size)
    chosen = keras_ways.small_network if way == _TUTORIAL else keras_ways.fine_tuning
    return chosen(folder / "split", side, seed, cpu_seconds)


def _read_masks(folder: pathlib.Path) -> Any:
    """Images and masks of each split, of 160 x 160 pixels, as Keras's example reads them."""
    import numpy as np
    import tensorflow as tf

    def read(path: pathlib.Path, levels: bool) -> Any:
        image = tf.io.decode_png(path.read_bytes(), channels=1 if levels else 3)
        resized = tf.image.resize(image, (160, 160), "nearest" if levels else "bilinear")
        return np.asarray(resized)

    both = []
    for split, batch in (("train", 8), ("eval", 8)):
        paths = sorted((folder / "split" / split).iterdir())
        images = np.stack([read(path, False) for path in paths])
        of_mask = [path.resolve().parents[1] / "masks" / path.resolve().name for path in paths]
        masks = np.stack([read(path, True)[..., 0] for path in of_mask])
        masks = np.where(masks == 11, 255, masks).astype(np.int32)
        data = tf.data.Dataset.from_tensor_slices((images, masks))
        both.append(data.shuffle(1000).batch(batch) if split == "train" else data.batch(batch))
    return both


def _run_alone(processor: int, *arguments: str) -> Any:
    """One training in a process of its own, on one processor; what it prints last is its result."""
    command = [sys.executable, "-m", "benchmarks.defaults", "--one", str(processor), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _train_one(processor: str, way: str, folder: str, seed: str, cpu_seconds: str = "0") -> None:
    os.sched_setaffinity(0, {int(processor)})
    path = pathlib.Path(folder)
    if way in (_OURS, _SCRATCH):
        changed = None if way == _OURS else {"model": "detector", "schedule": "cosine"}
        print(json.dumps(train_by_trainer(path, int(seed), changed)))
    else:
        figure = train_by_keras(way, path, int(seed), float(cpu_seconds))
        print(json.dumps({"figure": figure, "cpu_seconds": float(cpu_seconds)}))


def _compare(folder: pathlib.Path, seed: int, processors: queue.SimpleQueue[int]) -> dict[str, Any]:
    """The figures and seconds of all ways for one set and seed, one after another."""
    processor = processors.get()
    try:
        ours = _run_alone(processor, _OURS, str(folder), str(seed))
        seconds = str(ours["cpu_seconds"])
        others = {
            way: _run_alone(processor, way, str(folder), str(seed), seconds)
            for way in _BESIDE.get(folder.name, (_TUTORIAL, _GUIDE))
        }
    finally:
        processors.put(processor)
    found = {_OURS: ours, **others}
    print(folder.name, seed, json.dumps(found), flush=True)
    return found


def main() -> None:
    """Measures all sets, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=1.0, help="that training may take")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="names of sets")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/defaults"))
    parser.add_argument("--json", type=pathlib.Path)
    asked = parser.parse_args()
    draw_sets(asked.work / "sets", asked.data.resolve())
    work = asked.work.resolve()
    names = asked.only or sorted(each.name for each in (work / "sets").iterdir())
    for name in names:  # One by one, since `init` measures how long a step takes.
        prepare((work / "sets" / name).resolve(), work / name, asked.minutes)
    processors: queue.SimpleQueue[int] = queue.SimpleQueue()
    for processor in os.sched_getaffinity(0):
        processors.put(processor)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        running = {
            pool.submit(_compare, work / name, seed, processors): name
            for seed in range(asked.seeds)
            for name in names
        }
        for done in concurrent.futures.as_completed(running):
            found[running[done]].append(done.result())
            if asked.json:
                asked.json.write_text(json.dumps(found, indent=1) + "\n")
    for name, seeds in found.items():
        cells = [
            f"{way} {statistics.mean(values):.3f} ± {statistics.pstdev(values):.3f}"
            for way in seeds[0]
            if (values := [each[way]["figure"] for each in seeds])
        ]
        seconds = statistics.mean(each[_OURS]["cpu_seconds"] for each in seeds)
        print(f"| {name} | {' | '.join(cells)} | {seconds:.0f} s |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        _train_one(*sys.argv[2:])
    else:
        main()
