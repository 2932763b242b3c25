"""What `init --yes` and training reach, beside Keras's tutorial and its guide to fine-tuning.

    python -m benchmarks.defaults DATA --minutes 1 --seeds 3 --json results.json

DATA holds the unpacked `cifar10`, `imagenet_sample` and `camvid`; other sets are drawn. Of each,
`init --yes --minutes` writes the configuration, ingest and analysis follow it, and the trainer of
`run` trains. Keras's ways get the same images, of the same splits, and as many seconds of processor
time for training as the trainer took. Each training is a process of its own. What is compared is
the accuracy on the split `eval`, or the mean IoU of its masks; only the network's seed differs.
"""

import argparse
import json
import pathlib
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
_WAYS = ("init and run", "Keras, small network", "Keras, fine-tuning")


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


def train_by_init(folder: pathlib.Path, seed: int) -> dict[str, float]:
    """Trains as `run` does; gives the figure, and the processor time of Keras's `fit`."""
    import time

    import keras

    from image_pipeline.components.training import trainer

    config = yaml.safe_load((folder / "config.yaml").read_text())
    groups = {name: config.get(name, {}) for name in ("view", "feeding", "training")}
    groups["training"] = groups["training"] | {"seed": seed}
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
    name = "val_mean_io_u" if "val_mean_io_u" in metrics else "val_accuracy"
    return {"figure": metrics[name][-1], "cpu_seconds": spent}


def train_by_keras(way: str, folder: pathlib.Path, seed: int, cpu_seconds: float) -> float:
    """Trains one of Keras's ways for so long."""
    from benchmarks.defaults import keras_ways

    config = yaml.safe_load((folder / "config.yaml").read_text())
    if "masks" in config["ingest"]:
        return keras_ways.segmentation(_read_masks(folder), len(_MASK_CLASSES), seed, cpu_seconds)
    from PIL import Image

    side = min(Image.open(next((folder / "split/train").rglob("*.*"))).size)
    chosen = keras_ways.small_network if way == _WAYS[1] else keras_ways.fine_tuning
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


def _run_alone(*arguments: str) -> Any:
    """One training in a process of its own; what it prints last is its result."""
    command = [sys.executable, "-m", "benchmarks.defaults", "--one", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _train_one(way: str, folder: str, seed: str, cpu_seconds: str = "0") -> None:
    path = pathlib.Path(folder)
    if way == _WAYS[0]:
        print(json.dumps(train_by_init(path, int(seed))))
    else:
        figure = train_by_keras(way, path, int(seed), float(cpu_seconds))
        print(json.dumps({"figure": figure}))


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
    found: dict[str, dict[str, list[float]]] = {}
    for images in sorted((asked.work / "sets").iterdir()):
        if (asked.only and images.name not in asked.only) or images.name == "boxed_scenes":
            continue
        folder = (asked.work / images.name).resolve()
        prepare(images.resolve(), folder, asked.minutes)
        ours = found.setdefault(images.name, {})
        for seed in range(asked.seeds):
            trained = _run_alone(_WAYS[0], str(folder), str(seed))
            spent = trained["cpu_seconds"]
            ours.setdefault("cpu_seconds", []).append(spent)
            ours.setdefault(_WAYS[0], []).append(trained["figure"])
            for way in _WAYS[1:2] if images.name == "scenes" else _WAYS[1:]:
                figure = _run_alone(way, str(folder), str(seed), str(spent))["figure"]
                ours.setdefault(way, []).append(figure)
            print(
                images.name, seed, {name: values[-1] for name, values in ours.items()}, flush=True
            )
            if asked.json:
                asked.json.write_text(json.dumps(found, indent=1) + "\n")
    for name, ways in found.items():
        cells = (
            f"{statistics.mean(values):.3f} ± {statistics.pstdev(values):.3f}"
            for way, values in ways.items()
            if way != "cpu_seconds"
        )
        print(f"| {name} | {' | '.join(cells)} | {statistics.mean(ways['cpu_seconds']):.0f} s |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        _train_one(*sys.argv[2:])
    else:
        main()
