"""Labels to numbers: the vocabulary of classes or tags, and how often each occurs.

Classes are numbered in the order of their names, as Keras, TFDS, the Model Garden and records' own
`image/class/label` do, so that a model's predictions may be compared with any of these.
tf.Transform's own vocabulary puts the most frequent name first; so this one is an analyzer of ours.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform import analyzers

from image_pipeline.components import contract, files
from image_pipeline.components.dataset import record
from image_pipeline.components.feeding.parse import split_tags
from image_pipeline.components.transform import statistics

_BREAKS = (b"\n", b"\r")
# Names that are left out of a vocabulary, whose file has a name a line.
_NOT_IN_VOCABULARY = r"^$|\C*[\n\r]\C*"
# The names that come first: those of `ingest.classes`.
_first: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("first", default=())


@contextlib.contextmanager
def offer_order(first: Sequence[str]) -> Iterator[None]:
    """Lets vocabularies of the block begin with these names, whether they occur or not."""
    token = _first.set(tuple(first))
    try:
        yield
    finally:
        _first.reset(token)


def make_labels(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor | tf.RaggedTensor:
    """The label output of a data set's kind: ids of classes, ids of tags, or values.

    Args:
      inputs: of the `preprocessing_fn`.
    """
    if record.TAGS in inputs:
        return tag_ids(inputs[record.TAGS])
    if record.VALUE in inputs:
        return keep_values(inputs[record.VALUE])
    return label_ids(inputs[contract.LABEL_INPUT])


def label_ids(labels: tf.Tensor) -> tf.Tensor:
    """Numbers classes in the order of `ingest.classes`, then of names; -1 for others.

    In the same pass it leaves four named statistics in the graph, each [classes] in the order of
    the ids: `class_names`, `class_counts` (int64, records), `class_priors` (a class's share of the
    records) and `class_weights`, which are records / (classes · the class's records), as
    scikit-learn's `class_weight="balanced"` is: every class then weighs the same in a loss. One
    that only `ingest.classes` names has 0 of each.

    Args:
      labels: string [B].

    Returns:
      int64 [B].
    """
    ids, names, counts = _number_names(labels)
    shares = tf.cast(counts, tf.float64)
    records, classes = tf.reduce_sum(shares), tf.cast(tf.size(counts), tf.float64)
    return _keep(
        ids,
        class_names=names,
        class_counts=counts,
        class_priors=shares / records,
        class_weights=tf.math.divide_no_nan(records, classes * shares),
    )


def tag_ids(joined: tf.Tensor) -> tf.RaggedTensor:
    """Numbers tags as `label_ids` does classes, with the same statistics in the graph.

    Of these, `class_counts` are the records that have a tag, `class_priors` their share, and
    `class_weights` the records without it for each one with it: so weighted, those with and those
    without a tag count the same in a loss.

    Args:
      joined: string [B], each record's tags, one a line.

    Returns:
      int64 [B, tags of a record]; -1 for a tag that was not analysed.
    """
    tags = split_tags(joined)
    ids, names, counts = _number_names(tags.flat_values)
    with_tag = tf.cast(counts, tf.float64)
    records = tf.cast(tft.sum(tf.ones_like(joined, tf.int64)), tf.float64)
    ids = _keep(
        ids,
        class_names=names,
        class_counts=counts,
        class_priors=with_tag / records,
        class_weights=tf.math.divide_no_nan(records - with_tag, with_tag),
    )
    return tags.with_flat_values(ids)


def keep_values(values: tf.Tensor) -> tf.Tensor:
    """Values as they are (float32 [B]), with their mean and variance as statistics.

    A model that always predicts the mean has the variance as its mean squared error.
    """
    return _keep(values, value_mean=tft.mean(values), value_variance=tft.var(values))


def _keep(output: tf.Tensor, **found: tf.Tensor) -> tf.Tensor:
    marked = [statistics.name_statistic(name, value) for name, value in found.items()]
    return statistics.keep_statistics(output, marked)


def _number_names(names: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Numbers names by the vocabulary of all that are analysed, and counts each of these.

    Args:
      names: string [n].

    Returns:
      Each name's line in the vocabulary, int64 [n], -1 for others; the vocabulary, string
      [classes]; and how often each of its names occurs, int64 [classes].
    """
    vocabulary = name_vocabulary(names, contract.LABEL_VOCABULARY)
    ids = tft.apply_vocabulary(names, vocabulary, default_value=-1)
    found, counts = tft.count_per_key(names)  # In the order of names.
    kept = ~tf.strings.regex_full_match(found, _NOT_IN_VOCABULARY)
    found, counts = tf.boolean_mask(found, kept), tf.boolean_mask(counts, kept)
    # In the order of the vocabulary: those of `ingest.classes` come first, even with no record.
    first = tf.constant(_first.get(), tf.string)
    ordered, places = tf.unique(tf.concat([first, found], 0))
    all_counts = tf.concat([tf.zeros_like(first, tf.int64), counts], 0)
    return ids, ordered, tf.math.unsorted_segment_sum(all_counts, places, tf.size(ordered))


def name_vocabulary(names: tf.Tensor, filename: str) -> tf.Tensor:
    """The vocabulary: what `offer_order` names, then all other names that are analysed, sorted.

    UTF-8's bytes have the order of the characters' numbers, which is that of Python's `sorted`. As
    in tf.Transform's own, names that are empty or of several lines are left out.

    Args:
      names: string [n].
      filename: the vocabulary's name in the graph.

    Returns:
      The path of the file, as `tft.apply_vocabulary` takes it.
    """
    analyzer = tft.experimental.CacheablePTransformAnalyzer(
        make_accumulators_ptransform=_ListNames(),
        merge_accumulators_ptransform=_JoinLists(),
        extract_output_ptransform=WriteVocabulary(filename, _first.get()),
        cache_coder=_Coder(),
    )
    # While there is no file, this stands in one.
    (path,) = tft.experimental.ptransform_analyzer([names], analyzer, [tf.string], [[]], [b"name"])
    analyzers.register_vocab(filename)  # By it, `tft.TFTransformOutput` finds the file.
    return path


@dataclasses.dataclass  # By which the cache knows it.
class _ListNames(beam.PTransform):
    """Lists the names of each batch, sorted, a name a line."""

    def expand(self, batches: beam.PCollection) -> beam.PCollection:
        return batches | "ListNames" >> beam.MapTuple(_list_names)


def _list_names(names: np.ndarray) -> bytes:
    """The different names of bytes [n], sorted, a name a line."""
    kept = {name for name in names.tolist() if name and not any(b in name for b in _BREAKS)}
    return b"\n".join(sorted(kept))


@dataclasses.dataclass
class _JoinLists(beam.PTransform):
    """Makes one list of several."""

    def expand(self, lists: beam.PCollection) -> beam.PCollection:
        return lists | "JoinLists" >> beam.CombineGlobally(_join_lists)


def _join_lists(lists: Iterable[bytes]) -> bytes:
    """Makes one list of several that `_list_names` has made; in any order the same."""
    return b"\n".join(sorted({name for each in lists for name in each.splitlines()}))


class WriteVocabulary(tft_beam.experimental.PTransformAnalyzer):
    """Makes the analyzer's value of one list of names: a file's path.

    Attributes:
      vocab_filename, store_frequency, file_format: as tf.Transform's own analyzer has them.
    """

    store_frequency = False
    file_format = "text"

    def __init__(self, vocab_filename: str, first: Sequence[str]):
        """Takes the file's name, and the names that come first."""
        super().__init__()
        self.vocab_filename = vocab_filename
        self._first = [name.encode() for name in first]

    def expand(self, names: beam.PCollection) -> beam.PCollection:
        """Takes and returns one element."""
        path = files.join(self.base_temp_dir, self.vocab_filename)
        return names | "WriteVocabulary" >> beam.Map(_write_names, path, self._first)


def _write_names(names: bytes, path: str, first: Sequence[bytes]) -> np.ndarray:
    """Writes the file of a vocabulary: the names that come first, then `names`, a name a line."""
    # TensorFlow makes no table of an empty file; tf.Transform writes a name into its own.
    nothing = [analyzers.get_empy_vocabulary_dummy_value(tf.string)[1]]
    ordered = dict.fromkeys([*first, *names.splitlines()] or nothing)
    files.write_file(path, b"".join(name + b"\n" for name in ordered))
    return np.array(path)


class _Coder(tft.experimental.PTransformAnalyzerCacheCoder):
    """Writes lists into tf.Transform's cache, which knows analyzers by how parts are shown."""

    def encode_cache(self, accumulator: bytes) -> bytes:
        return accumulator

    def decode_cache(self, encoded_accumulator: bytes) -> bytes:
        return encoded_accumulator

    def __repr__(self) -> str:
        return type(self).__name__
