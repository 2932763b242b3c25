"""What a model was fed: a few hundred bytes beside it, from which each batch can be named again.

Order and views are functions of the data sets' content, the options, the seed and the position. So
the certificate is these, and the span of positions; a training that went on from another run's
checkpoint, or from another model's weights, has that one's parts before its own.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import pydantic

from image_pipeline.components import files
from image_pipeline.components.dataset.checksums import Count
from image_pipeline.components.dataset.index import find_image, read_index, read_table
from image_pipeline.components.dataset.manifest import (
    has_manifest,
    read_manifest,
    read_whole_manifest,
)
from image_pipeline.components.dataset.paths import (
    INDEX,
    group_by_root,
    is_kept,
    match_path,
    parse_split,
)
from image_pipeline.components.dataset.versions import explain_version, identify, list_kept
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.options import FeedingOptions, SubsetOptions
from image_pipeline.components.feeding.passes import Passes
from image_pipeline.components.feeding.reader import MIRRORED, ROW, WINDOW, BatchReader
from image_pipeline.components.json_files import check_json, read_json
from image_pipeline.components.json_text import to_sealed_json
from image_pipeline.components.views.options import ViewOptions

# Options of how batches are read and what becomes of them, not of which records and views they are.
_HOW_IT_IS_READ = {
    *("ahead_batches", "cache_bytes", "cache_dir", "prefetch_batches", "memory_fraction"),
    *("hold_decoded", "compiled", "verify", "columns", "dtype", "layout", "labels", "eval_subset"),
}
_EPOCHS = 2**31  # More than any training has; an image is looked for in each that was fed.
CERTIFICATE = "fed.json"
"""In the folder of a checkpoint, and of a model in `assets.extra`."""

_WAY_OUT = (
    "restore it from a copy, or delete it: the weights are not concerned, but nothing else may say "
    "what they were fed"
)


@dataclasses.dataclass(frozen=True)
class Part:
    """Batches of one order, from one position up to another.

    Attributes:
      data: of each data set the `manifest_sha256` of its manifest, and the split.
      seed: of training.
      view, feeding: the options, as configurations have them; but `mix` names data sets as `data`.
      steps_per_epoch: batches of an epoch.
      first: epoch and step of the first batch.
      end: epoch and step of the batch after the last.
    """

    data: Annotated[Sequence[tuple[str, str]], pydantic.Field(min_length=1)]
    seed: Annotated[int, pydantic.Field(ge=-(2**63), lt=2**63)]
    view: Mapping[str, Any]
    feeding: Mapping[str, Any]
    steps_per_epoch: Annotated[int, pydantic.Field(gt=0, lt=2**63)]
    first: tuple[Count, Count]
    end: tuple[Count, Count]

    def explain_fault(self) -> str | None:
        """Why it can be none of a training, whichever version wrote it; None if it can be."""
        size, steps = self.feeding.get("batch_size"), self.steps_per_epoch
        if not isinstance(size, int) or size < 1:
            return f"feeding.batch_size must be a whole number from 1 on, got {size!r}"
        if self.feeding.get("mix") and {*self.feeding["mix"]} != {each for each, _ in self.data}:
            return "feeding.mix must have the data sets of data"
        if not self.first <= self.end:
            return f"first must not be after end, got {self.first} and {self.end}"
        if max(self.first[1], self.end[1]) > steps or max(self.first[0], self.end[0]) >= _EPOCHS:
            return (
                f"first and end must be below epoch {_EPOCHS:,}, and in their epochs of {steps:,} "
                f"steps, got {self.first} and {self.end}"
            )
        return None

    @property
    def steps(self) -> int:
        """How many batches these are."""
        (epoch, step), (last, end) = self.first, self.end
        return (last - epoch) * self.steps_per_epoch + end - step

    def read_options(self, by_checksum: Mapping[str, str]) -> tuple[ViewOptions, FeedingOptions]:
        """The options, for data sets in these folders, by their manifests' checksums.

        Raises:
          UserError: if one is of another version.
        """
        try:
            view = check_json(self.view, ViewOptions)
            feeding = check_json(self.feeding, FeedingOptions)
        except ValueError as error:
            raise UserError(
                "the model was trained with options that this version does not know, so its "
                f"batches cannot be named ({error}); use the version that trained it."
            ) from error
        if feeding.mix is None:
            return view, feeding
        mix = {by_checksum[checksum]: share for checksum, share in feeding.mix.items()}
        return view, feeding.model_copy(update={"mix": mix})


@dataclasses.dataclass(frozen=True)
class Fed:
    """An image in a batch that a model was fed.

    Attributes:
      source: its path, as the index has it.
      label: its class; "" of other labels.
      part: the number of the certificate's part.
      epoch, step, place: the batch in that part's order, and its place there.
      window: top, left, height and width of the crop, in pixels of the stored image; None if crops
        are not random.
      mirrored: whether it is the mirror image of another view; None without
        `feeding.many_views.mirror`: whether a step of `feeding.augment` mirrors it is not said.
    """

    source: str
    label: str
    part: int
    epoch: int
    step: int
    place: int
    window: tuple[int, int, int, int] | None = None
    mirrored: bool | None = None


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What a model was fed, part by part, in the order of time.

    Attributes:
      parts: one at least.
      started_from: what it goes on from of which no certificate tells, such as weights of others.
    """

    parts: Annotated[Sequence[Part], pydantic.Field(min_length=1)]
    started_from: str | None = None

    def go_on(self, other: "Certificate") -> "Certificate":
        """This one and, after it, another, which may go on in the very order."""
        before, after = list(self.parts), list(other.parts)
        joined = dataclasses.replace(after[0], first=before[-1].first)
        if before[-1] == dataclasses.replace(joined, end=after[0].first):
            before, after[0] = before[:-1], joined
        return dataclasses.replace(self, parts=[*before, *after])

    def begin(self, epoch: int, step: int) -> "Certificate":
        """The same before anything of its last part is fed, which begins there."""
        last = dataclasses.replace(self.parts[-1], first=(epoch, step), end=(epoch, step))
        return dataclasses.replace(self, parts=[*self.parts[:-1], last])

    def until(self, epoch: int, step: int) -> "Certificate":
        """The same up to there, which may be before its last part: a best epoch may be older."""
        parts = list(self.parts)
        while len(parts) > 1 and parts[-1].first >= (epoch, step):
            parts.pop()
        parts[-1] = dataclasses.replace(parts[-1], end=max((epoch, step), parts[-1].first))
        return dataclasses.replace(self, parts=parts)


