"""The data service on loopback: each record once an epoch, the same pixels, and no waiting."""

import collections
import socket

import pytest
import tensorflow as tf

from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import input_fn, service
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions

pytestmark = [pytest.mark.beam, pytest.mark.wide]

VIEW = ViewOptions(height_px=8, width_px=8)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """The dispatchers are in this process, and may have to wait for a busy machine."""
    monkeypatch.setattr(service, "TIMEOUT_S", 120)


def _free_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def address():
    """A dispatcher's, with two workers."""
    served = tf.data.experimental.service
    workers = [f"localhost:{_free_port()}" for _ in range(2)]
    dispatcher = served.DispatchServer(served.DispatcherConfig(worker_addresses=workers))
    started = [
        served.WorkerServer(
            served.WorkerConfig(
                dispatcher_address=dispatcher.target.removeprefix("grpc://"),
                worker_address=worker,
                port=int(worker.rpartition(":")[2]),
            )
        )
        for worker in workers
    ]
    yield dispatcher.target
    del started


def read(paths, mode="train", feeding=None, **arguments):
    """The batches, each a list of (pixels as bytes, label)."""
    options = {"batch_size": 4, **(feeding or {})}
    batches = input_fn.input_fn(
        paths,
        view=VIEW,
        feeding=FeedingOptions(**options),
        transform_graph_dir=None,
        mode=mode,
        **arguments,
    )
    return [
        [(image.tobytes(), label) for image, label in zip(images, labels, strict=True)]
        for images, labels in batches.as_numpy_iterator()
    ]


def count(batches):
    return collections.Counter(image for batch in batches for image in batch)


def test_each_record_comes_once_an_epoch_with_the_pixels_of_streaming(train_shards, address):
    # Random crops are resized by other libraries there and here: see `served_images`.
    plain = {"augment": ["flip_horizontal"]}
    served = read(train_shards, feeding=plain | {"data_service": address}, seed=3, epochs=2)
    streamed = read(train_shards, feeding=plain | {"source": "streaming"}, seed=3, epochs=2)
    steps = -(-len(read_index(train_shards)) // 4)
    assert [len(batch) for batch in served] == [len(batch) for batch in streamed]
    for epoch in (slice(0, steps), slice(steps, None)):
        expected = count(streamed[epoch])
        assert count(served[epoch]) == expected
        assert len(expected) == len(read_index(train_shards))


def test_both_workers_take_part_of_an_epoch(address):
    def read_share(epoch, share):
        return tf.data.Dataset.range(10).shard(share[1], share[0]).map(lambda n: (n, share[0]))

    read_epoch = service.serve(address, read_share, 2)
    images = list(read_epoch(tf.constant(0, tf.int64)).as_numpy_iterator())
    assert sorted(number for number, _ in images) == list(range(10))
    assert all(number % 2 == share for number, share in images)


def test_training_workers_share_what_the_service_reads(train_shards, address):
    plain = {"augment": ["flip_horizontal"]}
    options = plain | {"data_service": address, "remainder": "drop"}
    shares = [read(train_shards, feeding=options, worker=worker, workers=2) for worker in range(2)]
    alone = read(train_shards, feeding=plain | {"source": "streaming", "remainder": "drop"})
    assert count(shares[0] + shares[1]) == count(alone)
    assert [len(batch) for batch in shares[0]] == [2] * len(alone)


def test_going_on_in_the_middle_of_an_epoch_reads_as_many_as_are_left(train_shards, address):
    options = {"data_service": address}
    whole, rest = (read(train_shards, feeding=options, first_step=step) for step in (0, 3))
    assert sum(count(rest).values()) == sum(count(whole).values()) - 3 * 4
    assert count(rest) <= count(whole)


def test_a_step_beyond_the_epoch_is_refused(train_shards, address):
    records = sum(count(read(train_shards, feeding={"data_service": address})).values())
    options, last = {"data_service": address}, (records - 1) // 4
    assert read(train_shards, feeding=options, first_step=last)
    with pytest.raises(UserError, match=rf"at first_step={last + 1}, but .* hold {records}, "):
        read(train_shards, feeding=options, first_step=last + 1)


def test_evaluation_is_read_here_and_in_order(train_shards):
    unreachable = {"data_service": "grpc://localhost:1"}
    assert read(train_shards, "eval", feeding=unreachable) == read(train_shards, "eval")


def test_no_dispatcher_is_an_error_and_not_a_long_wait(monkeypatch, train_shards):
    monkeypatch.setattr(service, "TIMEOUT_S", 0.5)
    nowhere = f"grpc://localhost:{_free_port()}"
    with pytest.raises(UserError, match=rf"none answered at {nowhere} within 0.5 s .*; start it"):
        read(train_shards, feeding={"data_service": nowhere})


def test_a_server_that_is_silent_or_another_is_an_error():
    with socket.socket() as silent:
        silent.bind(("localhost", 0))
        silent.listen()
        with pytest.raises(UserError, match=r"none answered at .*\(DEADLINE_EXCEEDED\)"):
            service.check_service(f"grpc://localhost:{silent.getsockname()[1]}", timeout_s=0.5)


def test_a_worker_s_address_is_not_a_dispatcher_s():
    served = tf.data.experimental.service
    dispatcher = served.DispatchServer()
    worker = served.WorkerServer(
        served.WorkerConfig(dispatcher_address=dispatcher.target.removeprefix("grpc://"))
    )
    with pytest.raises(UserError, match=r"none answered at .*\(UNIMPLEMENTED\)"):
        service.check_service(f"grpc://{worker._address}", timeout_s=60)


def test_a_dispatcher_without_workers_is_an_error():
    dispatcher = tf.data.experimental.service.DispatchServer()
    with pytest.raises(UserError, match=r"none has joined .* within 15 s; start those in its"):
        service.check_service(dispatcher.target, timeout_s=15)


@pytest.mark.parametrize(
    ("options", "needing"),
    [
        ({"source": "indexed"}, "source=indexed"),
        ({"balance": "uniform"}, "balance"),
        ({"remainder": "pad"}, "remainder=pad"),
    ],
)
def test_options_that_need_the_index_are_refused(options, needing):
    message = rf"data_service streams, but \['{needing}'\] need the index; leave out one"
    with pytest.raises(ValueError, match=message):
        FeedingOptions(data_service="grpc://localhost:5000", **options)


def test_an_address_without_protocol_or_port_is_refused():
    for wrong in ("localhost:5000", "grpc://localhost", "grpc://:5000"):
        with pytest.raises(ValueError, match=f"must be grpc://<host>:<port>, got '{wrong}'"):
            FeedingOptions(data_service=wrong)
