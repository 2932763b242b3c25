"""What an ingest would store, need and take, from a sample of the files; and one without Beam.

The folder is listed once. The sample is random, stratified by size (each group's file sizes are
within a factor of two), and prepared exactly as ingest would, in every encoding. A group's mean
times its number of files is an unbiased estimate, and a precise one, since what is stored depends
on the file's size.
"""

import collections
import dataclasses
import functools
import itertools
import math
import random
import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import get_args

import numpy as np

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.tfrecord import frame
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.prepare import Encoding
from image_pipeline.components.ingest.find_depth import complete_depth, count_levels
from image_pipeline.components.ingest.partition import judge_rows
from image_pipeline.components.ingest.placed_rows import SourceRows
from image_pipeline.components.ingest.plan import PLAN_BYTES, count_shards
from image_pipeline.components.ingest.prepare_chunk import count_threads, prepare_source
from image_pipeline.components.ingest.prepared import count_unusable, write_rows
from image_pipeline.components.ingest.shards import record_values
from image_pipeline.components.ingest.work_folder import PreparedChunk, WorkFolder
from image_pipeline.components.labels.boxes import CLIPPED, say_cut
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.meaning.path_patterns import label_of, split_of
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.sources.source_kinds import kind_of
from image_pipeline.components.threads import map_in_order

# A record's rows and index in the working folder, and the CPU time of Beam, the plan and the index,
# none of which a sample shows. Measured on 50,000 CIFAR-10 images.
_ROW_BYTES = 600
_ROW_SECONDS = 60e-6
# Time that Beam takes to start.
_START_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class Forecast:
    """An ingest's estimates. Byte-identical files are counted as often as they occur.

    Attributes:
      found: number of files.
      source_bytes: size of all files.
      classes: number of files of each class, by their paths.
      sampled: how many were prepared.
      bad_fraction: share of the files that will be quarantined, of those that are not skipped.
      bad_reasons: for each reason how many of the sampled files, and one of them.
      skipped_kinds: the same of the files that are not images, so that ingest leaves them out.
      records: how many will be written.
      stored_bytes: size of all shards together, for each encoding.
      error_fraction: relative error of the configured encoding's stored bytes; 19 in 20 forecasts
        are closer.
      encoding: the configured one.
      shards: number for each split, at the configured encoding.
      seconds: duration on this machine.
      cpu_seconds: CPU time, of all its cores together.
      serial_seconds: the part of it that one process does alone: the plan and the index.
      peak_disk_bytes: disk space while it runs, at the configured encoding: prepared images and
        shards.
      memory_bytes: memory of the process that plans, which needs the most.
      understood: what was inferred of what the source means, a sentence each.
      noticed: what is worth a look, a sentence each.
    """

    found: int
    source_bytes: int
    classes: dict[str, int]
    sampled: int
    bad_fraction: float
    bad_reasons: dict[str, dict]
    skipped_kinds: dict[str, dict]
    records: int
    stored_bytes: dict[str, int]
    error_fraction: float
    encoding: str
    shards: dict[str, int]
    seconds: float
    cpu_seconds: float
    serial_seconds: float
    peak_disk_bytes: int
    memory_bytes: int
    understood: tuple[str, ...] = ()
    noticed: tuple[str, ...] = ()

    def cluster_seconds(self, cores: int) -> float:
        """The duration on this many cores like this machine's, once all of them work.

        Files are prepared and shards written in parallel, if there are many more chunks of files
        than cores; threads hide the latency of remote files, and need no cores while they wait.
        """
        parallel_seconds = self.cpu_seconds - self.serial_seconds
        return _START_SECONDS + self.serial_seconds + parallel_seconds / cores


