"""Records decoded and augmented on the workers of a tf.data service, not by the trainer.

Each epoch is a separate job that the workers share by static sharding: every worker reads all
records in the streamed order, and record n is decoded by worker n modulo their number. So each
record comes exactly once per epoch, and a worker that is asked again never sends one twice.

What this does not guarantee, unlike streaming without a service:
  - the order depends on how fast the workers are, as their images interleave as they arrive; the
    records of an epoch and their pixels do not;
  - a run that resumes within an epoch leaves out those records that would have come first had the
    workers been equally fast, so near that place some may come twice or not at all;
  - an epoch waits for a worker that is lost for good, which still owes its share.

The workers need TensorFlow (the trainer's version) and nothing of this package, must read the
shards under the same paths, and must be listed in the dispatcher's `worker_addresses`, as static
sharding requires.
"""

import time
from collections.abc import Callable

import grpc
import tensorflow as tf

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.python_calls import call_python

# How long the dispatcher may take to answer, and to have a worker.
TIMEOUT_S = 10.0
_PROTOCOL = "grpc://"
# Without a message's type its bytes are passed through: the request is empty, and so is the
# answer if there are no workers (tensorflow/core/data/service/dispatcher.proto).
_GET_WORKERS = "/tensorflow.data.DispatcherService/GetWorkers"

# Number of a share, from 0, and how many there are: both int64 scalars.
Share = tuple[tf.Tensor | int, tf.Tensor | int]
ReadShare = Callable[[tf.Tensor, Share], tf.data.Dataset]


def serve(
    address: str, read_share: ReadShare, batch_size: int
) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """Moves the making of a data set to the workers of a tf.data service.

    Args:
      address: the dispatcher's, `grpc://host:port`.
      read_share: gives a share of an epoch (int64 scalar). Without state of its own, and without
        calls back into Python.
      batch_size: elements per message from a worker, since each message costs time.

    Returns:
      A function that returns the elements of all shares of an epoch, as they arrive.

    Raises:
      UserError: if there is no dispatcher at the address, or it has no worker.
    """
    check_service(address, TIMEOUT_S)

    def register(epoch: int) -> bytes:
        # A registered data set takes no arguments, so there is one for each epoch.
        batches = _read_own_share(read_share, int(epoch), batch_size)
        return tf.data.experimental.service.register_dataset(address, batches).numpy()

    spec = _read_own_share(read_share, 0, batch_size).element_spec

    def read_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        (dataset_id,) = call_python(lambda epoch: [register(epoch)], [epoch], [tf.string])
        dataset_id.set_shape([])
        hint = tf.data.experimental.service.ShardingPolicy.HINT
        return tf.data.experimental.service.from_dataset_id(
            hint, address, dataset_id, element_spec=spec
        ).unbatch()

    return read_epoch


def _read_own_share(read_share: ReadShare, epoch: int, batch_size: int) -> tf.data.Dataset:
    """The data set as each worker runs it.

    A worker learns its number and their count by what `SHARD_HINT` leaves it of the natural numbers
    (number, number + count, …). The service replaces the hint at the top level of a data set only,
    not within functions such as `read_share`.
    """
    hint = tf.data.experimental.SHARD_HINT
    own = tf.data.Dataset.range(2**62).shard(hint, hint).take(2).batch(2, drop_remainder=True)
    number = tf.constant(epoch, tf.int64)
    return own.flat_map(lambda two: read_share(number, (two[0], two[1] - two[0])).batch(batch_size))


def check_service(address: str, timeout_s: float) -> None:
    """Waits for a dispatcher that has a worker: TensorFlow itself would wait forever.

    Args:
      address: `grpc://host:port`.
      timeout_s: how long to wait.

    Raises:
      UserError: if none answers in that time, or it has no worker by then.
    """
    deadline = time.monotonic() + timeout_s
    with grpc.insecure_channel(address.removeprefix(_PROTOCOL)) as channel:
        get_workers = channel.unary_unary(_GET_WORKERS)
        while True:
            try:
                has_worker = bool(get_workers(b"", timeout=timeout_s, wait_for_ready=True))
            except grpc.RpcError as error:
                raise UserError(
                    f"feeding.data_service must be the address of a tf.data service dispatcher, "
                    f"but none answered at {address} within {timeout_s:g} s "
                    f"({error.code().name}); start it, correct the address, or leave it out."
                ) from error
            if has_worker:
                return
            if time.monotonic() > deadline:
                raise UserError(
                    f"feeding.data_service must have a worker, but none has joined the dispatcher "
                    f"at {address} within {timeout_s:g} s; start those in its worker_addresses."
                )
            time.sleep(min(0.2, timeout_s))
