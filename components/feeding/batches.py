"""Batches as NumPy arrays, for PyTorch, JAX, Grain or a loop of one's own. No TensorFlow.

They are those that `input_fn` makes of the same arguments, bit for bit, up to the transform graph:
the same records in the same order, the same crops and flips.
"""

import collections
import concurrent.futures
import dataclasses
import itertools
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.augment import array_steps
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import find_image, read_index, read_table
from image_pipeline.components.dataset.manifest import Manifest, read_whole_manifest
from image_pipeline.components.dataset.paths import INDEX
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import read_graph
from image_pipeline.components.feeding.found_columns import (
    find_columns,
    find_labels,
    find_most_boxes,
    name_length,
)
from image_pipeline.components.feeding.graph_fits import check_fits
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.feeding.passes import Mode, Passes
from image_pipeline.components.feeding.reader import (
    CLASS,
    KEY,
    MADE_AHEAD,
    MIRRORED,
    SERIALIZED,
    WINDOW,
    Arrays,
    BatchReader,
)
from image_pipeline.components.feeding.rules import BATCHES, check_pixels
from image_pipeline.components.labels.box_arrays import finish_boxes, place_boxes
from image_pipeline.components.labels.kind import BOX_LABELS, PLACES, VISIBLE
from image_pipeline.components.labels.kinds import BOXES, CLASSES, MASKS, TAGS
from image_pipeline.components.messages import show
from image_pipeline.components.order.batches import Position
from image_pipeline.components.rules import check
from image_pipeline.components.views.options import ViewOptions

_STANDARDIZE = "image_pipeline.components.transform.preprocessing.standardize"


@dataclasses.dataclass(frozen=True)
class Occurrence:
    """Where a record is fed: the number of the epoch, of the batch in it, and its place there."""

    epoch: int
    step: int
    place: int