@dataclasses.dataclass
class Stratum:
    """Files of similar size, and a random sample of them."""

    files: int = 0
    bytes: int = 0
    sample: list[ImageRef] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Census:
    """What the listing says about all files."""

    classes: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    forced_splits: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    strata: dict[int, Stratum] = dataclasses.field(default_factory=dict)

    @property
    def files(self) -> int:
        """All of them."""
        return sum(stratum.files for stratum in self.strata.values())

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(stratum.bytes for stratum in self.strata.values())

    def scale(self, factor: float) -> None:
        """Lets every file stand for so many, where only some of all files were listed."""
        for counts in (self.classes, self.forced_splits):
            for name in counts:
                counts[name] = round(counts[name] * factor)
        for stratum in self.strata.values():
            stratum.files = round(stratum.files * factor)
            stratum.bytes = round(stratum.bytes * factor)


@dataclasses.dataclass(frozen=True, slots=True)
class Sampled:
    """A file of the sample, the number of its group, and how many files it stands for."""

    ref: ImageRef
    stratum: int
    weight: float


@dataclasses.dataclass(frozen=True, slots=True)
class _Trial:
    """One sampled file, prepared as ingest would."""

    sampled: Sampled
    record_bytes: int  # 0 if it is bad
    payload_bytes: int
    prepare_seconds: float  # of CPU time
    write_seconds: float
    reason: str | None  # why it is bad or skipped, or None
    message: str | None
    is_skipped: bool
    notes: tuple[str, ...]

    @property
    def is_bad(self) -> bool:
        return self.reason is not None and not self.is_skipped


def forecast_ingest(
    images_dir: str, options: IngestOptions, sample_size: int = 200, seed: int = 0
) -> Forecast:
    """Forecasts an ingest.

    Args:
      images_dir: the folder of images, or its URI.
      sample_size: about how many files to prepare; at least two of each group are.
      seed: chooses the sample.

    Returns:
      The forecast.

    Raises:
      UserError: if the folder is missing or empty, or it is a generator.
    """
    if not kind_of(images_dir).lists_images:
        raise UserError(
            f"How many images {images_dir} makes is only known once it has run, so nothing is "
            "forecast; ingest it, or save some of its images to a folder and plan with that."
        )
    listing, encodings = list_images(images_dir, options), get_args(Encoding)
    forecast = forecast_files(
        listing.source, listing.refs(), listing.options, sample_size, seed, encodings
    )
    return dataclasses.replace(
        forecast,
        understood=listing.options.understood,
        noticed=(*listing.noticed, *forecast.noticed),
    )


def forecast_files(
    source: Source,
    refs: Iterable[ImageRef],
    options: IngestOptions,
    sample_size: int,
    seed: int = 0,
    encodings: Sequence[str] = (),
    each_stands_for: float = 1,
) -> Forecast:
    """Forecasts an ingest of files that are listed already.

    Args:
      source: of the files.
      refs: all files, or some of them.
      options: of the ingest, complete.
      sample_size: about how many files to prepare; at least two of each group are.
      seed: chooses the sample.
      encodings: for which the stored bytes are forecast, beside the configured one.
      each_stands_for: number of files for each of `refs`.

    Returns:
      The forecast.

    Raises:
      UserError: if there are no files.
    """
    census = take_census(refs, options, sample_size, seed)
    if not census.strata:
        raise UserError(
            f"The images folder {source.root!r} holds no files; give a folder that holds images."
        )
    census.scale(each_stands_for)
    sample = draw_sample(census, sample_size)
    if options.prepare.depth.must_be_found:  # Of the sample, which is near enough for sizes.
        with tempfile.TemporaryDirectory() as folder:
            work = WorkFolder(folder)
            counted = count_levels((each.ref for each in sample), source, work, options)
        options = complete_depth(counted, options)
    trials, parallelism = _run_trials(sample, source, options)
    stored_bytes = {}
    for encoding in encodings or (options.prepare.encoding,):
        prepare = options.prepare.model_copy(update={"encoding": encoding})
        update = {"prepare": prepare, "near_duplicates": None, "in_place": False}
        other = options.model_copy(update=update)
        is_configured = encoding == options.prepare.encoding
        same = trials if is_configured else _run_trials(sample, source, other)[0]
        stored_bytes[encoding] = round(sum(t.sampled.weight * t.record_bytes for t in same))
    return _extrapolate(census, trials, stored_bytes, parallelism, options)


