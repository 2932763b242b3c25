"""The readers of the benchmark, and the environment that each of them runs in."""

import dataclasses
import pathlib

from bench.environments import Environment, read_requirements

_REQUIREMENTS = pathlib.Path(__file__).resolve().parents[1] / "requirements"


@dataclasses.dataclass(frozen=True)
class Rival:
    """A reader, and where it runs.

    Attributes:
      module: what is run, by the environment's Python.
      environment: its key in `ENVIRONMENTS`; None for this project's own.
      arguments: what the module is told besides its task.
      packed: the name in `pack.py` of the format that it reads; None if it needs none of its own.
    """

    module: str
    environment: str | None = None
    arguments: tuple[str, ...] = ()
    packed: str | None = None


READERS = {
    "ours": Rival("rivals.ours_reader"),
    "bare loop": Rival("rivals.bare_loop"),
    "tf.data": Rival("rivals.tfdata_reader"),
    "ffcv": Rival("rivals.ffcv_reader", "ffcv"),
    "dali": Rival("rivals.dali_reader", "dali"),
    "spdl": Rival("rivals.spdl_reader", "torch"),
    "grain": Rival("rivals.grain_reader", "grain", packed="array_record"),
    "tfds": Rival("rivals.tfds_reader", "tfds"),
    "torch, torchvision": Rival("rivals.torch_reader", "torch", ("--decoder", "torchvision")),
    "torch, simplejpeg": Rival("rivals.torch_reader", "torch", ("--decoder", "simplejpeg")),
    "webdataset": Rival("rivals.webdataset_reader", "torch", packed="webdataset"),
    "streaming": Rival("rivals.streaming_reader", "torch", packed="streaming"),
    "litdata": Rival("rivals.litdata_reader", "torch", packed="litdata"),
    "keras": Rival("rivals.keras_reader"),
}

# FFCV's documentation builds it against Debian's libraries; Debian's PyTorch brings no CUDA.
ENVIRONMENTS = {
    name: Environment(packages=read_requirements(_REQUIREMENTS / f"{name}.txt"))
    for name in ("torch", "grain", "tfds", "dali", "daft", "ray", "img2dataset")
}
ENVIRONMENTS["ffcv"] = Environment(
    packages=read_requirements(_REQUIREMENTS / "ffcv.txt"),
    base="/usr/bin/python3",
    sees_system=True,
    has_dependencies=False,
    built=("ffcv==1.0.2",),
)