class Batches:
    """The batches of a split, to be iterated: `for batch in batches`.

    An iteration has `epochs` epochs, and the one after it the next ones. Between any two batches,
    `state_dict` says where it stands, in under a hundred bytes, on any number of workers. With
    `len(batches)` and `batches[step]`, the batches of the epoch that comes next, it is also what
    PyTorch calls a map-style `Dataset`; pickled, it is its arguments and its position.
    """

    def __init__(
        self,
        data_dirs: Sequence[str],
        split: str = "train",
        *,
        view: ViewOptions,
        feeding: FeedingOptions,
        mode: Mode,
        graph_dir: str | None = None,
        seed: int = 0,
        epochs: int | None = 1,
        first_epoch: int = 0,
        first_step: int = 0,
        worker: int = 0,
        workers: int = 1,
    ):
        """Opens the data sets; the arguments are those of `input_fn`.

        Raises:
          UserError: if there is no such data set, split or graph, or an option does not fit it or
            needs TensorFlow.
        """
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        self._arguments.pop("__class__", None)
        if not data_dirs:
            raise UserError("data_dir must name a data set, or several, got none.")
        manifests = {root: read_whole_manifest(root) for root in data_dirs}
        self.checksums = tuple(manifest.checksum for manifest in manifests.values())
        self._feeding, self._epochs = feeding, epochs
        self._graph = None if graph_dir is None else read_graph(graph_dir)
        self._paths = [
            files.join(root, shard.file)
            for root, manifest in manifests.items()
            for shard in manifest.find_split(split, root).shards
        ]
        check_pixels(manifests, view)
        known = {} if self._graph is None else {"analysed": self._graph.view, "view": view}
        steps = feeding.steps
        check(BATCHES, feeding=feeding, steps=steps, mode=mode, graph_dir=graph_dir, **known)
        self._kind = find_labels(manifests)
        self._columns = find_columns(manifests, self._kind, feeding)
        self._most_boxes = find_most_boxes(manifests) if self._kind is BOXES else None
        self._passes = Passes(
            mode=mode,
            seed=seed,
            epochs=epochs,
            first_epoch=first_epoch,
            first_step=first_step,
            worker=worker,
            workers=workers,
        )
        self._passes.share_of_batch(feeding)
        self._view = view
        self._reader = BatchReader(
            read_index(self._paths, manifests), view, feeding, self._passes, self._columns
        )
        if self._graph is not None:
            check_fits(graph_dir or "", self._graph, None, manifests, self._paths, feeding, mode)
        self._reader.check_step(first_step)
        self._reader.hold_decoded(self._reader.plan_memory(mode))
        self.class_names = self._name_classes(manifests)
        self._ids = self._number_classes()
        self._position = _make_position(seed, first_epoch, first_step)

    @property
    def steps_per_epoch(self) -> int:
        """The batches of an epoch."""
        return self._reader.steps

    @property
    def mean(self) -> np.ndarray:
        """The mean of each channel, in levels, as the analysis found it: float64 [channels]."""
        return self._statistic("mean")

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of each channel, 1 of a constant one: float64 [channels]."""
        return self._statistic("std")

    def normalize(self, images: np.ndarray) -> np.ndarray:
        """The transform graph's pixels: float32, each channel with mean 0 and deviation 1.

        Args:
          images: [..., channels], as batches have them.

        Raises:
          UserError: if there is no graph, or it was made by another function than `standardize`.
        """
        mean, scale = self.mean.astype(np.float32), (1 / self.std).astype(np.float32)
        return (images.astype(np.float32) - mean) * scale

    def _statistic(self, name: str) -> np.ndarray:
        function = None if self._graph is None else self._graph.preprocessing_fn
        if function != _STANDARDIZE:
            made = "there is no transform graph" if function is None else f"it is {function}"
            raise UserError(
                "only the preprocessing_fn standardize has a mean and standard deviation that "
                f"normalise images without TensorFlow, but {made}; give graph_dir, the folder that "
                "the analysis wrote."
            )
        assert self._graph is not None
        return np.array(self._graph.statistics[name], np.float64)

    def _name_classes(self, manifests: Mapping[str, Manifest]) -> tuple[str, ...]:
        """The names of ids, in their order; none of values."""
        first = next(iter(manifests.values()))
        if self._kind.moves:
            return self._kind.class_names(first)
        if self._kind not in (CLASSES, TAGS):
            return ()
        if self._graph is not None:
            return tuple(known.name for known in self._graph.classes)
        names = {name: None for manifest in manifests.values() for name in manifest.class_names}
        return first.class_names if len(manifests) == 1 else tuple(sorted(names))

    def _number_classes(self) -> np.ndarray:
        """The id of each of the index's classes, -1 of one that has none: int64 [classes]."""
        ids = {name: number for number, name in enumerate(self.class_names)}
        found, graph = self._reader.index.classes, self._graph
        if self._kind is CLASSES and graph is not None:
            renamed = {*(graph.other_labels or ())}.difference(ids).intersection(found)
            if renamed or graph.columns:
                why = f"it names {min(renamed)!r} otherwise" if renamed else "it reads columns"
                raise UserError(
                    f"only TensorFlow knows the ids that {graph.preprocessing_fn} gives, since "
                    f"{why}; read by input_fn, or leave graph_dir out."
                )
        return np.array([ids.get(name, -1) for name in found], np.int64)

    def read(self, epoch: int, step: int) -> dict[str, Any]:
        """This worker's part of one batch: a pure function of epoch and step.

        Returns:
          `image` [batch, height, width, channels] of `view.dtype`, random steps taken; `label`,
          what `input_fn` has as labels: int64 [batch], class ids, -1 of none; float32
          [batch, tags] of 0 and 1; float32 [batch], values; int32 [batch, height, width], masks;
          or of boxes a dict; in training `key`, int64 [batch], which no other view of the run
          shares, to draw further random steps of; and each of `feeding.columns` by its key.

        Raises:
          UserError: if a record is damaged, which it names, or the epoch has no such step.
        """
        if not 0 <= step < self.steps_per_epoch:
            raise UserError(f"an epoch has the steps 0 to {self.steps_per_epoch - 1}, got {step}.")
        made = self._reader.read(epoch, step)
        features = self._read_features(made)
        moving = {array_steps.IMAGES: made["image"]}
        if self._kind is MASKS:
            moving[array_steps.MASKS] = made[record.MASK]
        if self._kind is BOXES:
            assert self._most_boxes is not None
            sizes = np.stack([made["height"], made["width"]], axis=1)
            placed = place_boxes(features, sizes, made.get(WINDOW), self._view, self._most_boxes)
            moving[array_steps.BOXES] = placed[PLACES]
            moving[array_steps.VISIBLE] = placed[VISIBLE]
        if self._passes.training:
            mirrors = self._feeding.many_views.mirror
            steps = self._feeding.steps
            array_steps.take_steps(moving, made[KEY], made[MIRRORED], steps, mirrors)
        batch: dict[str, Any] = {"image": moving[array_steps.IMAGES]}
        if self._kind is MASKS:
            batch["label"] = moving[array_steps.MASKS][..., 0].astype(np.int32)
        elif self._kind is BOXES:
            own = (moving[array_steps.BOXES], moving[array_steps.VISIBLE])
            batch["label"] = finish_boxes(*own, placed[BOX_LABELS], self._feeding.min_visible)
        else:
            batch["label"] = self._take_labels(made, features)
        if self._passes.training:
            batch["key"] = made[KEY].view(np.int64)
        return batch | self._feed_columns(features)

    def _read_features(self, made: Arrays) -> list[dict[str, Any]]:
        """The further columns of a batch's records, each by their keys."""
        if SERIALIZED not in made:
            return []
        columns = [column for column in self._columns if column != record.MASK_COLUMN]
        try:
            return [record.read_features(data, columns) for data in made[SERIALIZED]]
        except ValueError as error:
            raise UserError(f"a record is damaged: {error}; run ingest again.") from error

    def _take_labels(self, made: Arrays, features: list[dict[str, Any]]) -> np.ndarray:
        if self._kind is CLASSES:
            return self._ids[made[CLASS]]
        (column,) = self._kind.columns
        labels = [own[column.key] for own in features]
        if self._kind is not TAGS:
            return np.array(labels, np.float32)
        ids = {name.encode(): number for number, name in enumerate(self.class_names)}
        marks = np.zeros((len(labels), len(ids)), np.float32)
        for row, tags in enumerate(labels):
            marks[row, [ids[tag] for tag in tags if tag in ids]] = 1
        return marks

    def _feed_columns(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        """The columns that are fed; lists padded by 0 or b"", with their lengths."""
        fed: dict[str, Any] = {}
        dtypes: dict[str, Any] = {"int64": np.int64, "float32": np.float32, "bytes": object}
        for column in self._columns:
            if column.key not in self._feeding.columns:
                continue
            values, dtype = [own[column.key] for own in features], dtypes[column.dtype]
            if not column.is_list:
                fed[column.key] = np.array(values, dtype)
                continue
            lengths = fed[name_length(column.key)] = np.array([*map(len, values)], np.int64)
            padding = b"" if column.dtype == "bytes" else 0
            shape = (len(values), int(lengths.max(initial=0)))
            fed[column.key] = np.full(shape, padding, dtype)
            for row, own in enumerate(values):
                fed[column.key][row, : len(own)] = own
        return fed

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The batches from the position on, to the end of `epochs` epochs; some are made ahead."""
        start, process = self._position, os.getpid()
        last = None if self._epochs is None else start.epoch + self._epochs
        coming = _follow(start, self.steps_per_epoch, last)
        # In a store, records are asked for long before a batch is made of them.
        announced: collections.deque[tuple[Position, concurrent.futures.Future]] = (
            collections.deque()
        )
        ahead: collections.deque[tuple[Position, concurrent.futures.Future]] = collections.deque()
        most = max(MADE_AHEAD, self._feeding.ahead_batches if self._reader.in_store else 0)
        announcer = concurrent.futures.ThreadPoolExecutor(1, "announcements")
        pool = concurrent.futures.ThreadPoolExecutor(MADE_AHEAD, "batches")
        try:
            while True:
                for position in itertools.islice(coming, most - len(announced)):
                    announced.append((position, announcer.submit(self._announce, position)))
                while len(ahead) < MADE_AHEAD and announced:
                    position, announcement = announced.popleft()
                    made = pool.submit(self._read_announced, position, announcement)
                    ahead.append((position, made))
                if not ahead:
                    return
                position, made = ahead.popleft()
                batch = made.result()
                self._position = position.advance(1, self.steps_per_epoch)
                yield batch
                if os.getpid() != process:  # Its threads would be waited for without end.
                    raise UserError(
                        "an iteration cannot go on in a fork of its process; iterate again there: "
                        "it begins where this one stood."
                    )
        finally:
            for threads in (announcer, pool):
                threads.shutdown(cancel_futures=True)
            for position, _ in (*announced, *ahead):
                self._reader.forget(position.epoch, position.step)

    def _announce(self, position: Position) -> None:
        if self._reader.in_store:
            self._reader.announce(position.epoch, position.step)

    def _read_announced(self, position: Position, announcement: Any) -> dict[str, Any]:
        announcement.result()
        return self.read(position.epoch, position.step)

    def __len__(self) -> int:
        return self.steps_per_epoch

    def __getitem__(self, step: int) -> dict[str, Any]:
        """A batch of the epoch that the position is in.

        Raises:
          IndexError: if the epoch has no such step.
        """
        if not 0 <= step < len(self):
            raise IndexError(f"an epoch has the steps 0 to {len(self) - 1}, got {step}")
        return self.read(self._position.epoch, step)

    def state_dict(self) -> dict[str, int]:
        """Where the iteration stands: seed, epoch, and the step of the batch that comes next."""
        return dataclasses.asdict(self._position)

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Goes to where `state_dict` stood; the next iteration begins there.

        Raises:
          UserError: if it is of another seed, or no such position.
        """
        try:
            position = Position(**state)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"a state is what state_dict gives, got {show(state)} ({error})."
            ) from error
        if position.seed != self._passes.seed:
            raise UserError(
                f"the state is of the seed {position.seed}, but these batches are of "
                f"{self._passes.seed}; give seed={position.seed}."
            )
        self._reader.check_step(position.step)
        self._position = position

    def go_to(self, epoch: int) -> None:
        """Lets the next iteration, and `batches[step]`, be of this epoch.

        Raises:
          UserError: if there is no such epoch.
        """
        self._position = _make_position(self._passes.seed, epoch, 0)

    def where(self, source: str, epochs: Sequence[int] = (0,)) -> list[Occurrence]:
        """Where an image is fed, in all workers' batches together: the order, asked the other way.

        Args:
          source: its path, as `source` of the index has it, or its record id.
          epochs: which epochs are asked.

        Returns:
          Every time that it comes, in order; none in batches that are dropped, or as padding.

        Raises:
          UserError: if the split has no such image, or there is no such epoch.
        """
        rows = find_image(read_table(self._paths, ["source", "record_id"]), source)
        if not len(rows):
            raise UserError(
                f"there is no image {source!r} in this split; give its path as `source` of "
                f"{INDEX} has it, or its record id."
            )
        for epoch in epochs:
            _make_position(self._passes.seed, epoch, 0)
        size, order = self._feeding.batch_size, self._reader.order
        return [
            Occurrence(int(epoch), *map(int, divmod(position, size)))
            for epoch in epochs
            for position in np.sort(np.concatenate([order.find(epoch, row) for row in rows]))
            if position < self.steps_per_epoch * size
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the arguments, where it stands, and which data sets were meant."""
        return _open_again, (self._arguments, self.state_dict(), self.checksums)

    def __repr__(self) -> str:
        return f"Batches({', '.join(map(repr, self._arguments['data_dirs']))}, {self._position})"


def _follow(start: Position, steps_per_epoch: int, last: int | None) -> Iterator[Position]:
    """The positions from one on, up to the first of the epoch `last`, or without an end."""
    position = start
    while last is None or position.epoch < last:
        yield position
        position = position.advance(1, steps_per_epoch)


def _make_position(seed: int, epoch: int, step: int) -> Position:
    """The position of whole numbers of any type, such as NumPy's."""
    try:
        return Position(*map(operator.index, (seed, epoch, step)))
    except (TypeError, ValueError) as error:
        raise UserError(
            f"seed, epoch and step must be whole numbers, got {seed!r}, {epoch!r} and {step!r} "
            f"({error})."
        ) from error


def _open_again(
    arguments: dict[str, Any], state: dict[str, int], checksums: tuple[str | None, ...]
) -> Batches:
    opened = Batches(**arguments)
    if opened.checksums != checksums:
        raise UserError(
            f"The data set {arguments['data_dirs'][0]!r} was replaced since these batches were "
            "opened; open them again."
        )
    opened.load_state_dict(state)
    return opened