def certify(
    shard_paths: Sequence[str],
    view: ViewOptions,
    feeding: FeedingOptions,
    seed: int,
    steps_per_epoch: int,
) -> Certificate | None:
    """A certificate by which nothing is fed yet; None of files that are not of a data set."""
    if not all(map(match_path, shard_paths)):
        return None
    data, checksums = [], {}
    for root, paths in group_by_root(shard_paths):
        manifest = read_manifest(root) if has_manifest(root) else None
        if manifest is None or manifest.checksum is None:
            return None
        splits = sorted({parse_split(path) for path in paths})
        if len(paths) < sum(len(manifest.splits[split].shards) for split in splits):
            return None  # Of some of a split's shards, its name would say too much.
        data += [(manifest.checksum, split) for split in splits]
        checksums[root] = manifest.checksum
    chosen = feeding.model_dump(mode="json", exclude=_HOW_IT_IS_READ)
    if feeding.mix is not None:  # Folders get moved.
        chosen["mix"] = {checksums[root]: weight for root, weight in feeding.mix.items()}
    made = view.model_dump(mode="json")
    return Certificate([Part(data, seed, made, chosen, steps_per_epoch, (0, 0), (0, 0))])


def write_certificate(folder: str, certificate: Certificate) -> None:
    """Writes it into a folder."""
    text = to_sealed_json(dataclasses.asdict(certificate))
    files.write_file(files.join(folder, CERTIFICATE), text.encode())


