"""Python generators in processes of their own, as a `tf.data.Dataset`.

`tf.data.Dataset.from_generator` runs Python in this process, where one thread at a time does.
"""

import functools
import itertools
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.python_calls import count_call, when_quiet
from image_pipeline.components.generators.generator_items import Leaf, encode_structure
from image_pipeline.components.generators.generator_process import (
    Sent,
    kill_all,
    run_generators,
    send_function,
)
from image_pipeline.components.generators.generator_worker import END, FAILED, WRONG
from image_pipeline.components.messages import describe_error

when_quiet(kill_all)  # Or a data set that waits for an item would keep the process from ending.


def from_generators(
    make: Callable[[int, int], Iterable[Any]],
    shards: int,
    output_signature: Any,
    *,
    batch_size: int | None = None,
    drop_remainder: bool = False,
    workers: int | None = None,
    timeout_s: float = 300.0,
) -> tf.data.Dataset:
    """Reads Python generators that run in several processes.

    The order is that of taking one item of each shard in turn, and depends on the number of shards
    only. Each pass over the data set starts the processes and calls `make` again; they end with the
    pass, however it ends.

    Args:
      make: called as `make(shard, shards)` in a worker, for each shard from 0 on; yields items as
        `tf.data.Dataset.from_generator` takes them. Its code is sent to the workers with what it
        refers to, as it is now; so files must be opened inside of it. Workers see no GPU.
      shards: into how many parts `make` divides the data.
      output_signature: `tf.TensorSpec`s of an item, in tuples and dicts.
      batch_size: how many items are joined into one; None for none. This costs less than `batch`.
      drop_remainder: whether a last batch of fewer is left out.
      workers: the number of processes; None for one a core.
      timeout_s: the longest wait for an item, in seconds.

    Raises:
      UserError: if an argument is wrong. While the data set is iterated, what goes wrong is a
        `tf.errors.OpError` that names the shard and the item, with the worker's traceback.
    """
    _check(shards, batch_size, workers, timeout_s)
    structure = tf.nest.map_structure(_as_leaf, output_signature)
    name = getattr(make, "__name__", repr(make))
    load, encode = _send(make, name), functools.partial(encode_structure, structure=structure)
    signature = output_signature
    if batch_size is not None:
        size = [batch_size if drop_remainder else None]
        signature = tf.nest.map_structure(
            lambda each: tf.TensorSpec(tf.TensorShape(size).concatenate(each.shape), each.dtype),
            signature,
        )

    def read() -> Iterator[Any]:
        sent = run_generators(name, load, range(shards), shards, encode, timeout_s, workers=workers)
        items = _items(sent)
        if batch_size is not None:
            items = _join_batches(items, batch_size, drop_remainder)
        for arrays in _Counted(items):
            yield tf.nest.pack_sequence_as(signature, arrays)

    return tf.data.Dataset.from_generator(read, output_signature=signature)


def _send(make: Callable[..., Any], name: str) -> Callable[[], Callable[..., Any]]:
    try:
        return send_function(make)
    except Exception as error:  # Whatever the user's function holds may raise anything.
        raise UserError(
            f"{name} cannot be sent to another process ({describe_error(error)}); open files, "
            "locks and the like inside of it, not before."
        ) from error


def _check(shards: int, batch_size: int | None, workers: int | None, timeout_s: float) -> None:
    for name, value in (("shards", shards), ("batch_size", batch_size), ("workers", workers)):
        is_number = isinstance(value, numbers.Integral) and value >= 1
        if not is_number and (value is not None or name == "shards"):
            raise UserError(f"{name} must be a whole number of 1 or more, got {value!r}.")
    if not isinstance(timeout_s, numbers.Real) or not timeout_s > 0:
        raise UserError(f"timeout_s must be a number of seconds above 0, got {timeout_s!r}.")


def _as_leaf(spec: Any) -> Leaf:
    if not isinstance(spec, tf.TensorSpec):
        raise UserError(
            f"output_signature must be tf.TensorSpecs in tuples and dicts, got {spec!r}; ragged "
            "and sparse tensors can be made by a map behind."
        )
    shape = None if spec.shape.rank is None else tuple(spec.shape.as_list())
    is_text = spec.dtype == tf.string
    return Leaf(None if is_text else np.dtype(spec.dtype.as_numpy_dtype), shape)


class _Counted:
    """An iterator that the end of the process waits for, while it is in use."""

    def __init__(self, items: Iterator[Any]):
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with count_call():
            return next(self._items)


def _items(sent: Iterator[Sent]) -> Iterator[list[np.ndarray]]:
    """The items alone; raises what became of the others."""
    for each in sent:
        place = f"shard {each.shard}, item {each.item}"
        if each.kind == WRONG:
            raise UserError(f"{place}: {each.body}.")
        if each.kind == FAILED:
            raise UserError(f"{place}: {each.body.what}\n\n{each.body.trace}")
        if each.kind != END:
            yield each.body


def _join_batches(
    items: Iterator[list[np.ndarray]], size: int, drop_remainder: bool
) -> Iterator[list[np.ndarray]]:
    while batch := list(itertools.islice(items, size)):
        if len(batch) == size or not drop_remainder:
            yield [_stack(arrays) for arrays in zip(*batch, strict=True)]


def _stack(arrays: Sequence[np.ndarray]) -> np.ndarray:
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise UserError(
            f"the items of a batch must have one shape, got {sorted(shapes)[:3]}; resize them in "
            "the generator, or leave batch_size out and use padded_batch."
        )
    return np.stack(arrays)
