"""Reading a data set of any size from a store 50 ms away that computes its bytes when it is asked.

    python -m benchmarks.endless_store [--records 1000000000] [--batches 200] [--shuffle shards]
    python -m benchmarks.endless_store --records 5000 --shard-mb 4 --caches
    python -m benchmarks.endless_store --records 8000 --beside-local [--repeats 3]
    python -m benchmarks.endless_store --records 8000 --shard-mb 16 --trainers 8

The store is a process on loopback, with S3's requests. It holds nothing but the manifest: a row of
the index, and a record with its checksums, are functions of the record's number; all records have
one JPEG of 29 kB. A trainer in a process of its own opens the data set by `batches`, and reads;
printed are its memory, the time to its first batch, and the store's requests and bytes, also when
it goes on at a later step; records are shuffled, or shards. With --caches, two epochs by 1, 2 and 8
workers, and with room for none, a tenth and all of the bytes: the same batches each time, by their
digests. With --beside-local, an epoch of the same files on the local disk, in turns: images/s, the
trainer's and the store's CPU. With --trainers, an epoch by so many processes at once, and by one:
the requests and bytes of each, and whether the parts of the many are the batches of the one.
"""

import argparse
import collections
import contextlib
import email.utils
import hashlib
import http.server
import json
import multiprocessing
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
import psutil

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index_rows import ROW, compute_checks, key_of
from image_pipeline.components.dataset.manifest import (
    FORMAT_VERSION,
    Books,
    ListedFile,
    ListedShard,
    ListedSplit,
    Manifest,
)
from image_pipeline.components.dataset.paths import INDEX, MANIFEST, ROWS, name_shard
from image_pipeline.components.dataset.tfrecord import frame
from image_pipeline.components.hashing import mix64
from image_pipeline.components.ingest.plan import shard_edges

DATA = "s3://bucket/data"
VIEW = {"height_px": 224, "width_px": 224}
SIDES = (256, 341)
BATCH_SIZE = 256


