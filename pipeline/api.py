"""Plain functions for use without TFX: `ingest`, `analyze`, `input_fn`, `predict`, ….

They give the same bytes, statistics and batches as the command line and the pipeline. Keyword
options are those of the configuration group that each function reads; they override `config`, a
YAML file as for the command line (or what `image_pipeline.config.load_config` returns for it). Beam
and TensorFlow are imported by the functions that need them.
"""

import contextlib
import functools
import inspect
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.files import as_text
from image_pipeline.components.inference.options import InferenceOptions
from image_pipeline.components.messages import show
from image_pipeline.components.options import read_options
from image_pipeline.components.rules import check
from image_pipeline.components.views.options import ViewOptions
from image_pipeline.config import PipelineConfig, read_group
from image_pipeline.needs import guard_imports

Config = str | PipelineConfig | None
View = ViewOptions | Mapping[str, Any] | None
_TEXTS = (str, str | None, str | Sequence[str])
Function = TypeVar("Function", bound=Callable[..., Any])

_LOG = logging.getLogger(__name__)


def _explained(function: Function) -> Function:
    """Raises a `UserError` alone, without Beam's tracebacks; names what the machine lacks.

    Paths may be `pathlib.Path`s, by themselves or in lists. What must be text and is not, such as
    an argument in another one's place, is told by its name.
    """
    parameters = inspect.signature(function).parameters
    texts = {name: of.annotation for name, of in parameters.items() if of.annotation in _TEXTS}
    order = ", ".join(
        name for name, of in parameters.items() if of.kind is of.POSITIONAL_OR_KEYWORD
    )

    @functools.wraps(function)
    def explained(*arguments: Any, **options: Any) -> Any:
        try:
            with _unlogged(), guard_imports():
                positional = [as_text(value) for value in arguments]
                named = {name: as_text(value) for name, value in options.items()}
                given = [*zip(parameters, positional, strict=False), *named.items()]
                for name, value in given:
                    if name in texts and not _is_text(value, texts[name]):
                        several = ", or a list of them" if texts[name] == _TEXTS[-1] else ""
                        raise UserError(
                            f"{name} must be a path or another text{several}, got {show(value)}; "
                            f"the arguments are {function.__name__}({order})."
                        )
                return function(*positional, **named)
        except UserError as error:
            raise UserError(str(error)) from None
        except Exception as error:
            if known := explain_shortage(error):
                raise known from error
            raise

    return explained  # type: ignore[return-value]


def _is_text(value: Any, kind: Any) -> bool:
    if kind == _TEXTS[-1] and isinstance(value, Sequence):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, kind)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Keeps Beam from also logging what a stage raises, which Python prints by default."""

    def is_news(log: logging.LogRecord) -> bool:
        return log.exc_info is None or not isinstance(log.exc_info[1], UserError)

    beam_log = logging.getLogger("apache_beam.runners.common")
    beam_log.addFilter(is_news)
    try:
        yield
    finally:
        beam_log.removeFilter(is_news)


@contextlib.contextmanager
def _unmoved() -> Iterator[None]:
    """Keeps the random state of Python and NumPy, from which Beam draws, and Keras weights."""
    import numpy as np

    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@_explained
@_unmoved()
def ingest(
    images_dir: str,
    output_dir: str,
    *,
    config: Config = None,
    beam_args: Sequence[str] = (),
    replace: bool = False,
    compare: Literal["times", "bytes", "nothing"] = "times",
    versions: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Writes a folder of images as shuffled, sharded TFRecords: `image-pipeline ingest`.

    A data set that is there is brought up to date: images that have not changed are taken from it,
    and the result is what an ingest of all of them would write.

    Args:
      images_dir: the folder of images, or its URI.
      output_dir: the data set's folder; an interrupted ingest to it continues.
      config: its group `ingest` is used; None for the defaults.
      beam_args: Beam flags; none for the local runner.
      replace: whether a finished data set of other images or options may be replaced.
      compare: how it is told that an image has not changed: by its file's size and time; by its
        bytes, which are all read; or not at all, so that all are made again.
      versions: of how many versions that were replaced the indices are kept, from now on; None for
        as many as before, 10 at first.
      **options: options of `ingest`, e.g. `shards=4` or `prepare={"encoding": "png"}`.

    Returns:
      The summary: `found`, `written`, `duplicates`, `quarantined`, `skipped`, `splits`, `shards`,
      `bytes`, ….
    """
    from image_pipeline.run.engine import choose_engine
    from image_pipeline.run.preflight import check_ingest

    chosen = read_group("ingest", config, options)
    flags = choose_engine(beam_args, read_group("dataflow", config))
    listing = check_ingest(images_dir, output_dir, chosen, flags)
    from image_pipeline.run.ingest import ingest_folder

    return ingest_folder(listing, output_dir, flags, replace, compare, versions)