def take_census(
    refs: Iterable[ImageRef], options: IngestOptions, sample_size: int, seed: int
) -> Census:
    """Counts the files, and draws from every size group as many as could be needed.

    Each group keeps a reservoir (Vitter 1985, algorithm R), so no list of all files is held.
    """
    census, generator = Census(), random.Random(seed)
    for ref in refs:
        if (label := label_of(ref, options)) is not None:
            census.classes[label] += 1
        if split := split_of(ref, options):
            census.forced_splits[split] += 1
        stratum = census.strata.setdefault(ref.size_bytes.bit_length(), Stratum())
        stratum.files += 1
        stratum.bytes += ref.size_bytes
        if len(stratum.sample) < max(2, sample_size):
            stratum.sample.append(ref)
        elif (index := generator.randrange(stratum.files)) < len(stratum.sample):
            stratum.sample[index] = ref
    for stratum in census.strata.values():
        generator.shuffle(stratum.sample)  # So that its first files are a sample, too.
    return census


def draw_sample(census: Census, sample_size: int) -> list[Sampled]:
    """Chooses the files: a group gets its share of the files and of the bytes, half and half."""
    shares = {
        number: stratum.files / census.files + stratum.bytes / max(1, census.bytes)
        for number, stratum in census.strata.items()
    }
    sample: list[Sampled] = []
    left, shares_left = sample_size, sum(shares.values())
    # Groups with fewer files than their share come first, and leave the rest to the others.
    for number in sorted(shares, key=lambda number: census.strata[number].files / shares[number]):
        stratum = census.strata[number]
        chosen = stratum.sample[: max(2, round(left * shares[number] / shares_left))]
        left, shares_left = left - len(chosen), shares_left - shares[number]
        sample += [Sampled(ref, number, stratum.files / len(chosen)) for ref in chosen]
    return sample


def _run_trials(
    sample: list[Sampled], source: Source, options: IngestOptions
) -> tuple[list[_Trial], float]:
    """Prepares the sample; measures the thread pool's CPU seconds per second, too.

    Those are fewer than the cores where images are small (threads wait for Python's lock) or where
    the disk is slow.
    """
    with tempfile.TemporaryDirectory() as folder:  # for copies of bad files
        work = WorkFolder(folder)
        run = functools.partial(_run_trial, source=source, work=work, options=options)
        run(sample[0])  # The first image pays for what is loaded once.
        started = time.monotonic()
        trials = list(map_in_order(run, sample, count_threads(source, options)))
        wall_seconds = time.monotonic() - started
    cpu_seconds = sum(trial.prepare_seconds + trial.write_seconds for trial in trials)
    return trials, max(cpu_seconds, 1e-9) / wall_seconds


def _run_trial(
    sampled: Sampled, source: Source, work: WorkFolder, options: IngestOptions
) -> _Trial:
    started = time.thread_time()
    row, payload = prepare_source(sampled.ref, source, work, options)
    prepared = time.thread_time()
    reason, size_bytes = row.get("reason"), 0
    if reason is None:  # The record with the framing of tf.train.Example and TFRecord.
        further = record.further_columns(options.column_types)
        # A class's number is not known yet, and takes a byte up to 127.
        class_ids = {row["label"]: 0} if options.class_ids else None
        values = record_values(row, payload, further, class_ids)
        size_bytes = len(frame(record.encode_example(values, options.record_columns)))
    seconds = (prepared - started, time.thread_time() - prepared)
    message, is_skipped = row.get("message"), "is_skipped" in row
    notes = tuple(row.get("notes") or ())
    return _Trial(sampled, size_bytes, len(payload), *seconds, reason, message, is_skipped, notes)