class Data:
    """A data set whose files are functions of their names."""

    def __init__(self, records: int, shard_bytes: int):
        """Draws the one image, and counts the shards that its records fill."""
        noise = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
        image = cv2.resize(noise, SIDES[::-1], interpolation=cv2.INTER_CUBIC)
        self._encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 92])[1].tobytes()
        self._encoded += b"\0" * (29_000 - len(self._encoded))  # Behind its end: all the same size.
        self._example = self._encode(0)
        self._id_at = self._example.index(self._id(np.array([0]))[0].tobytes().hex().encode())
        self.framed_bytes = len(frame(self._example))
        self.records = records
        self.shards = -(-records * self.framed_bytes // shard_bytes)
        self._edges = shard_edges(records, self.shards)
        self._names = {name_shard("train", n, self.shards): n for n in range(self.shards)}
        self._manifest = self._describe().to_bytes()

    def _id(self, rows: np.ndarray) -> np.ndarray:
        halves = [mix64(rows.astype(np.uint64) + np.uint64(2 + n)) for n in (0, 1)]
        return np.stack(halves, axis=1).astype(">u8").view(np.uint8)

    def _encode(self, row: int) -> bytes:
        texts = {key: b"" for key in (record.FILENAME, record.LABEL, record.SHA256)}
        source_id = self._id(np.array([row]))[0].tobytes().hex().encode()
        height, width = SIDES
        numbers = {record.HEIGHT: height, record.WIDTH: width, record.CHANNELS: 3}
        image = {record.FORMAT: b"jpeg", record.COLORSPACE: b"RGB", record.IMAGE: self._encoded}
        return record.encode_example({**texts, record.SOURCE_ID: source_id, **numbers, **image})

    def _describe(self) -> Manifest:
        counts = np.diff(self._edges).tolist()
        shards = [
            ListedShard(file=name, records=n, bytes=n * self.framed_bytes, sha256=self._sha256(k))
            for (name, k), n in zip(self._names.items(), counts, strict=True)
        ]
        found = {"found": self.records, "written": self.records, "duplicates": 0, "quarantined": 0}
        books = Books(
            **found, quarantine_reasons={}, conflicting_labels=0, classes={"train": {"": 1}}
        )
        all_bytes = self.records * self.framed_bytes
        split = ListedSplit(records=self.records, bytes=all_bytes, shards=shards)
        row_bytes = self.records * ROW.itemsize
        unread = ListedFile(bytes=1, sha256="0" * 64)
        listed = {INDEX: unread, ROWS: ListedFile(bytes=row_bytes, sha256="0" * 64)}
        return Manifest(
            format_version=FORMAT_VERSION,
            books=books,
            splits={"train": split},
            files=listed,
            options={},
        )

    def _sha256(self, shard: int) -> str:
        return f"{int(mix64(np.array([shard + 1], np.uint64))[0]):016x}" + "0" * 48

    @property
    def shard_names(self) -> list[str]:
        """The shards' paths below the data set's folder."""
        return list(self._names)

    def size(self, name: str) -> int | None:
        """A file's bytes; None if there is no such file."""
        if name in self._names:
            number = self._names[name]
            return int(self._edges[number + 1] - self._edges[number]) * self.framed_bytes
        sizes = {MANIFEST: len(self._manifest), INDEX: 1, ROWS: self.records * ROW.itemsize}
        return sizes.get(name)

    def read(self, name: str, start: int, end: int) -> bytes:
        """A part of a file."""
        if name == MANIFEST:
            return self._manifest[start:end]
        if name == INDEX:
            return b"\0"[start:end]
        if name == ROWS:
            first, last = start // ROW.itemsize, -(-end // ROW.itemsize)
            content = self._make_rows(np.arange(first, last)).tobytes()
            return content[start - first * ROW.itemsize : end - first * ROW.itemsize]
        first_row = int(self._edges[self._names[name]])
        first, last = start // self.framed_bytes, -(-end // self.framed_bytes)
        content = b"".join(self._frame(first_row + number) for number in range(first, last))
        return content[start - first * self.framed_bytes : end - first * self.framed_bytes]

    def _frame(self, row: int) -> bytes:
        source_id = self._id(np.array([row]))[0].tobytes().hex().encode()
        at = self._id_at
        return frame(self._example[:at] + source_id + self._example[at + len(source_id) :])

    def _make_rows(self, numbers: np.ndarray) -> np.ndarray:
        rows = np.zeros(len(numbers), ROW)
        shard = np.searchsorted(self._edges, numbers, "right") - 1
        in_shard = numbers - self._edges[shard]
        rows["offset"], rows["length"] = in_shard * self.framed_bytes, len(self._example)
        rows["image_length"], rows["channels"] = len(self._encoded), 3
        rows["height"], rows["width"] = SIDES
        rows["record_id"] = self._id(numbers)
        keys = np.array([key_of(self._sha256(int(each))) for each in shard], np.uint64)
        rows["check"] = compute_checks(rows, in_shard, keys)
        return rows


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection: each answer waits, and is counted."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    data: Data
    delay_s: float
    counts: collections.Counter
    lock = threading.Lock()

    def do_HEAD(self) -> None:
        """Says how large a file is."""
        self._answer(only_head=True)

    def do_GET(self) -> None:
        """Gives a part of a file; or, of /_counts, what was counted since the last time."""
        if self.path == "/_counts":
            with self.lock:
                body = json.dumps(self.counts).encode()
                self.counts.clear()
            return self._send(200, body, {}, len(body))
        self._answer(only_head=False)

    def _answer(self, only_head: bool) -> None:
        time.sleep(self.delay_s)
        name = self.path.removeprefix("/bucket/data/")
        size = self.data.size(name)
        if size is None:
            return self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", {}, 37)
        headers = {"ETag": '"1"', "Last-Modified": email.utils.formatdate(0, usegmt=True)}
        if only_head:
            return self._send(200, b"", headers, size)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "bytes=0-"))
        assert wanted is not None
        start, end = int(wanted[1]), min(int(wanted[2] or size - 1) + 1, size)
        body = self.data.read(name, start, end)
        kind = "rows" if name == ROWS else "records" if name.startswith("Split-") else "others"
        with self.lock:
            self.counts.update({f"{kind}: requests": 1, f"{kind}: bytes": len(body)})
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self._send(206, body, headers, len(body))

    def _send(self, status: int, body: bytes, headers: dict[str, str], size: int) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(size)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Says nothing."""


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


def _serve(records: int, shard_bytes: int, delay_s: float, pipe: Any) -> None:
    Handler.data, Handler.delay_s = Data(records, shard_bytes), delay_s
    Handler.counts = collections.Counter()
    server = _Server(("127.0.0.1", 0), Handler)
    pipe.send((server.server_address[1], Handler.data.shards))
    server.serve_forever()


@contextlib.contextmanager
def run_store(records: int, shard_bytes: int, delay_s: float) -> Iterator[tuple[str, int]]:
    """Runs the store while the block does: its address, its shards."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_serve, args=(records, shard_bytes, delay_s, theirs), daemon=True
    )
    process.start()
    port, shards = ours.recv()
    address = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "anyone", "AWS_SECRET_ACCESS_KEY": "anything"}
    os.environ.update({"AWS_ENDPOINT_URL": address, "NO_GCE_CHECK": "true", **keys})
    try:
        yield address, shards
    finally:
        process.terminate()


def take_counts(address: str) -> dict[str, int]:
    """Requests and bytes since the last call."""
    import urllib.request

    with urllib.request.urlopen(f"{address}/_counts") as answer:
        return json.load(answer)


