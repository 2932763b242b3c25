"""Runs Python generators in processes of their own, and takes their items in one order."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cloudpickle

from image_pipeline.components.generators.generator_process import GeneratorProcess, Sent
from image_pipeline.components.generators.generator_worker import END, FAILED, Work
from image_pipeline.components.threads import usable_cores


def run_generators(
    name: str,
    load: Callable[[], Callable[[int, int], Any]],
    shards: Sequence[int],
    of: int,
    encode: Callable[[Any], Any],
    timeout_s: float,
    *,
    workers: int | None = None,
    most_items: int | None = None,
) -> Iterator[Sent]:
    """Runs the generators of some shards, as many at a time as there are cores.

    Their items are taken in turn, one of each shard, until each has ended. So the order depends on
    the shards only. When the iterator is closed or forgotten, the processes are ended.

    Args:
      name: what the generators are called in messages.
      load: see `Work`; so are `of`, `encode` and `most_items`.
      shards: their numbers.
      timeout_s: the longest wait for an item.
      workers: the number of processes; None for one a core.

    Yields:
      Items, and how each shard ended.

    Raises:
      UserError: if a worker cannot start, dies, or does not answer in time.
    """
    count = min(workers or usable_cores(), len(shards))
    pool: list[GeneratorProcess] = []
    try:
        for number in range(count):
            own = tuple(shards[number::count])
            work = cloudpickle.dumps(Work(load, own, of, encode, most_items), 5)
            pool.append(GeneratorProcess(name, work))
        turns = {shard: pool[number % count] for number, shard in enumerate(shards)}
        taken = dict.fromkeys(shards, 0)
        while turns:
            for shard, worker in list(turns.items()):
                sent = worker.receive(shard, taken[shard], timeout_s)
                if sent.kind in (END, FAILED):
                    del turns[shard]
                taken[shard] += 1
                yield sent
    finally:
        _stop(pool)


def _stop(workers: Sequence[GeneratorProcess]) -> None:
    for worker in workers:
        worker.hang_up()
    for worker in workers:
        worker.end()
