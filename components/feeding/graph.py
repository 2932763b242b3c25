"""The saved transform graph, applied to batches by plain TensorFlow."""

import logging
import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from image_pipeline.components import contract, files
from image_pipeline.components.dataset.checksums import ListedFile
from image_pipeline.components.dataset.record import (
    LABEL_COLUMNS,
    TAGS,
    Column,
    Dtype,
    label_column,
)
from image_pipeline.components.errors import UserError, explain_shortage
from image_pipeline.components.feeding.analysis import (
    MODEL,
    SAVED_MODEL_DIR,
    check_files,
    damaged_graph,
    describe_files,
    read_analysis,
    read_vocabulary,
)
from image_pipeline.components.feeding.parse import multi_hot
from image_pipeline.components.messages import describe_error, find_line
from image_pipeline.components.trees import fetch_tree

_LOG = logging.getLogger(__name__)
Function = TypeVar("Function")
# XLA keeps what it compiled as long as the process lives, so each function is compiled only once: a
# notebook or a sweep makes many data sets.
_COMPILED: dict[Hashable, Any] = {}
_LOCK = threading.RLock()


def once(key: Hashable, make: Callable[[], Function]) -> Function:
    """The function that `make` returned for this key before, or returns now."""
    with _LOCK:
        if key not in _COMPILED:
            _COMPILED[key] = make()
        return _COMPILED[key]


def compile_or_keep(
    function: Callable[..., Any], sample: Sequence[Any], warning: str
) -> Callable[..., Any]:
    """Has XLA compile a function; keeps it as it is, with a warning, where XLA cannot.

    Args:
      function: of tensors.
      sample: arguments to try it with.
      warning: the consequence, shown after the reason.
    """
    # A plain function: TensorFlow would take a partial function's arguments for its own.
    compiled = tf.function(
        lambda *arguments: function(*arguments), jit_compile=True, autograph=False
    )
    try:
        with tf.device("/CPU:0"):  # where tf.data runs it, whatever else the machine has
            compiled(*sample)
    except (tf.errors.OpError, NotImplementedError) as error:
        _LOG.warning("XLA cannot compile everything (%s): %s", find_line(str(error)), warning)
        return function
    return compiled