def _measure(pipe: Any, data: str, options: dict[str, Any], count: int) -> None:
    """In a process of its own: opens the data set, and reads so many batches."""
    from image_pipeline import api
    from image_pipeline.components import files
    from image_pipeline.components.feeding import batches as _libraries  # noqa: F401

    asked: list[int] = []
    read_file = files.read_file

    def count_bytes(path: str, *span: int) -> bytes:
        content = read_file(path, *span)
        if "/Split-" in path:
            asked.append(len(content))
        return content

    files.read_file = count_bytes
    process = psutil.Process()
    before, started, cpu = process.memory_info().rss, time.monotonic(), time.process_time()
    opened = api.batches(data, view=VIEW, hold_decoded=False, **options)
    open_s = time.monotonic() - started
    digests, first_s, rest_cpu = [], None, 0.0
    for number, batch in enumerate(opened):
        if first_s is None:
            first_s, rest_cpu = time.monotonic() - started, time.process_time()
        digests.append(
            b"".join(
                hashlib.sha256(image.tobytes() + key.tobytes()).digest()
                for image, key in zip(batch["image"], batch["key"], strict=True)
            )
        )
        if number + 1 == count:
            break
    pipe.send(
        {
            "open_s": open_s,
            "first_s": first_s,
            "wall_s": time.monotonic() - started,
            "cpu_s": time.process_time() - cpu,
            "rest_cpu_s": time.process_time() - rest_cpu,
            "before_mb": before / 1e6,
            "resident_mb": process.memory_info().rss / 1e6,
            "digests": digests,
            "requests": len(asked),
            "bytes": sum(asked),
        }
    )


def measure(options: dict[str, Any], count: int, data: str = DATA) -> dict[str, Any]:
    """What a trainer measures that reads so many batches with these options."""
    return measure_all([options], count, data)[0]


def measure_all(
    options: Sequence[dict[str, Any]], count: int, data: str = DATA
) -> list[dict[str, Any]]:
    """What trainers measure that read so many batches at once, each with its options."""
    context = multiprocessing.get_context("spawn")
    trainers = []
    for own in options:
        ours, theirs = context.Pipe()
        process = context.Process(target=_measure, args=(theirs, data, own, count))
        process.start()
        theirs.close()  # So that a trainer that fails is not waited for.
        trainers.append((process, ours))
    found = [ours.recv() for _, ours in trainers]
    for process, _ in trainers:
        process.join()
    return found


def _print_counts(counts: dict[str, int]) -> None:
    text = ", ".join(f"{name} {value:,}" for name, value in sorted(counts.items()))
    print(f"    {text}")


def read_large(address: str, batches: int, last_step: int, shuffle: str) -> None:
    """Reads some batches from the beginning, and goes on at a later step."""
    for step, count in ((0, batches), (last_step, 10)):
        augment = ["random_resized_crop", "flip_horizontal"]
        options = {"batch_size": BATCH_SIZE, "augment": augment, "first_step": step}
        options["shuffle"] = shuffle
        found = measure(options, count)
        print(
            f"from step {step:,}, {count} batches of {BATCH_SIZE}: opened after "
            f"{found['open_s']:.1f} s, the first batch after {found['first_s']:.1f} s, all after "
            f"{found['wall_s']:.1f} s, {found['cpu_s']:.1f} s of CPU; "
            f"{found['resident_mb']:,.0f} MB resident, {found['before_mb']:,.0f} MB before"
        )
        _print_counts(take_counts(address))


def compare_caches(address: str, records: int, shuffle: str) -> None:
    """Two epochs of all records, by several workers and with several caches."""
    batch_size, digests = 64, set()
    all_bytes = records * 29_400
    for workers, share in ((1, 0.0), (2, 0.0), (8, 0.0), (1, 0.1), (2, 0.1), (1, 1.01)):
        with tempfile.TemporaryDirectory() as folder:
            for epoch in (0, 1):
                read = [
                    measure(
                        {
                            "batch_size": batch_size,
                            "augment": ["flip_horizontal"],
                            "shuffle": shuffle,
                            "remainder": "drop",
                            "first_epoch": epoch,
                            "cache_bytes": int(share * all_bytes),
                            "cache_dir": folder,
                            "worker": worker,
                            "workers": workers,
                        },
                        records // batch_size,
                    )["digests"]
                    for worker in range(workers)
                ]
                if workers == 1:
                    digests.add((epoch, hashlib.sha256(b"".join(read[0])).hexdigest()))
                counts = take_counts(address)
                print(
                    f"workers {workers}, cache {share:.0%}, epoch {epoch}: "
                    f"{counts.get('records: requests', 0):,} requests, "
                    f"{counts.get('records: bytes', 0) / 1e6:,.1f} MB of records"
                )
    print(f"different epochs of one worker by digest: {len(digests)}, of 2")


