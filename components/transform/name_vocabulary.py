"""A vocabulary in the order of its names, as an analyzer of tf.Transform, whose own puts the most
frequent name first.

Keras, TFDS, the Model Garden and records' own `image/class/label` number classes by their names: so
does a graph, and a model's answers may be compared with any of these.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform import analyzers

from image_pipeline.components import files

_BREAKS = (b"\n", b"\r")
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


def order_counts(names: tf.Tensor, counts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Brings counts into the order of `name_vocabulary`, of the same names.

    Args:
      names: string [n], sorted.
      counts: int64 [n].

    Returns:
      All names of the vocabulary, string [classes], and the count of each, int64 [classes].
    """
    first = tf.constant(_first.get(), tf.string)
    ordered, places = tf.unique(tf.concat([first, names], 0))
    all_counts = tf.concat([tf.zeros_like(first, tf.int64), counts], 0)
    return ordered, tf.math.unsorted_segment_sum(all_counts, places, tf.size(ordered))


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
        return names | "WriteVocabulary" >> beam.Map(write_names, path, self._first)


def write_names(names: bytes, path: str, first: Sequence[bytes]) -> np.ndarray:
    """Writes a vocabulary's file.

    Args:
      names: sorted, a name a line.
      path: the file.
      first: the names that come before.
    """
    # TensorFlow makes no table of an empty file; tf.Transform writes a name into its own.
    nothing = [analyzers.get_empy_vocabulary_dummy_value(tf.string)[1]]
    ordered = dict.fromkeys([*first, *names.splitlines()] or nothing)
    files.write_file(path, b"".join(name + b"\n" for name in ordered))
    return np.array(path)


@dataclasses.dataclass  # By which the cache knows it.
class _ListNames(beam.PTransform):
    """Lists the names of each batch, sorted, a name a line."""

    def expand(self, batches: beam.PCollection) -> beam.PCollection:
        return batches | "ListNames" >> beam.MapTuple(list_names)


@dataclasses.dataclass
class _JoinLists(beam.PTransform):
    """Makes one list of several."""

    def expand(self, lists: beam.PCollection) -> beam.PCollection:
        return lists | "JoinLists" >> beam.CombineGlobally(join_lists)


def list_names(names: np.ndarray) -> bytes:
    """The different names of bytes [n], sorted, a name a line."""
    kept = {name for name in names.tolist() if name and not any(b in name for b in _BREAKS)}
    return b"\n".join(sorted(kept))


def join_lists(lists: Iterable[bytes]) -> bytes:
    """Makes one list of several that `list_names` has made; in any order the same."""
    return b"\n".join(sorted({name for each in lists for name in each.splitlines()}))


class _Coder(tft.experimental.PTransformAnalyzerCacheCoder):
    """Writes lists into tf.Transform's cache, which knows analyzers by how parts are shown."""

    def encode_cache(self, accumulator: bytes) -> bytes:
        return accumulator

    def decode_cache(self, encoded_accumulator: bytes) -> bytes:
        return encoded_accumulator

    def __repr__(self) -> str:
        return type(self).__name__