@_explained
@_unmoved()
def forget(
    data_dir: str,
    images: str | Sequence[str] = (),
    *,
    near: bool = False,
    images_dir: str | None = None,
    scan: Sequence[str] = (),
    yes: bool = False,
) -> dict[str, Any]:
    """Takes pictures out of a data set, and searches for their bytes: `image-pipeline forget`.

    Args:
      data_dir: the data set's folder, on this machine.
      images: their paths, as `source` of the index has them, or files of the same bytes; none goes
        on with what was begun.
      near: whether what looks alike is forgotten, too.
      images_dir: where the data set's images are now, if they have moved.
      scan: further folders that are searched for the bytes and for models.
      yes: whether it is done, which cannot be undone. Otherwise only `pictures` and `seen` are
        found, what would be forgotten and which models were fed it.

    Returns:
      `pictures`, `seen`; and, if it was done, `held`, the files that still hold them, `deleted`,
      `unread`, `unsought`, `files`, `bytes`, `versions`, `sums` and the ingest's summary as
      `data_set`.

    Raises:
      UserError: if a picture is not in the data set, or that cannot be written.
    """
    from image_pipeline.run.forget import forget_pictures, plan_forgetting

    named = [images] if isinstance(images, str) else images
    plan, listing = plan_forgetting(data_dir, named, near, images_dir, scan)
    found = {"pictures": plan.pictures, "seen": plan.seen}
    return forget_pictures(plan, listing) if yes else found