def _extrapolate(
    census: Census,
    trials: list[_Trial],
    stored_bytes: dict[str, int],
    parallelism: float,
    options: IngestOptions,
) -> Forecast:
    def total(values: Iterable[float]) -> float:
        return sum(t.sampled.weight * value for t, value in zip(trials, values, strict=True))

    encoding, found = options.prepare.encoding, census.files
    cut = sum(any(note.startswith(f"{CLIPPED}:") for note in trial.notes) for trial in trials)
    bad = total(trial.is_bad for trial in trials)
    skipped = total(trial.is_skipped for trial in trials)
    records = round(found - skipped - bad)
    payload_bytes = total(trial.payload_bytes for trial in trials)
    prepare_seconds = total(trial.prepare_seconds for trial in trials)
    serial_seconds = found * _ROW_SECONDS
    write_seconds = total(trial.write_seconds for trial in trials) + serial_seconds
    # Half the width in bytes of a 95 % interval: stratified sampling (Cochran 1977, 5.6).
    variance = 0.0
    for _, group in itertools.groupby(trials, key=lambda trial: trial.sampled.stratum):
        done = list(group)
        files = done[0].sampled.weight * len(done)
        if len(done) > 1:
            spread = float(np.var([trial.record_bytes for trial in done], ddof=1))
            variance += files**2 * (1 - len(done) / files) * spread / len(done)
    # A split has its share of the files whose path names no split, and its own.
    free = found - sum(census.forced_splits[split] for split in options.splits)
    shards = {}
    for split, share in options.splits.items():
        part = (free * share + census.forced_splits[split]) / found
        sizes = round(part * payload_bytes), round(part * records)
        shards[split] = count_shards(*sizes, options.shard_bytes, options.shards)
    return Forecast(
        found=found,
        source_bytes=census.bytes,
        classes=dict(sorted(census.classes.items())),
        sampled=len(trials),
        bad_fraction=bad / max(1, found - skipped),
        bad_reasons=_count_reasons(trial for trial in trials if trial.is_bad),
        skipped_kinds=_count_reasons(trial for trial in trials if trial.is_skipped),
        records=records,
        stored_bytes=stored_bytes,
        error_fraction=1.96 * math.sqrt(variance) / max(1, stored_bytes[encoding]),
        encoding=encoding,
        shards=shards,
        seconds=round(_START_SECONDS + prepare_seconds / parallelism + write_seconds, 1),
        cpu_seconds=round(prepare_seconds + write_seconds, 1),
        serial_seconds=round(serial_seconds, 1),
        peak_disk_bytes=round(payload_bytes + stored_bytes[encoding] + found * _ROW_BYTES),
        memory_bytes=PLAN_BYTES,
        noticed=tuple(filter(None, [say_cut(cut, sum(not trial.reason for trial in trials))])),
    )


def _count_reasons(trials: Iterable[_Trial]) -> dict[str, dict]:
    """The most frequent first."""
    reasons: dict[str, dict] = {}
    for trial in trials:
        if trial.reason is not None:
            example = {"sampled": 0, "path": trial.sampled.ref.path, "message": trial.message}
            reasons.setdefault(trial.reason, example)["sampled"] += 1
    return dict(sorted(reasons.items(), key=lambda item: (-item[1]["sampled"], item[0])))


def rehearse(source: Source, refs: Sequence[ImageRef], options: IngestOptions) -> None:
    """Prepares all images and places them in splits, and writes nothing.

    Raises:
      UserError: as ingest raises it: if too many images are bad or have the bytes of another one
        with another label; `EmptySplit` if a split would be empty.
    """
    with tempfile.TemporaryDirectory() as folder:
        work = WorkFolder(folder)
        if options.prepare.depth.must_be_found:
            options = complete_depth(count_levels(refs, source, work, options), options)
        prepare = functools.partial(prepare_source, source=source, work=work, options=options)
        results = map_in_order(prepare, refs, count_threads(source, options))
        rows = write_rows(results, "rehearsal", work, options.seed)
        bad, skipped = count_unusable(rows)
        chunk = PreparedChunk(0, True, len(rows), bad, "rehearsal", skipped)
        judge_rows([chunk], work, SourceRows([work.rows_path(chunk.name)]), folder, options)
