"""The saved transform graph, applied to batches by plain TensorFlow."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from image_pipeline.components import contract, files
from image_pipeline.components.dataset.record import (
    LABEL_COLUMNS,
    TAGS,
    Column,
    Dtype,
    label_column,
)
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.compiled import compile_pixels, once
from image_pipeline.components.feeding.tags import multi_hot
from image_pipeline.components.images.spectrogram import SoundOptions
from image_pipeline.components.trees import fetch_tree
from image_pipeline.components.views.options import ViewOptions

# Where tf.Transform puts its SavedModel (`tft.TFTransformOutput.TRANSFORM_FN_DIR`), repeated here
# because importing tf.Transform would cost every reader of batches ten seconds.
_SAVED_MODEL_DIR = "transform_fn"
_WHITE = (255, 255, 255)
# Of more classes, a table would take longer than it saves in one epoch.
_MOST_NAMES = 2**12
_NAMES_AT_ONCE = 64
_DTYPES: dict[tf.DType, Dtype] = {tf.string: "bytes", tf.int64: "int64", tf.float32: "float32"}


def read_class_names(transform_graph_dir: str) -> list[str]:
    """Reads the label vocabulary, in the order of the class ids.

    Raises:
      UserError: if the transform graph has no such vocabulary.
    """
    folder = files.join(transform_graph_dir, _SAVED_MODEL_DIR, "assets")
    try:
        content = files.read_file(files.join(folder, contract.LABEL_VOCABULARY))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(
            f"the transform graph in {transform_graph_dir} must have a vocabulary named "
            f"{contract.LABEL_VOCABULARY!r}; give the preprocessing_fn's label vocabulary "
            f"vocab_filename={contract.LABEL_VOCABULARY!r}."
        ) from error
    # As bytes: a name may hold what text mode takes for a line end.
    return [name.decode() for name in content.split(b"\n")[:-1]]


def read_mask_classes(transform_graph_dir: str) -> list[str] | None:
    """The classes of the analysed masks, in the order of their ids; None without masks."""
    return _read_analysis(transform_graph_dir).get("mask_classes")


def read_box_classes(transform_graph_dir: str) -> list[str] | None:
    """The classes of the analysed boxes, in the order of their ids; None without boxes."""
    return _read_analysis(transform_graph_dir).get("box_classes")


def read_label_column(transform_graph_dir: str) -> Column | None:
    """The column of the analysed labels if they are tags or values; None if they are classes."""
    key = _read_analysis(transform_graph_dir).get("label")
    return next((column for column in LABEL_COLUMNS.values() if column.key == key), None)


def read_alpha_background(transform_graph_dir: str) -> tuple[int, int, int]:
    """The RGB colour on which ingest laid the transparent images of the analysed data sets.

    White for a graph of tf.Transform's own, which has no `analysis.json`.
    """
    red, green, blue = _read_analysis(transform_graph_dir).get("alpha_background", _WHITE)
    return red, green, blue


def read_sound(transform_graph_dir: str) -> SoundOptions | None:
    """How ingest drew the sounds of the analysed data sets; None if it read none."""
    options = _read_analysis(transform_graph_dir).get("sound")
    return None if options is None else SoundOptions(**options)


def read_stored_type(transform_graph_dir: str, view: ViewOptions) -> str:
    """The type of the values that the analysed data sets store; for other graphs, the view's."""
    return _read_analysis(transform_graph_dir).get("dtype", view.dtype)


