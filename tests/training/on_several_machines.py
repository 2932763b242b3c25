"""Trains models by `run_fn`, as one of the machines that TF_CONFIG names, or alone without it.

Run as a program, with a folder that has shards and a graph, and the cases; prints a line for each.
"""

import json
import pathlib
import sys
import types

from image_pipeline.components.errors import UserError
from image_pipeline.components.training import trainer
from image_pipeline.components.training.cluster import read_cluster

# Name of a case to its model, its options of training, and those of feeding. An epoch's last batch
# has one record, of which two machines of three have none.
CASES = {
    "dense": ("dense", {}, {}),
    "unknown": ("dense", {}, {}),  # with shards of its own
    "weights": ("dense", {"class_weights": "balanced"}, {}),
    "several_steps": ("dense", {"steps_per_execution": 2}, {}),
    "normalised": ("normalised", {}, {}),
    "convolved": ("convolved", {}, {}),
    "averaged": ("averaged", {}, {}),
    "stopped": ("dense", {"early_stopping_patience": 1, "epochs": 4}, {}),
    "parted": ("dense", {"checkpoint_dir": "checkpoints-{number}"}, {}),
    "options": ("dense", {"seed": "{number}"}, {}),
    "odd": ("dense", {}, {"batch_size": 7}),
}


def make_fn_args(folder, case, number, **more):
    """What TFX passes to `run_fn`; each machine has a folder of its own for what it writes."""
    model, training, feeding = CASES[case]
    own = folder / case / str(number)
    training = {key: _fill(value, folder / case, number) for key, value in training.items()}
    train, view = "unknown" if case == "unknown" else "train", {"height_px": 8, "width_px": 8}
    return types.SimpleNamespace(
        train_files=[str(folder / f"Split-{train}/*")],
        eval_files=[str(folder / "Split-eval/*")],
        transform_graph_path=str(folder / "graph"),
        serving_model_dir=str(own / "model"),
        model_run_dir=str(own / "run"),
        custom_config={
            "view": view,
            "feeding": {"batch_size": 6} | feeding,
            "training": {
                "model": f"tests.training.device_models.{model}",
                "strategy": "none" if read_cluster() is None else "multi_worker",
                "epochs": 2,
                **training,
                **more,
            },
        },
    )


def _fill(value, folder, number):
    if not isinstance(value, str) or "{number}" not in value:
        return value
    return number if value == "{number}" else str(folder / value.format(number=number))


def main(folder, *cases):
    cluster = read_cluster()
    number = "alone" if cluster is None else cluster.number
    for case in cases:
        try:
            if case == "parted":  # of which only the chief has a checkpoint
                trainer.run_fn(make_fn_args(pathlib.Path(folder), case, number, epochs=1))
            trainer.run_fn(make_fn_args(pathlib.Path(folder), case, number))
            found = None
        except UserError as error:
            found = str(error)
        print(json.dumps({"case": case, "error": found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
