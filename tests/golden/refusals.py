"""What is refused before there is any work: options alone, of images, of a data set; each text."""

import functools
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from image_pipeline import api
from image_pipeline.components.errors import UserError
from image_pipeline.config import load_config
from image_pipeline.run.run_plan import plan_run
from tests.golden.cases import CASES

_RAW = "ingest.prepare.encoding=raw"
_DEEP = (_RAW, "ingest.prepare.dtype=uint16")
# Options that contradict themselves or each other: `load_config` refuses them.
OPTIONS: tuple[tuple[str, ...], ...] = (
    ("ingest.prepare.dtype=uint16",),
    ("ingest.prepare.channels=4",),
    (_RAW, "ingest.prepare.channels=4", "ingest.prepare.sound={}"),
    (*_DEEP, "ingest.prepare.depth=maximum"),
    ("ingest.prepare.depth=nothing",),
    ("ingest.prepare.depth={low: 101%}",),
    ("ingest.prepare.depth={low: 9, high: 9}",),
    ("ingest.prepare.depth={low: 9%, high: 8.5%}",),
    ("ingest.prepare.depth={found: [1, 2]}",),
    ("ingest.prepare.sound={low_hz: 9000}",),
    ("ingest.prepare.sound={hop_s: 0.00001}",),
    ("ingest.prepare.sound={window_s: 10, duration_s: 20}",),
    ("ingest.label_pattern=x",),
    ("ingest.group_pattern=(",),
    ("ingest.near_duplicates=4", *_DEEP),
    ("ingest.in_place=true",),
    ("ingest.in_place=true", _RAW, "ingest.prepare.resize=none", "ingest.prepare.depth=maximum"),
    ("ingest.in_place=true", _RAW, "ingest.prepare.resize=none", "ingest.video={}"),
    ("ingest.masks={images: 'a/{key}.png', masks: 'b/{name}.png'}",),
    ("ingest.masks={images: 'a/{key}.png', masks: 'a/{key}.png'}",),
    ("ingest.masks={images: '/a/{key}.png', masks: 'b/{key}.png'}",),
    ("ingest.masks={images: 'a/{key}.*', masks: 'b/{key}.png'}", "ingest.video={}"),
    ("ingest.masks={images: 'a/{key}.png'}",),
    ("ingest.masks={classes: []}",),
    ("ingest.masks={classes: [a, a]}",),
    ("ingest.masks={classes: {a: 1, b: '#000000'}}",),
    ("ingest.masks={ignored: ['#000000']}",),
    ("ingest.masks={classes: {a: '#zzz'}}",),
    ("ingest.masks={classes: {a: 1, b: 1}}",),
    ("ingest.boxes={classes: []}",),
    ("ingest.splits={train: 0.5, eval: 0.4}",),
    ("ingest.split_names={val: other}",),
    ("ingest.splits={'a b': 0.5, eval: 0.5}",),
    ("ingest.pixel_shape=[28]",),
    ("ingest.column_types={camera: boxes}",),
    ("ingest.columns={'a b': c}",),
    ("feeding.select.fold=[2, 2]",),
    ("feeding.balance=uniform", "feeding.mix={a: 1}"),
    (
        "feeding.mix={a: 1}",
        "feeding.many_views.crops=2",
        "feeding.augment=[random_resized_crop]",
    ),
    ("feeding.shuffle=shards", "feeding.balance=uniform"),
    ("feeding.shuffle=shards", "feeding.own_shards=true"),
    ("feeding.balance_by=camera",),
    ("feeding.many_views.crops=2",),
    ("feeding.augment=[mixup]", "feeding.batch_size=3"),
    ("feeding.augment=cutout",),
    ("feeding.augment=[cutout, random_resized_crop]",),
    ("feeding.augment=[cutuot]",),
    ("feeding.augment=[3]",),
    ("feeding.augment=[{op: cutout, size: 0.5, size_px: 3}]",),
    ("feeding.augment=[{op: pad_and_crop, pad: 0.5, pad_px: 3}]",),
    ("feeding.augment=[{op: random_resized_crop, area: [0.5, 0.2]}]",),
    ("feeding.augment=[{op: random_resized_crop, area: [0.5, 1.2]}]",),
    ("feeding.augment=[{op: random_erasing, aspect: [-1, 1.2]}]",),
    ("feeding.augment=[{op: gaussian_blur, sigma_px: [2, 1]}]",),
    ("feeding.dtype=uint8",),
    ("feeding.layout=NCHW",),
    ("feeding.columns=[camera]",),
    ("transform.columns=[image/nothing]",),
    ("transform.columns=[camera, camera]",),
    ("transform.preprocessing_fn=standardise",),
    ("training.model=resnt",),
    ("training.model=my.keras", "training.weights=other.h5"),
    ("training.weights=imagenet",),
    ("training.fine_tuning={}",),
    ("training.momentum=0.9",),
    ("training.nesterov=true",),
    ("training.clipnorm=1", "training.global_clipnorm=1"),
    ("training.warmup_epochs=10",),
    ("training.end_factor=0.5",),
    ("training.ema_momentum=0.5",),
    ("training.early_stopping_monitor=loss",),
    ("training.restore_best_weights=false",),
    ("evaluation.slices=[image/format, image/format]",),
    ("kubeflow.steps={Trainer: {tolerations: [{value: x}]}}",),
    ("evaluation.slices=[image/format, image/format]",),
    ("kubeflow.steps={Trainer: {tolerations: [{operator: Equal, value: x}]}}",),
    ("kubeflow.steps={Training: {}}",),
    ("kubeflow.Trainer={}",),
    ("dataflow.expected_images=3",),
    ("dataflow.num_workers=30",),
    # Keys and values that there are not.
    ("ingest.prepare.siz_px=3",),
    ("trainig.epochs=3",),
    ("feeding.eval_subset.recrods=3",),
    ("ingest.masks.clases=[a]",),
    ("ingest.label_patern=null",),
    ("ingest.prepare.colour=rgb",),
    ("feeding.shuffle=false",),
    ("feeding.image_size=[64, 64]",),
    ("feeding.subset=validation",),
    ("ingest.validation_split=0.2",),
    ("ingest.label_mode=categorical",),
    ("view.color_mode=rgb",),
    ("ingest.directory=x",),
    ("feeding.source=streaming",),
    ("feeding.shuffle_records=99",),
    ("feeding.files_at_once=4",),
    ("feeding.data_service='grpc://a:1'",),
    ("feeding.files_at_once=4", "feeding.source=streaming"),
    ("training.epochs=0",),
    ("training.epochs",),
    ("training.epochs=[",),
    ("training.profile_steps=0",),
    ("training.profile_steps=51",),
    ("name=Has Space",),
    ("name=x", "name.y=3"),
    ("ingest.shard_bytes=0",),
    ("ingest.near_duplicates=9",),
    ("ingest.max_bad_fraction=1.5",),
    ("ingest.prepare.jpeg_quality=0",),
    ("ingest.prepare.jpeg_quality=101",),
    ("ingest.prepare.size_px=0",),
    ("ingest.prepare.alpha_background=[0, 0, 256]",),
    ("ingest.prepare.resize=shortest",),
    ("ingest.prepare.max_pixels=0",),
    # What contradicts itself.
    ("ingest.prepare.channels=4", "ingest.prepare.encoding=png"),
    ("ingest.prepare.depth=4095",),
    ("ingest.prepare.depth={low: 5%, high: 5.0%}",),
    ("ingest.prepare.depth={high: 9, found: [0, 5]}",),
    ("ingest.prepare.depth={high: 65536}",),
    ("ingest.prepare.depth={high: 100.1%}",),
    ("ingest.prepare.depth={low: true}",),
    (_RAW, "ingest.prepare.channels=2", "ingest.prepare.depth={low: 1}"),
    ("ingest.prepare.sound={high_hz: 8001}",),
    ("ingest.prepare.sound={duration_s: 0.02}",),
    ("ingest.prepare.sound={mel_bins: 1024, high_hz: 40}",),
    ("ingest.prepare.sound={sample_rate_hz: 400000, window_s: 0.5}",),
    ("ingest.prepare.sound={floor_db: 0}",),
    ("ingest.prepare.sound={mels: 3}",),
    ("ingest.group_pattern=x",),
    ("ingest.label_pattern='(?P<label>[a-z'",),
    ("ingest.split_pattern='(?P<split>*)'",),
    ("ingest.group_pattern='(?P<group>a{1,99999999999})'",),
    ("ingest.masks={masks: 'a/{key}.*'}",),
    (f"ingest.masks={{classes: {[f'c{n}' for n in range(256)]}}}",),
    ("ingest.masks={classes: [a], ignored: ['#000000']}",),
    ("ingest.masks={classes: {a: '#fff'}}",),
    ("ingest.masks={classes: {a: 1, b: [2, 1]}}",),
    ("ingest.masks={classes: [a, b], ignored: [1]}",),
    ("ingest.masks={classes: {a: '#00ff00', b: '#00FF00'}}",),
    ("ingest.masks={classes: {a: -1}}",),
    ("ingest.masks={classes: {a: 65536}}",),
    ("ingest.boxes={classes: [cat, cat]}",),
    ("ingest.splits={train: 0.8, eval: 0.3}",),
    ("ingest.splits={train: 1.0, eval: 0.0}",),
    ("ingest.splits.test=-1",),
    ("feeding.select.fold=[3, 3]",),
    ("feeding.select.fold=[0, 1]",),
    ("feeding.mix={a: 1}", "feeding.many_views.mirror=true"),
    ("feeding.balance=uniform", "feeding.many_views.mirror=true"),
    ("feeding.shuffle=shards", "feeding.mix={a: 1}"),
    ("feeding.own_shards=true", "feeding.augment=[mixup]"),
    ("feeding.own_shards=true", "feeding.bad_records=skip"),
    ("feeding.augment=[{op: cutout, sise: 3}]",),
    ("feeding.augment={op: cutout}",),
    ("feeding.augment={crop: {area: [0.5, 1]}}",),
    ("feeding.augment=[cut_out]",),
    ("feeding.augment=[randaugment]",),
    ("feeding.augment=[qqqqq]",),
    ("feeding.augment=[random_resized_crop, random_resized_crop]",),
    ("feeding.augment=[{op: cutout, sice_px: 3}]",),
    ("feeding.augment=[{op: grayscale, sigma_px: [1, 2]}]",),
    ("feeding.augment=[{op: a.b, most: 3}]",),
    ("feeding.augment=[flip_horizontal, {op: grayscale, probability: 1.1}]",),
    ("feeding.augment=[{op: flip_vertical, probability: -0.1}]",),
    ("feeding.augment=[{op: rotate, degrees: 181}]",),
    ("feeding.augment=[{op: rotate, mode: wrap}]",),
    ("feeding.augment=[{op: cutout, size_px: 0}]",),
    ("feeding.augment=[{op: cutout, fill: 256}]",),
    ("feeding.augment=[{op: color_jitter, hue: 0.6}]",),
    ("feeding.augment=[{op: color_jitter, contrast: -1}]",),
    ("feeding.augment=[{op: rand_augment, magnitude: 11}]",),
    ("feeding.augment=[{op: rand_augment, steps: 0}]",),
    ("feeding.augment=[{op: mixup, alpha: 0}]",),
    ("feeding.augment=[{op: gaussian_blur, sigma_px: [0, 1]}]",),
    ("feeding.augment=[{op: gaussian_blur, sigma_px: [-1, 1]}]",),
    ("feeding.augment=[{op: gaussian_blur, sigma_px: [0.1, .inf]}]",),
    ("feeding.augment=[{op: mixup, alpha: .inf}]",),
    ("feeding.augment=[{op: cutout, size_px: 3000000000}]",),
    ("feeding.augment=[{op: pad_and_crop, pad_px: 3000000000}]",),
    ("feeding.augment=[{op: rand_augment, steps: 1000000}]",),
    ("training.model=resnet", "training.weights=imagenet"),
    ("kubeflow.steps=4",),
    ("kubeflow.steps.Trainr={}",),
    ("kubeflow.steps.Trainer.cpus=4",),
    ("kubeflow.steps.Trainer.cpu=four",),
    ("kubeflow.steps.Trainer.memory=16 GB",),
    ("kubeflow.steps.Trainer.tolerations=[{keys: a}]",),
    ("kubeflow.steps.Trainer.tolerations=[{operator: Equal}]",),
    ("kubeflow.steps.Trainer.tolerations=[{key: a, value: b}]",),
    ("kubeflow.steps.Trainer.retries={most: 0}",),
    ("kubeflow.steps.Trainer.retries={most: 1, longest_wait_s: 3601}",),
    ("kubeflow.steps.Trainer.accelerator={type: nvidia.com/gpu, count: 0}",),
    ("kubeflow.steps.Trainer.volume_claims={data: relative}",),
    ("kubeflow.defaults.timeout_s=0",),
)
_FOLDER, _MASKS, _BOXES, _TAGS, _VALUES = (
    "folder",
    *(f"csv, {label}" for label in ("mask", "boxes", "tags", "value")),
)
# What is refused of a run, by the golden case whose images it is about.
RUNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (_FOLDER, ("ingest.splits={train: 1}",)),
    (_FOLDER, ("ingest.masks={}",)),
    (_FOLDER, ("ingest.pixel_shape=[28, 28]",)),
    (_FOLDER, ("ingest.generator={}",)),
    (_FOLDER, ("ingest.columns={image: path}",)),
    (_FOLDER, ("ingest.in_place=true", _RAW, "ingest.prepare.resize=none")),
    (_FOLDER, ("ingest.boxes={}",)),
    (_FOLDER, ("ingest.stratify=camera",)),
    (_FOLDER, ("ingest.class_ids=true", "ingest.label_pattern=null")),
    (_FOLDER, ("ingest.label_pattern=null",)),
    (_FOLDER, ("ingest.label_pattern='(?P<label>nothing)/.*'",)),
    (_FOLDER, ("ingest.label_pattern='(?P<label>cat)/.*'",)),
    (_FOLDER, _DEEP),
    (_FOLDER, ("view.dtype=float32",)),
    (_FOLDER, ("view.channels=4",)),
    (_FOLDER, (_RAW, "ingest.prepare.channels=4")),
    (_FOLDER, (*_DEEP, "view.dtype=float32", "feeding.augment=[color_jitter]")),
    (
        _FOLDER,
        (_RAW, "ingest.prepare.channels=4", "view.channels=4", "feeding.augment=[grayscale]"),
    ),
    (_FOLDER, ("spans.window=2",)),
    (_FOLDER, ("spans.window=2", "ingest.prepare.depth=maximum")),
    (_FOLDER, ("training.model=unet",)),
    (_FOLDER, ("training.model=VGG16",)),
    (_FOLDER, ("feeding.augment=[cutmix]", "training.class_weights=balanced")),
    (_MASKS, ("ingest.masks={images: 'a/{key}.*', masks: 'b/{key}.png'}",)),
    (_MASKS, ("training.class_weights=balanced",)),
    (_MASKS, ("training.label_smoothing=0.1",)),
    (_MASKS, ("feeding.labels=one_hot",)),
    (_MASKS, ("feeding.augment=[mixup]",)),
    (_MASKS, ("training.model=resnet",)),
    (_MASKS, ("training.model=my.keras",)),
    (_MASKS, ("training.model=detector",)),
    (_BOXES, ("ingest.masks={}",)),
    (_BOXES, ("training.class_weights=balanced",)),
    (_BOXES, ("training.label_smoothing=0.1",)),
    (_BOXES, ("feeding.labels=one_hot",)),
    (_BOXES, ("feeding.augment=[cutmix]",)),
    (_BOXES, ("training.model=unet_lite0",)),
    (_TAGS, ("ingest.class_ids=true",)),
    (_TAGS, ("ingest.stratify=true",)),
    (_TAGS, ("feeding.labels=one_hot",)),
    (_TAGS, ("ingest.boxes={}",)),
    # Not refused: each tag has its weight, whatever else a mixed image has.
    (_TAGS, ("feeding.augment=[cutmix]", "training.class_weights=balanced")),
    (_VALUES, ("ingest.class_ids=true",)),
    (_VALUES, ("ingest.stratify=label",)),
    (_VALUES, ("ingest.classes=[a]",)),
    (_VALUES, ("training.class_weights=balanced",)),
    (_VALUES, ("training.label_smoothing=0.1",)),
    (_VALUES, ("feeding.labels=one_hot",)),
    (_VALUES, ("training.model=detector",)),
    ("csv, class", ("ingest.columns={label: null}",)),
    ("csv, class", ("ingest.stratify=other",)),
    (_MASKS, ("evaluation.slices=[image/format]",)),
    (_FOLDER, ("evaluation.slices=[camera]",)),
    ("generator", ("ingest.prepare.depth=maximum",)),
    # Several at once.
    (_FOLDER, ("view.channels=4", "view.dtype=float32", "training.model=unet")),
    (_BOXES, ("training.label_smoothing=0.1", "training.class_weights=balanced")),
    (_BOXES, ("feeding.labels=one_hot", "feeding.augment=[mixup]", "training.model=cnn")),
    (_VALUES, ("ingest.class_ids=true", "ingest.stratify=label", "ingest.classes=[a]")),
)
# What `input_fn` refuses of a data set of such images, and `batches`.
FEEDING: tuple[tuple[str, dict[str, Any]], ...] = (
    (_FOLDER, {"view": {"channels": 4}}),
    (_FOLDER, {"view": {"dtype": "float32"}}),
    (_FOLDER, {"labels": "one_hot"}),
    (_FOLDER, {"augment": ["cutmix"]}),
    (_FOLDER, {"columns": ["nothing"]}),
    (_FOLDER, {"mode": "eval", "augment": ["cutmix"]}),
    (_FOLDER, {"graph_dir": "graph", "view": {"height_px": 9, "width_px": 8}}),
    (_FOLDER, {"split": "nothing"}),
    (_MASKS, {"augment": ["mixup"]}),
    (_MASKS, {"labels": "one_hot"}),
    (_BOXES, {"augment": ["mixup"]}),
    (_BOXES, {"labels": "one_hot"}),
    (_BOXES, {"columns": ["image/object/class/label"]}),
    (_TAGS, {"labels": "one_hot"}),
    (_TAGS, {"augment": ["mixup"]}),
    (_VALUES, {"labels": "one_hot"}),
    ("deep", {"view": {"dtype": "uint8", "channels": 2}}),
    ("deep", {"view": {"dtype": "float32", "channels": 3}}),
    ("deep", {"view": {"dtype": "float32", "channels": 2}, "augment": ["gaussian_blur"]}),
)