def _read_analysis(transform_graph_dir: str) -> dict[str, Any]:
    """What `analysis.json` holds; nothing beside a graph of tf.Transform's own."""
    try:
        return json.loads(files.read_file(files.join(transform_graph_dir, contract.ANALYSIS)))
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _fingerprint(folder: str) -> str:
    """A hash of all that a saved graph computes pixels with, which excludes vocabularies."""
    digest = hashlib.sha256()
    for pattern in ("saved_model.pb", "variables/*"):
        for path in sorted(tf.io.gfile.glob(os.path.join(folder, pattern))):
            with tf.io.gfile.GFile(path, "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


class TransformGraph(tf.Module):
    """What tf.Transform learned from the whole data set, as a function of batches.

    A `tf.Module`, so that a model that holds one is exported with its vocabulary.
    """

    def __init__(self, transform_graph_dir: str):
        """Loads the graph from the folder that tf.Transform wrote."""
        super().__init__()
        self._folder = transform_graph_dir
        saved_model_dir = os.path.join(fetch_tree(transform_graph_dir), _SAVED_MODEL_DIR)
        self._fingerprint = _fingerprint(saved_model_dir)
        self._loaded = tf.saved_model.load(saved_model_dir)
        (specs,), _ = self.input_signature
        own = (contract.IMAGE_INPUT, contract.LABEL_INPUT)
        self._column_specs = {key: specs[key] for key in sorted(specs) if key not in own}

    @property
    def input_signature(self) -> Any:
        """The arguments of the saved function, as `tf.TensorSpec`s."""
        return self._loaded.transform_fn.structured_input_signature

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the graph reads beside image and label, sorted by their keys."""
        return tuple(
            LABEL_COLUMNS["strings"] if key == TAGS else Column(key, _DTYPES[spec.dtype])
            for key, spec in self._column_specs.items()
        )

    @property
    def label(self) -> Column | None:
        """The record's column that the label is made of: tags or a value; None for a class."""
        return label_column(self.columns)

    def __call__(self, batch: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Transforms a batch.

        Args:
          batch: as `ImageBatches.read` gives it: "image" [batch, height, width, channels],
            "label" string [batch], and the further columns that the graph reads, each [batch], by
            feature key.

        Returns:
          float32 [batch, height, width, channels], normalised, and int64 [batch], each label's line
          in the vocabulary or -1; or float32 [batch, tags] of 0 and 1; or float32 [batch], values.
        """
        needed = (contract.IMAGE_INPUT, contract.LABEL_INPUT, *self._column_specs)
        outputs = self._loaded.transform_fn({key: batch[key] for key in needed})
        label = outputs[contract.LABEL_OUTPUT]
        if isinstance(label, tf.RaggedTensor):
            label = multi_hot(label, len(self.class_names))
        return outputs[contract.IMAGE_OUTPUT], label

    def number_labels(
        self, names: Sequence[str] | None
    ) -> Callable[[Mapping[str, tf.Tensor]], tf.Tensor]:
        """What becomes of labels, for data sets, which would copy the whole graph for each epoch.

        Args:
          names: of all classes that occur, where they are known: they are looked up at once.

        Returns:
          A function from batches to the labels that the graph itself gives.
        """
        # The analysis makes sure that a class depends on the label alone; others' graphs may not.
        is_ours = bool(_read_analysis(self._folder))
        if names is None or self._column_specs or len(names) > _MOST_NAMES or not is_ours:
            return lambda batch: self(batch)[1]
        keys, ids = tf.constant(list(names), tf.string), tf.constant(self.find_ids(names), tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(keys, ids)
        table = tf.lookup.StaticHashTable(initializer, default_value=-1)
        return lambda batch: table.lookup(batch[contract.LABEL_INPUT])

    def find_ids(self, labels: Sequence[str]) -> list[int]:
        """The ids that the graph gives to labels: some at a time, each comes with a blank image."""
        (specs,), _ = self.input_signature

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        def look_up(names: tf.Tensor) -> tf.Tensor:
            blank = {
                key: tf.zeros([tf.size(names), *spec.shape[1:]], spec.dtype)
                for key, spec in specs.items()
                if key != contract.LABEL_INPUT
            }
            return self({**blank, contract.LABEL_INPUT: names})[1]

        names = [label.encode() for label in labels]
        parts = [names[n : n + _NAMES_AT_ONCE] for n in range(0, len(names), _NAMES_AT_ONCE)]
        return [int(i) for part in parts for i in look_up(tf.constant(part, tf.string)).numpy()]

    def compile_pixels(self) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """`transform_images`, compiled by XLA; None where that gives other bits."""
        key = ("graph", self._fingerprint)
        return once(key, lambda: compile_pixels(self._loaded.transform_fn))

    @property
    def class_names(self) -> list[str]:
        """The label vocabulary, in the order of the class ids."""
        return read_class_names(self._folder)

    def transform_images(self, images: tf.Tensor) -> tf.Tensor:
        """Transforms images alone, as in serving.

        The image output depends on the image alone (the analysis made sure of it), so empty labels
        and zeros in the columns' places change nothing.
        """
        count = tf.shape(images)[0]
        empty = {key: tf.zeros([count], spec.dtype) for key, spec in self._column_specs.items()}
        labels = tf.zeros([count], tf.string)
        return self({**empty, contract.IMAGE_INPUT: images, contract.LABEL_INPUT: labels})[0]
