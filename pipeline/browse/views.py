"""What evaluation and training see: one record's views, and whole batches as they are fed.

All of it needs TensorFlow, which is imported with the first. The pixels are those that `input_fn`
gives without a transform graph.
"""

import dataclasses
import functools
import threading
from typing import Any, NamedTuple

import numpy as np

from image_pipeline.browse.catalogue import Catalogue
from image_pipeline.components import files
from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import read_graph
from image_pipeline.components.feeding.certificate import Part
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions

# What is kept: of a batch, the page asks for each picture by itself.
_MOST_RECORDS, _MOST_BATCHES = 8, 2


class FedBatch(NamedTuple):
    """A batch of training.

    Attributes:
      steps: how many batches its epoch has.
      numbers: the records, in the batch's order, as the catalogue numbers them.
      pixels: [batch, height, width, channels], after the random steps.
    """

    steps: int
    numbers: list[int]
    pixels: np.ndarray


@dataclasses.dataclass(eq=False)
class Views:
    """Makes views, one after another; threads may share it.

    Attributes:
      view, feeding: the options of training.
      graph_dir: the transform graph, for the model's input; None without one.
      epochs: how many epochs' views a record has.
      fed: what of training a model was fed; None to show any batch.
    """

    catalogue: Catalogue
    view: ViewOptions
    feeding: FeedingOptions
    graph_dir: str | None
    epochs: int
    seed: int
    fed: Part | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._record_once = functools.lru_cache(_MOST_RECORDS)(self._read_record)
        self._batch_once = functools.lru_cache(_MOST_BATCHES)(self._read_batch)

    def list_pictures(self, number: int, drawn: bool = False) -> list[Any]:
        """The pictures of a record that training and evaluation make of the stored image.

        Args:
          number: the record's.
          drawn: whether masks and boxes lie over them, and they are magnified as on a sheet of
            `preview`; otherwise they have the very pixels of `input_fn`.

        Returns:
          `preview.panels.Panel`s: eval, each epoch of training, and the model's input if there is
          a transform graph.

        Raises:
          UserError: if the record is damaged, or a random step cannot be used.
        """
        from image_pipeline.preview.panels import list_pictures, make_panels

        with self._lock:
            views = self._record_once(number)
        if drawn:
            return make_panels(views)[1:]
        return list_pictures(dataclasses.replace(views, masks=None))[1:]

    def read_batch(self, epoch: int, step: int) -> FedBatch:
        """A batch of training as it is fed; both numbers count from 0.

        Raises:
          UserError: if there is no such batch, the model was not fed it, or it cannot be made.
        """
        if self.fed is not None and not self.fed.first <= (epoch, step) < self.fed.end:
            first, end = (
                f"epoch {each[0]} step {each[1]}" for each in (self.fed.first, self.fed.end)
            )
            raise UserError(f"the model was fed the batches from {first} up to, but not, {end}.")
        with self._lock:
            return self._batch_once(epoch, step)

    def _read_record(self, number: int) -> Any:
        from image_pipeline.components.dataset.index import read_index
        from image_pipeline.preview.samples import view_rows

        numbers = [number]
        if self.feeding.mixes_labels:  # Mixing steps pair records; with the next, or the last.
            is_last = number + 1 >= self.catalogue.records
            numbers.append(max(0, number - 1) if is_last else number + 1)
        found = self.catalogue.read(numbers)
        # Sorted, and each once: the index of these shards numbers the records.
        paths = sorted({self.catalogue.find_shard(row) for row in found})
        ids = [each.tobytes().hex() for each in read_index(paths).column("record_id")]
        rows = np.array([ids.index(row["record_id"]) for row in found])
        made_with = (self.view, self.feeding, self.graph_dir, self.epochs, self.seed)
        return view_rows(paths, rows, *made_with)[0]

    def _read_batch(self, epoch: int, step: int) -> FedBatch:
        from image_pipeline.components.augment.apply import check_user_steps
        from image_pipeline.components.feeding.finishing import make_augment, take_views
        from image_pipeline.components.feeding.input_fn import ImageBatches, steps_per_epoch
        from image_pipeline.components.feeding.passes import Passes
        from image_pipeline.components.feeding.reader import KEY, MIRRORED
        from image_pipeline.components.feeding.records import find_label_kind

        splits = self.catalogue.manifest.splits
        if "train" not in splits:
            raise UserError(f"the data set must have the split train, but has {', '.join(splits)}.")
        if self.graph_dir is not None and len(read_graph(self.graph_dir).manifests) > 1:
            raise UserError(
                "the transform graph was made of several data sets, so training's batches have "
                "records of all of them; give one of the data sets by itself, with --config."
            )
        root = self.catalogue.data_dir
        shards = [files.join(root, shard.file) for shard in splits["train"].shards]
        steps, kind = steps_per_epoch(shards, self.feeding, "train"), find_label_kind(shards)
        if step >= steps:
            raise UserError(f"an epoch has the steps 0 to {steps - 1:,}, got {step:,}.")
        check_user_steps(self.feeding.steps, next(iter(kind.moves), None))
        passes = Passes(mode="train", seed=self.seed, first_epoch=epoch, first_step=step)
        own = self.feeding.model_copy(update={"hold_decoded": False})
        columns = (*kind.columns, record.Column(record.SOURCE_ID, "bytes"))
        batch = next(iter(ImageBatches(shards, self.view, own, passes, columns).read()))
        augment = make_augment(self.feeding, self.view, kind)
        fed = augment(take_views(batch, kind), batch[KEY], batch[MIRRORED])
        ids = [id_.decode() for id_ in batch[record.SOURCE_ID].numpy().tolist()]
        numbers = self.catalogue.find_values("record_id", ids)
        return FedBatch(steps, [numbers[id_] for id_ in ids], fed.images.numpy())