def list_refusals(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The text of each refusal, in an empty folder."""
    return [*_of_options(), *_of_runs(folder), *_of_feeding(folder)]


def _of_options() -> Iterator[dict[str, Any]]:
    for overrides in OPTIONS:
        text = _refused(load_config, None, overrides)
        yield {"options": " ".join(overrides), "refused": text.splitlines()}


def _of_runs(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    make = functools.cache(_make)
    for case, overrides in RUNS:
        images = make(case, folder)
        options = CASES[case].options.items()
        its_own = [f"ingest.{name}={json.dumps(value)}" for name, value in options]
        config = load_config(None, [*its_own, *overrides])
        text = _refused(plan_run, config, images, str(folder / "out"), [])
        yield {"run": case, "options": " ".join(overrides), "refused": _lines(text, folder)}


def _of_feeding(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    root = folder / "fed"
    for case in dict.fromkeys(case for case, _ in FEEDING):
        data = str(folder / f"data of {case}")
        splits = {"splits": {"train": 0.6, "eval": 0.4}, "max_bad_fraction": 1}
        own = _STORED if case == "deep" else CASES[case].options
        api.ingest(_make(case, root), data, **own, **splits)
        if case == _FOLDER:
            api.analyze(data, str(folder / "graph"), view={"height_px": 8, "width_px": 8})
        for options in (dict(options) for its, options in FEEDING if its == case):
            named = ", ".join(f"{name}={value}" for name, value in options.items())
            if "graph_dir" in options:
                options["graph_dir"] = str(folder / options["graph_dir"])
            for read in (api.input_fn, api.batches):
                text = _refused(read, data, **({"view": {"height_px": 8, "width_px": 8}} | options))
                found = {"refused": _lines(text, folder)}
                yield {"read": case, "by": read.__name__, "options": named, **found}


_STORED = {"prepare": {"encoding": "raw", "dtype": "uint16", "channels": 2, "resize": "none"}}


def _make(case: str, folder: pathlib.Path) -> str:
    """Writes a case's images."""
    root = folder / case.replace(", ", "-")
    root.mkdir(parents=True)
    if case == "deep":
        for number in range(8):
            path = root / "photos" / "ab"[number % 2] / f"{number}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, np.full((9, 9, 2), number, np.uint16))
        return str(root / "photos")
    return str(CASES[case].make(root))


def _refused(function: Callable[..., Any], *given: Any, **named: Any) -> str:
    try:
        function(*given, **named)
    except UserError as error:
        return str(error)
    return "no error"


def _lines(text: str, folder: pathlib.Path) -> list[str]:
    return text.replace(str(folder), "FOLDER").splitlines()