def read_certificate(folder: str) -> Certificate | None:
    """The certificate in a folder; None if there is none.

    Raises:
      UserError: if it is damaged.
    """
    path = files.join(folder, CERTIFICATE)
    try:
        certificate = read_json(path, Certificate, _WAY_OUT)
    except FileNotFoundError:
        return None
    for number, part in enumerate(certificate.parts):
        if why := part.explain_fault():
            raise UserError(f"{path!r} is damaged (its parts.{number}: {why}); {_WAY_OUT}.")
    return certificate


class NotFedError(UserError):
    """An image is in none of the splits that a model was fed."""


class FedBatches:
    """The batches of a certificate, named from the data sets that its parts were read from.

    A part is opened when it is asked for: what is gone of earlier ones hinders no later one. Of
    versions that were replaced the indices are read that were kept, see `dataset.versions`.
    """

    def __init__(self, certificate: Certificate, data_dirs: Sequence[str]):
        """Takes data sets, of which names and ids of all records are held in memory when opened.

        Args:
          certificate: of a model.
          data_dirs: folders of data sets, among them those that it names; the others are not read.

        Raises:
          UserError: if a folder is not a data set's.
        """
        self._manifests = {path.rstrip("/"): read_whole_manifest(path) for path in data_dirs}
        given = {identify(root, manifest): root for root, manifest in self._manifests.items()}
        kept = (list_kept(root) for root in self._manifests)
        self._roots = {name: root for each in (*kept, given) for name, root in each.items()}
        self._given = list(given.values())
        self._certificate = certificate
        self._opened: dict[int, _OpenPart] = {}

    def find(self, image: str) -> list[Fed]:
        """Every time that an image was fed, in the order of time; as padding, too.

        Args:
          image: its path, as `source` of the index has it, or its record id.

        Raises:
          NotFedError: if it is in none of the splits that the model was fed.
          UserError: if one of the data sets is not among those given, or an option is of another
            version.
        """
        found: list[Fed] = []
        known = False
        for number in range(len(self._certificate.parts)):
            part = self._open(number)
            rows = find_image(part.names, image).tolist()
            known |= len(rows) > 0
            for epoch, steps in part.list_epochs():
                for step in part.find_steps(epoch, rows):
                    if step in steps:
                        batch = part.list_batch(number, epoch, step)
                        found += [fed for row, fed in batch if row in rows]
        if not known:
            raise NotFedError(
                f"no image {image!r} is in what the model was fed; give its path as `source` of "
                f"{INDEX} has it, or its record id."
            )
        return found

    def list_batch(self, step: int) -> list[Fed]:
        """The images of one batch, in their order.

        Args:
          step: how many batches the model was fed before it.

        Raises:
          UserError: if it was not fed so many, or as `find`.
        """
        left = step
        for number, part in enumerate(self._certificate.parts):
            if left < part.steps:
                epoch, step_there = divmod(part.first[1] + left, part.steps_per_epoch)
                batch = self._open(number).list_batch(number, part.first[0] + epoch, step_there)
                return [fed for _, fed in batch]
            left -= part.steps
        raise UserError(
            f"the model was fed {step - left:,} batches, so there is no batch {step:,} (from 0)."
        )

    def _open(self, number: int) -> "_OpenPart":
        if number in self._opened:
            return self._opened[number]
        part = self._certificate.parts[number]
        for checksum, _ in part.data:
            if checksum not in self._roots:
                raise UserError(self._explain_missing(checksum))
        roots = {checksum: self._roots[checksum] for checksum, _ in part.data}
        self._manifests |= {
            root: read_whole_manifest(root)
            for root in roots.values()
            if root not in self._manifests
        }
        view, feeding = part.read_options(roots)
        for checksum, root in roots.items():
            by_index = feeding.select != SubsetOptions() or feeding.balance_by != "label"
            if by_index and self._manifests[root].checksum != checksum:
                raise UserError(
                    "the model was fed records that feeding.select or balance_by chose by what the "
                    f"index said of them, but pictures in it were forgotten ({root}), and what it "
                    "said of these is gone; only what `forget` noted then says what it was fed."
                )
        shards = [
            (roots[checksum], shard.file)
            for checksum, split in part.data
            for shard in self._manifests[roots[checksum]].find_split(split, roots[checksum]).shards
        ]
        index = read_index([files.join(*shard) for shard in shards], self._manifests)
        if index.roots != tuple(dict.fromkeys(root for root, _ in shards)):
            raise UserError(
                "the model was fed several data sets in the order of their folders' names, but now "
                f"that is {', '.join(index.roots)}; name the folders so that they are in the order "
                "of then."
            )
        reader = BatchReader(index, view, feeding, Passes(mode="train", seed=part.seed))
        if reader.steps != part.steps_per_epoch:
            raise UserError(
                f"an epoch had {part.steps_per_epoch:,} batches when the model was trained, but "
                f"has {reader.steps:,} now: another version draws them; use that one."
            )
        self._opened[number] = opened = _OpenPart(part, reader, feeding)
        return opened

    def _explain_missing(self, checksum: str) -> str:
        for root in self._given:
            version = explain_version(root, checksum)
            if version and is_kept(root):
                return (
                    f"the model was fed {version}, and not the version that is named; name the "
                    "data set's own folder by --data, in which all that are kept are looked for."
                )
            if version:
                return (
                    f"the model was fed {version}, whose index is not kept any more; name a copy "
                    "of that version by --data. More are kept of later ones by `image-pipeline "
                    f"update {root} --versions N`."
                )
        return (
            f"the model was fed a data set whose manifest has the checksum {checksum}, but that "
            f"is not in {', '.join(self._given) or 'the folder of MODEL'}; name its folder by "
            "--data. Ingested again, with other images or options, it is another one."
        )


