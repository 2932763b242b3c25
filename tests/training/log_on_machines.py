"""Trains by `logged.train` as the machine that TF_CONFIG names, an epoch, and then one more.

Run as a program, with a folder that has `data` and `graph`, and a case's name and its options of
feeding; writes what this machine was fed.
"""

import json
import pathlib
import sys

import numpy as np

from image_pipeline.components.training.cluster import read_cluster
from tests.training.logged import train


def main(folder, cases):
    folder, number = pathlib.Path(folder), read_cluster().number
    for case, feeding in json.loads(cases).items():
        fed = []
        for epochs in (1, 2):
            fed += train(
                *([folder / "data"], folder / "graph", folder / f"{case}-{number}"),
                **{"feeding": feeding, "epochs": epochs, "strategy": "multi_worker"},
                checkpoint_dir=str(folder / f"{case}-kept"),
            )
        np.savez(folder / f"{case}-{number}.npz", *fed)


if __name__ == "__main__":
    main(*sys.argv[1:])