def compile_pixels(transform_fn: Any) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Compiles a saved transform graph's image output: the same bits in a tenth of the time.

    `(x - mean) / std` over a last dimension of 3 costs TensorFlow's own kernels 0.6 ms for an image
    of 224 x 224, on one core; compiled it costs 0.05. A whole transform graph cannot be compiled,
    since it looks labels up in a table, so the branch from image to image is cut out of it.

    Returns:
      A function from the view's pixels to float32 [batch, height, width, channels], whose output
      has the bits of the graph's own; None, with a warning, if XLA cannot compile the graph or
      gives other bits.
    """
    try:
        pixels = tf.function(_cut_out_pixels(transform_fn), jit_compile=True, autograph=False)
        same = _gives_the_same(pixels, transform_fn)
    except (tf.errors.OpError, ValueError, NotImplementedError) as error:
        reason = find_line(str(error))
    else:
        if same:
            return pixels
        reason = "it gives other bits than TensorFlow's kernels"
    _LOG.warning(
        "The transform graph is not compiled (%s): normalising costs about ten times as much, "
        "0.6 instead of 0.05 ms for an image of 224 x 224.",
        reason,
    )
    return None


def _cut_out_pixels(transform_fn: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    """Prunes the graph to what leads from the image input to the image output."""
    frozen = convert_variables_to_constants_v2(transform_fn, aggressive_inlining=True)
    graph_def = frozen.graph.as_graph_def()
    for node in graph_def.node:  # Control inputs would hold on to the tables' initialisers.
        data_inputs = [name for name in node.input if not name.startswith("^")]
        del node.input[:]
        node.input.extend(data_inputs)
    whole = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph_def, name=""), [])
    (specs,), _ = transform_fn.structured_input_signature
    # Inputs and outputs are flattened in the order of their sorted names.
    image = frozen.inputs[sorted(specs).index(contract.IMAGE_INPUT)]
    output = frozen.outputs[sorted(transform_fn.structured_outputs).index(contract.IMAGE_OUTPUT)]
    return whole.prune(image.name, output.name)


def _gives_the_same(pixels: Callable[[tf.Tensor], tf.Tensor], transform_fn: Any) -> bool:
    """Compares the bits on two random images, which have every level of 8 bits many times."""
    (specs,), _ = transform_fn.structured_input_signature
    shape = (2, *specs[contract.IMAGE_INPUT].shape[1:])
    random = np.random.default_rng(0)
    is_float = specs[contract.IMAGE_INPUT].dtype == tf.float32
    images = tf.constant(
        random.normal(0, 1000, shape).astype(np.float32)
        if is_float
        else random.integers(0, 256, shape, np.uint8)
    )
    inputs = {name: tf.zeros([2], spec.dtype) for name, spec in specs.items()}
    inputs[contract.IMAGE_INPUT] = images
    with tf.device("/CPU:0"):  # where tf.data runs both, whatever else the machine has
        expected = transform_fn(inputs)[contract.IMAGE_OUTPUT]
        return pixels(images).numpy().tobytes() == expected.numpy().tobytes()


# Of more classes, a table would take longer than it saves in one epoch.
_MOST_NAMES = 2**12
_NAMES_AT_ONCE = 64
_DTYPES: dict[tf.DType, Dtype] = {tf.string: "bytes", tf.int64: "int64", tf.float32: "float32"}


def read_class_names(transform_graph_dir: str) -> list[str]:
    """Reads the label vocabulary, in the order of the class ids.

    Raises:
      UserError: if the transform graph has no such vocabulary, or it is damaged.
    """
    if (names := read_vocabulary(transform_graph_dir)) is None:
        raise UserError(
            f"the transform graph in {transform_graph_dir} must have a vocabulary named "
            f"{contract.LABEL_VOCABULARY!r}; give the preprocessing_fn's label vocabulary "
            f"vocab_filename={contract.LABEL_VOCABULARY!r}."
        )
    return names


def _hash_pixels(listed: Mapping[str, ListedFile]) -> Hashable:
    """What a saved graph computes pixels with, by checksums; that excludes vocabularies."""
    parts = (MODEL, f"{SAVED_MODEL_DIR}/variables/")
    return tuple((name, each.sha256) for name, each in listed.items() if name.startswith(parts))


class TransformGraph(tf.Module):
    """What tf.Transform learned from the whole data set, as a function of batches.

    A `tf.Module`, so that a model that holds one is exported with its vocabulary.
    """

    def __init__(self, transform_graph_dir: str):
        """Loads the graph from the folder that tf.Transform wrote.

        Raises:
          UserError: if there is none, or its files are not those that the analysis wrote.
        """
        super().__init__()
        self.folder = transform_graph_dir
        folder = fetch_tree(transform_graph_dir)
        self.analysis = read_analysis(transform_graph_dir)
        listed = check_files(transform_graph_dir, self.analysis, folder)
        try:
            self._fingerprint = _hash_pixels(listed or describe_files(folder))
            self._loaded = tf.saved_model.load(os.path.join(folder, SAVED_MODEL_DIR))
            (specs,), _ = self.function.structured_input_signature
            self.view_spec = specs[contract.IMAGE_INPUT]
        except Exception as error:  # Of a damaged file, TensorFlow raises many kinds.
            if not files.is_file(files.join(folder, MODEL)):
                raise UserError(
                    f"{transform_graph_dir!r} holds no transform graph ({MODEL}); give the folder "
                    "that the analysis wrote, or run `image-pipeline analyze`."
                ) from error
            found = damaged_graph(transform_graph_dir, describe_error(error))
            raise explain_shortage(error) or found from error
        own = (contract.IMAGE_INPUT, contract.LABEL_INPUT)
        self._column_specs = {key: specs[key] for key in sorted(specs) if key not in own}

    @property
    def function(self) -> Any:
        """What tf.Transform saved, as TensorFlow loads it."""
        return self._loaded.transform_fn

    @property
    def input_signature(self) -> Any:
        """The arguments of the saved function, as `tf.TensorSpec`s."""
        return self.function.structured_input_signature

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
        outputs = self.function({key: batch[key] for key in needed})
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
        is_ours = self.analysis is not None
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

        find = look_up.get_concrete_function()  # Called itself, it warns of retracing.
        names = [label.encode() for label in labels]
        parts = [names[n : n + _NAMES_AT_ONCE] for n in range(0, len(names), _NAMES_AT_ONCE)]
        return [int(i) for part in parts for i in find(tf.constant(part, tf.string)).numpy()]

    def compile_pixels(self) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """`transform_images`, compiled by XLA; None where that gives other bits."""
        key = ("graph", self._fingerprint)
        return once(key, lambda: compile_pixels(self.function))

    @property
    def class_names(self) -> list[str]:
        """The label vocabulary, in the order of the class ids."""
        return read_class_names(self.folder)

    def transform_images(self, images: tf.Tensor) -> tf.Tensor:
        """Transforms images alone, as in serving.

        The image output depends on the image alone (the analysis made sure of it), so empty labels
        and zeros in the columns' places change nothing.
        """
        count = tf.shape(images)[0]
        empty = {key: tf.zeros([count], spec.dtype) for key, spec in self._column_specs.items()}
        labels = tf.zeros([count], tf.string)
        return self({**empty, contract.IMAGE_INPUT: images, contract.LABEL_INPUT: labels})[0]