@_explained
@_unmoved()
def analyze(
    data_dir: str,
    graph_dir: str,
    *,
    view: View = None,
    config: Config = None,
    beam_args: Sequence[str] = (),
    cache_dir: str | None = None,
    earlier: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Computes the transform graph of a data set: `image-pipeline analyze`.

    Args:
      data_dir: the folder that ingest wrote.
      graph_dir: the transform graph's folder; an earlier graph in it is replaced.
      view: the model's input; options left out are taken from `config`.
      config: its groups `view` and `transform` are used; None for the defaults.
      beam_args: Beam flags; none for the local runner.
      cache_dir: where the findings for a data set are kept for later analyses; None keeps nothing.
      earlier: the folder of an earlier graph, whose images are not decoded again where their sums
        suffice; None for the one that is replaced.
      **options: options of `transform`, e.g. `analyze_fraction=0.1`.

    Returns:
      What `analysis.json` holds: `records`, `statistics`, `classes`, …; and `seconds`,
      `peak_rss_mb` and, where there was an earlier graph, `earlier`: what it was good for.
    """
    from image_pipeline.run.engine import choose_engine

    chosen = read_group("transform", config, options)
    seen = read_group("view", config, _as_dict(view))
    flags = choose_engine(beam_args, read_group("dataflow", config))
    from image_pipeline.run.analysis import analyze_folder

    return analyze_folder(data_dir, graph_dir, seen, chosen, flags, cache_dir, earlier)


@_explained
def input_fn(
    data_dir: str | Sequence[str],
    split: str = "train",
    graph_dir: str | None = None,
    *,
    mode: str | None = None,
    view: View = None,
    config: Config = None,
    seed: int | None = None,
    epochs: int | None = 1,
    first_epoch: int = 0,
    first_step: int = 0,
    worker: int = 0,
    workers: int = 1,
    again: str = "next",
    **options: Any,
) -> Any:
    """Reads a data set into batches: `components.feeding.input_fn.input_fn`, by folder and split.

    Keras's `fit(data, epochs=n)` iterates it once for each epoch, and so gets n epochs, each in its
    own order and with its own random views.

    Args:
      data_dir: the folder that ingest wrote; of several, all are read together, in one order.
      split: whose records are read.
      graph_dir: the folder of the transform graph, or None for uint8 images and class names.
      mode: "train" shuffles and makes random views, "eval" does neither; None means "train" for the
        split train, and "eval" for all others.
      view: the model's input; options left out are taken from `config`. By default, what the
        transform graph was made for.
      config: its groups `view` and `feeding` and its `training.seed` are used; None for the
        defaults.
      seed: decides order and random views; None for `training.seed` of `config`, 0 by default.
      epochs: passes over the records; None repeats forever.
      first_epoch: number of the first pass.
      first_step: number of the first pass's first batch.
      worker: number of this worker, from 0.
      workers: how many share each batch.
      again: what iterating training's data again gives: the "next" epochs, or the "same".
      **options: options of `feeding`, e.g. `batch_size=64` or `augment=["flip_horizontal"]`.

    Returns:
      A `tf.data.Dataset` of pairs of images and labels, see `components.feeding.input_fn.input_fn`.

    Raises:
      UserError: if there is no such data set or split, or an option does not fit it.
      tf.errors.OpError: while it is iterated, for what is found only then: a damaged record.
    """
    from image_pipeline.named_folder import list_splits

    feeding = read_group("feeding", config, options)
    seen = _choose_view(view, config, graph_dir)
    files = list_splits(data_dir, split)
    from image_pipeline.components.feeding.input_fn import input_fn as read_batches

    return read_batches(
        files,
        view=seen,
        feeding=feeding,
        transform_graph_dir=graph_dir,
        mode=mode or _default_mode(split),  # type: ignore[arg-type]
        seed=read_group("training", config).seed if seed is None else seed,
        epochs=epochs,
        first_epoch=first_epoch,
        first_step=first_step,
        worker=worker,
        workers=workers,
        again=again,  # type: ignore[arg-type]
    )


@_explained
def batches(
    data_dir: str | Sequence[str],
    split: str = "train",
    graph_dir: str | None = None,
    *,
    mode: str | None = None,
    view: View = None,
    config: Config = None,
    seed: int | None = None,
    epochs: int | None = 1,
    first_epoch: int = 0,
    first_step: int = 0,
    worker: int = 0,
    workers: int = 1,
    **options: Any,
) -> Any:
    """Reads a data set into batches of NumPy arrays, without TensorFlow: those of `input_fn`.

    The same arguments give the same records in the same order, with the same crops and flips, bit
    for bit, up to the transform graph; `normalize` does what the graph does with pixels. For
    PyTorch, JAX, or a loop of your own (docs/interop.md).

    Args:
      data_dir: the folder that ingest wrote, or several.
      split: whose records are read.
      graph_dir: the folder of the transform graph, which numbers classes and has the mean and
        standard deviation; None numbers them as the data set does.
      mode: as for `input_fn`.
      view: as for `input_fn`.
      config: its groups `view` and `feeding` and its `training.seed` are used.
      seed: decides order and random views; None for `training.seed` of `config`, 0 by default.
      epochs: how many an iteration has; None never ends.
      first_epoch: number of the first one.
      first_step: number of its first batch.
      worker: number of this worker, from 0.
      workers: how many share each batch.
      **options: options of `feeding`, e.g. `batch_size=64`; of `augment` those steps that move
        whole pixels: random_resized_crop, pad_and_crop, flip_horizontal and flip_vertical.

    Returns:
      A `components.feeding.batches.Batches`: iterate it, or index it by the step.

    Raises:
      UserError: if there is no such data set or split, or an option does not fit it.
    """
    from image_pipeline.components.feeding.batches import Batches

    return Batches(
        [data_dir] if isinstance(data_dir, str) else data_dir,
        split,
        view=_choose_view(view, config, graph_dir),
        feeding=read_group("feeding", config, options),
        mode=mode or _default_mode(split),  # type: ignore[arg-type]
        graph_dir=graph_dir,
        seed=read_group("training", config).seed if seed is None else seed,
        epochs=epochs,
        first_epoch=first_epoch,
        first_step=first_step,
        worker=worker,
        workers=workers,
    )


@_explained
def random_access(
    data_dir: str,
    split: str = "train",
    *,
    columns: Sequence[str] = (),
    decode: str = "pixels",
    verify: bool = True,
) -> Any:
    """Opens a split as a sequence of records, for PyTorch, Grain or NumPy: without TensorFlow.

    Args:
      data_dir: the folder that ingest wrote.
      split: whose records are read.
      columns: further features of a record, by their keys, that items have, too.
      decode: "pixels", or "none" for images' bytes as they are stored.
      verify: whether the checksums of what is read are verified.

    Returns:
      A `components.feeding.random_access.RandomAccess`.

    Raises:
      UserError: if there is no such data set, split or column.
    """
    from image_pipeline.components.feeding.random_access import RandomAccess

    return RandomAccess(
        data_dir,
        split,
        columns=columns,
        decode=decode,  # type: ignore[arg-type]
        verify=verify,
    )


@_explained
def write_tfds_metadata(data_dir: str, name: str = "images", version: str = "1.0.0") -> list[str]:
    """Writes what TensorFlow Datasets needs beside the shards: `tfds.builder_from_directory`.

    Args:
      data_dir: the folder that ingest wrote.
      name: what TFDS shall call the data set.
      version: what TFDS shall call its version.

    Returns:
      The names of the files, see `components.dataset.as_tfds.write_tfds_metadata`.

    Raises:
      UserError: if there is no such data set, or TFDS cannot read its images.
    """
    from image_pipeline.components.dataset import as_tfds

    return as_tfds.write_tfds_metadata(data_dir, name, version)


@_explained
def write_parquet(
    data_dir: str, folder: str, *, name: str = "images", licence: str | None = None
) -> list[str]:
    """Writes a data set as Parquet for Hugging Face's `datasets`, with a card and Croissant.

    Args:
      data_dir: the folder that ingest wrote.
      folder: a new or empty one.
      name: of the data set.
      licence: its identifier or address; None for those that a column of the images says, if any.

    Returns:
      The files' names.

    Raises:
      UserError: if there is no such data set, the folder holds files, or images are not stored as
        files.
    """
    from image_pipeline.components.dataset import as_parquet

    return as_parquet.write_parquet(data_dir, folder, name, licence)


def from_generators(
    make: Callable[[int, int], Iterable[Any]],
    shards: int,
    output_signature: Any,
    **options: Any,
) -> Any:
    """Feeds Python generators from several processes, without ingest.

    Args:
      make: called as `make(shard, shards)` in a worker process, for each shard; yields items as
        `tf.data.Dataset.from_generator` takes them.
      shards: into how many parts `make` divides the data.
      output_signature: `tf.TensorSpec`s of an item, in tuples and dicts.
      **options: of `components.feeding.from_generators.from_generators`, e.g. `batch_size=64`.

    Returns:
      A `tf.data.Dataset`; each pass over it calls the generators again.

    Raises:
      UserError: if an argument is wrong.
    """
    from image_pipeline.components.feeding.from_generators import from_generators as read_generators

    return read_generators(make, shards, output_signature, **options)


@_explained
def predict(
    model: str,
    images: str | Sequence[str],
    *,
    config: Config = None,
    top: int = 5,
    batch_size: int = 32,
    **options: Any,
) -> Iterator[dict[str, Any]]:
    """Asks an exported model about images: `image-pipeline predict`.

    Args:
      model: its folder, a folder of versions, or a run's; or the URI of one.
      images: files, patterns, folders, or whatever ingest takes.
      config: its group `ingest` is used; None for the defaults.
      top: how many of the likeliest classes, tags or objects are named.
      batch_size: most files to ask about at a time.
      **options: options of `ingest`, e.g. `prepare={"max_pixels": 10_000_000}`.

    Returns:
      For each file, as it is asked about, a dict: `file`, and `label`, `probability` and `top`, or
      what models of other tasks answer; or `error` and `message`; or `skipped` and `message`. See
      `components.inference.predict.predict`. A mask is a PNG, `mask_bytes`.

    Raises:
      UserError: if there is no such model, or, while it is iterated, images cannot be listed.
    """
    from image_pipeline.named_model import find_model

    chosen = read_group("ingest", config, options)
    asked = read_options(InferenceOptions, "predict", {"top": top, "batch_size": batch_size})
    folder = find_model(model)
    from image_pipeline.components.inference.exported import ExportedModel
    from image_pipeline.components.inference.predict import predict as ask

    named = [images] if isinstance(images, str) else images
    return ask(ExportedModel(folder), named, chosen, asked.top, asked.batch_size)


@_explained
def check_model(model: Any, graph_dir: str) -> list[str]:
    """Looks at a Keras model before it is trained behind a transform graph.

    Args:
      model: the model, compiled or not.
      graph_dir: the folder of the transform graph.

    Returns:
      What would cost accuracy, a sentence each, which is logged, too: that the model scales images
      which the graph has normalised already, that its weights were trained with other pixels, or
      that its loss reads the probabilities it gives as logits.

    Raises:
      UserError: if it cannot be exported: its input, its outputs, or what it is made of.
    """
    from image_pipeline.components.training.model_check import check_for_export, notice_loss
    from image_pipeline.components.training.pixel_check import notice_graph

    checked, view, _ = check_for_export(model, graph_dir)
    notices = [*notice_loss(checked), *notice_graph(model, graph_dir, view)]
    for each in notices:
        _LOG.warning(each)
    return notices


@_explained
def export_model(model: Any, graph_dir: str, folder: str) -> None:
    """Writes a trained model that takes image files: what `run` pushes, of a model of your own.

    It decodes, takes the view, normalises and answers by itself, with plain TensorFlow, by the
    signatures that docs/serving.md lists: `serving_default` for image files (base64 over REST),
    `serving_examples` and `transform_features` for the Evaluator and BulkInferrer.

    Args:
      model: a Keras model; takes what `input_fn` gives behind the graph, of `feeding.dtype`
        float32. If it gives logits, what makes probabilities of them is added.
      graph_dir: the folder of the transform graph that it was trained behind.
      folder: where the SavedModel goes, such as TFX's `fn_args.serving_model_dir`.

    Raises:
      UserError: if the model cannot be exported, or there is no such graph.
    """
    from image_pipeline.components.training.serving import export_trained

    export_trained(model, graph_dir, folder)


@_explained
def steps_per_epoch(
    data_dir: str | Sequence[str],
    split: str = "train",
    *,
    mode: str | None = None,
    config: Config = None,
    **options: Any,
) -> int:
    """Counts the batches of an epoch, as `input_fn` makes them with the same arguments.

    Args:
      data_dir: the folder that ingest wrote, or several.
      split: whose records are read.
      mode: as for `input_fn`.
      config: its group `feeding` is used; None for the defaults.
      **options: options of `feeding`, e.g. `batch_size=64` or `remainder="drop"`.

    Raises:
      UserError: if there is no such data set or split, or an option does not fit it.
    """
    from image_pipeline.named_folder import list_splits

    feeding = read_group("feeding", config, options)
    files = list_splits(data_dir, split)
    from image_pipeline.components.feeding.input_fn import steps_per_epoch as count_steps

    return count_steps(files, feeding, mode or _default_mode(split))  # type: ignore[arg-type]


@_explained
def read_score(run_dir: str) -> float:
    """The one figure that a run's model is judged by: what a search for better options needs.

    Args:
      run_dir: a run's output folder, or its URI.

    Returns:
      The accuracy on the eval split; of tags F1, of masks the mean IoU, of boxes mAP50-95; of
      numbers the mean squared error, of which less is better.

    Raises:
      UserError: if the folder has no whole run, or nothing could be measured.
    """
    from image_pipeline.components.evaluation.facts import read_evaluation
    from image_pipeline.run_folder import RunFolder

    folder = RunFolder(run_dir)
    evaluation_dir = ((folder.read_summary() or {}).get("paths") or {}).get("evaluation")
    if evaluation_dir is None:
        raise UserError(
            f"{run_dir!r} must have a summary.json that names an evaluation, which a whole run "
            "writes at its end; run it to there."
        )
    score = read_evaluation(folder.relocate(evaluation_dir)).score.value
    if score is None:
        raise UserError(f"no record of {run_dir!r} could be measured: none has a known class.")
    return score


def _default_mode(split: str) -> str:
    return "train" if split == "train" else "eval"


def _choose_view(view: View, config: Config, graph_dir: str | None) -> ViewOptions:
    """The view asked for, which must be the graph's; by default, the graph's."""
    from image_pipeline.components.feeding.analysis import read_graph
    from image_pipeline.components.feeding.rules import VIEW

    asked = read_group("view", config, _as_dict(view))
    if graph_dir is None:
        return asked
    analysed = read_graph(graph_dir).view
    if view is None and config is None:
        return analysed
    check(VIEW, analysed=analysed, view=asked, graph_dir=graph_dir)
    return asked


def _as_dict(view: View) -> Mapping[str, Any]:
    if not isinstance(view, ViewOptions | Mapping | None):
        raise UserError(
            'view must be the options of `view`, such as {"height_px": 64, "width_px": 64}, got '
            f"{show(view)}."
        )
    return view.model_dump() if isinstance(view, ViewOptions) else view or {}