class _OpenPart:
    """A part whose data sets are open."""

    def __init__(self, part: Part, reader: BatchReader, feeding: FeedingOptions):
        self.part, self._reader, self._feeding = part, reader, feeding
        self.names = read_table(reader.index.shard_paths, ["source", "record_id", "label"])

    def list_epochs(self) -> Iterator[tuple[int, range]]:
        """Each epoch, and which of its batches were fed."""
        (first, step), (last, end) = self.part.first, self.part.end
        for epoch in range(first, last + (end > 0)):
            stop = end if epoch == last else self.part.steps_per_epoch
            yield epoch, range(step if epoch == first else 0, stop)

    def find_steps(self, epoch: int, rows: Sequence[int]) -> list[int]:
        """The batches of an epoch that some rows may be in, sorted."""
        size, last = self._feeding.batch_size, self.part.steps_per_epoch - 1
        steps = {
            position // size
            for row in rows
            for position in self._reader.order.find(epoch, row).tolist()
        }
        if rows and self._feeding.remainder == "pad":  # By the first records of the epoch.
            steps.add(last)
        return sorted(steps)

    def list_batch(self, number: int, epoch: int, step: int) -> list[tuple[int, Fed]]:
        """The images of a batch, each with its row."""
        drawn = self._reader.draw(epoch, step)
        rows = drawn[ROW].tolist()
        windows = drawn[WINDOW].tolist() if WINDOW in drawn else [None] * len(rows)
        is_said = self._feeding.many_views.mirror
        mirrored = drawn[MIRRORED].tolist() if is_said else [None] * len(rows)
        return [
            (
                row,
                Fed(
                    source=self.names["source"][row].as_py(),
                    label=self.names["label"][row].as_py(),
                    part=number,
                    epoch=epoch,
                    step=step,
                    place=place,
                    window=window and tuple(window),
                    mirrored=mirrored[place],
                ),
            )
            for place, (row, window) in enumerate(zip(rows, windows, strict=True))
        ]