def read_in_parts(address: str, records: int, trainers: int, shuffle: str) -> None:
    """An epoch by one trainer, and by several at once, each of which reads its part."""
    batch_size = 64
    steps, all_bytes = records // batch_size, records * Data(1, 1).framed_bytes
    options = {"batch_size": batch_size, "augment": ["flip_horizontal"], "remainder": "drop"}
    options["shuffle"] = shuffle
    digests = []
    for workers in (1, trainers):
        each = [options | {"worker": worker, "workers": workers} for worker in range(workers)]
        found = measure_all(each, steps)
        parts = zip(*(own["digests"] for own in found), strict=True)
        digests.append(hashlib.sha256(b"".join(map(b"".join, parts))).hexdigest())
        requests, sizes = [[own[name] for own in found] for name in ("requests", "bytes")]
        print(
            f"shuffle {shuffle}, trainers {workers}: {min(requests):,} to {max(requests):,} "
            f"requests each, {sum(requests):,} in all; {min(sizes) / 1e6:,.1f} to "
            f"{max(sizes) / 1e6:,.1f} MB each, {max(sizes) / all_bytes:.4f} of all at most (1 / "
            f"{workers} is {1 / workers:.4f}), {sum(sizes) / all_bytes:.4f} together"
        )
        _print_counts(take_counts(address))
    print(f"the same batches: {digests[0] == digests[1]}")


def read_beside_local(records: int, shard_bytes: int, repeats: int, store: psutil.Process) -> None:
    """An epoch from the store, and from a copy of its files on the disk, in turns."""
    batch_size, made = 64, Data(records, shard_bytes)
    options = {"batch_size": batch_size, "augment": ["random_resized_crop", "flip_horizontal"]}
    steps = records // batch_size
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "Split-train"))
        for name in (MANIFEST, INDEX, ROWS, *made.shard_names):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(made.read(name, 0, made.size(name) or 0))
        found: dict[str, list[tuple[float, float, float, str]]] = {"local": [], "store": []}
        for _ in range(repeats):
            for place, data in (("local", folder), ("store", DATA)):
                before = sum(store.cpu_times()[:2])
                each = measure(options, steps, data)
                store_s = sum(store.cpu_times()[:2]) - before
                rest_s = each["wall_s"] - each["first_s"]
                digest = hashlib.sha256(b"".join(each["digests"])).hexdigest()
                found[place].append((rest_s, each["rest_cpu_s"], store_s, digest))
    images = (steps - 1) * batch_size
    middle = {place: np.median([each[:3] for each in own], axis=0) for place, own in found.items()}
    for place, (rest_s, cpu_s, store_s) in middle.items():
        print(
            f"{place}: {images / rest_s:,.0f} images/s, {1e3 * cpu_s / images:.3f} ms of CPU an "
            f"image; {1e3 * store_s / images:.3f} ms of the store"
        )
    (local_s, local_cpu, _), (store_wall, store_cpu, served) = middle.values()
    cores = len(os.sched_getaffinity(0))
    transport_s = (store_cpu - local_cpu + served) / cores
    print(
        f"store / local: {local_s / store_wall:.2f}; less the transport's CPU "
        f"{local_s / (store_wall - transport_s):.2f} (goal: 0.80 or more)"
    )
    print(f"different digests: {len({each[3] for own in found.values() for each in own})}")


def main() -> None:
    """Runs the store, and reads from it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10**9)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--delay-ms", type=float, default=50)
    parser.add_argument("--shard-mb", type=float, default=128)
    parser.add_argument("--caches", action="store_true")
    parser.add_argument("--beside-local", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--trainers", type=int)
    parser.add_argument("--shuffle", choices=["records", "shards"], default="records")
    arguments = parser.parse_args()
    shard_bytes = int(arguments.shard_mb * 1e6)
    with run_store(arguments.records, shard_bytes, arguments.delay_ms / 1000) as (address, shards):
        print(f"{arguments.records:,} records in {shards:,} shards, {arguments.delay_ms:g} ms away")
        if arguments.beside_local:
            (store,) = [
                each
                for each in psutil.Process().children()
                if any("spawn_main" in part for part in each.cmdline())
            ]
            read_beside_local(arguments.records, shard_bytes, arguments.repeats, store)
        elif arguments.caches:
            compare_caches(address, arguments.records, arguments.shuffle)
        elif arguments.trainers:
            read_in_parts(address, arguments.records, arguments.trainers, arguments.shuffle)
        else:
            last = min(10**6, arguments.records // BATCH_SIZE - 11)
            read_large(address, arguments.batches, last, arguments.shuffle)


if __name__ == "__main__":
    main()
