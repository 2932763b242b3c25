"""A commented starter configuration for a folder of images."""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.images.decode import read_image_header
from image_pipeline.components.images.kind import tell_kind
from image_pipeline.components.images.prepare import PrepareOptions
from image_pipeline.components.images.sound import measure_sound
from image_pipeline.components.images.spectrogram import SoundOptions
from image_pipeline.components.ingest.masks import Masks
from image_pipeline.components.sources.reading import try_read
from image_pipeline.components.sources.references import ImageRef, Source
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.init.choose_model import choose_model
from image_pipeline.init.layout import Layout
from image_pipeline.init.mask_levels import describe_levels, guess_classes
from image_pipeline.show.words import format_count

_USUAL_VALUES = {("uint8", 1), ("uint8", 3)}
_STORED_AS = {"float64": "float32", "int8": "float32", "int16": "float32"}  # as ingest reads them
SAMPLE = 200  # images whose headers are read
_USUAL_PX = 224  # what most networks are made for
_LEAST_SOUND_S, _MOST_SOUND_S = 0.1, 10.0  # of the duration that is drawn
_BLOCK_PX = 32  # by as much most networks shrink an image
_SMALL_PX = 64  # below it, JPEG's blocks are a large part of the picture
_FEW_IMAGES = 500  # below it, a tenth is too little to evaluate on
# Of the smallest class: with fewer, chance may leave next to nothing of it to evaluate on.
_FEW_OF_A_CLASS = 50


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sides of the sampled images, in pixels, and whether all of them are gray.

    Attributes:
      height_px: median.
      width_px: median.
      equal: whether all have the same size.
      gray: whether all have one channel.
      sound: how to draw them, if they are sounds; the sides are those of the pictures then.
      values: the type and number of channels to store, if they are not of 8-bit gray or RGB.
    """

    height_px: int
    width_px: int
    equal: bool
    gray: bool
    sound: SoundOptions | None = None
    values: tuple[str, int] | None = None


def measure_sizes(source: Source, refs: Sequence[ImageRef]) -> Sizes | None:
    """Reads the headers of at most `SAMPLE` images, spread evenly.

    Args:
      source: of the images.
      refs: those of it that may be images.

    Returns:
      Their sizes; None if no file of the sample is an image.
    """
    found, sounds, kinds = [], [], set[tuple[str, int]]()
    for ref in refs[:: max(1, -(-len(refs) // SAMPLE))]:
        data = try_read(ref, source, PrepareOptions().max_file_bytes, with_sounds=True)
        try:
            if isinstance(data, bytes) and tell_kind(data).group == "sound":
                sounds.append(measure_sound(data))
            elif isinstance(data, bytes):
                header = read_image_header(data)
                found.append((header.height, header.width, header.channels == 1))
                kinds.add((_STORED_AS.get(header.dtype, header.dtype), header.channels))
        except BadImage:
            continue  # Ingest will say what is wrong with it.
    if not found:
        return _draw_sounds(sounds) if sounds else None
    heights, widths, grays = zip(*found, strict=True)
    return Sizes(
        int(statistics.median_low(heights)),
        int(statistics.median_low(widths)),
        len(set(zip(heights, widths, strict=True))) == 1,
        all(grays),
        values=kinds.pop() if len(kinds) == 1 and not kinds & _USUAL_VALUES else None,
    )


def _draw_sounds(sounds: Sequence[tuple[int, float]]) -> Sizes:
    """The pictures of sounds, by their sample rates and durations: nine in ten are not cut."""
    rates, durations = zip(*sounds, strict=True)
    rate_hz = min(statistics.median_low(rates), SoundOptions().sample_rate_hz)
    longest_s = sorted(durations)[len(durations) * 9 // 10]
    duration_s = min(max(math.ceil(10 * longest_s) / 10, _LEAST_SOUND_S), _MOST_SOUND_S)
    sound = SoundOptions(sample_rate_hz=rate_hz, duration_s=duration_s)
    return Sizes(sound.mel_bins, sound.columns, True, True, sound)


def guess_view(sizes: Sizes, has_boxes: bool = False) -> tuple[int, int, int]:
    """The model's input: height and width in pixels, channels.

    Small images of one size stay as they are, and so do the pictures of sounds; others become
    square, with the usual size or, if they are smaller, their shorter side. With boxes they keep
    their shape, since a square would cut off what is at the sides.
    """
    shorter = min(sizes.height_px, sizes.width_px)
    is_small = sizes.equal and max(sizes.height_px, sizes.width_px) <= _USUAL_PX
    if is_small or sizes.sound is not None:
        height, width = sizes.height_px, sizes.width_px
    else:
        height = width = min(shorter, _USUAL_PX)
        if has_boxes:
            scale = height / shorter
            height, width = (
                max(1, round(side * scale / _BLOCK_PX)) * _BLOCK_PX
                for side in (sizes.height_px, sizes.width_px)
            )
    return height, width, sizes.values[1] if sizes.values else 1 if sizes.gray else 3


def choose_threshold(layout: Layout) -> tuple[float, str]:
    """The accuracy below which a model is not pushed, and how it was chosen.

    Always answering the most frequent class needs no model. A model must get at least a tenth of
    the way from there to 1, and beyond what such answers may reach by chance: the class's share of
    the evaluated images equals its share of all, to within one image if splits are stratified, or
    else three standard deviations. It need not get more than half of the way.

    Args:
      layout: layout of the images, with at least one class.
    """
    name, count = max(layout.classes.items(), key=lambda each: each[1])
    total = sum(layout.classes.values())
    share, evaluated = count / total, _count_evaluated(layout, total)
    chance = 1 / evaluated
    if not _is_stratified(layout):
        chance = 3 * math.sqrt(share * (1 - share) / evaluated)
    threshold = share + min(max((1 - share) / 10, chance), (1 - share) / 2)
    # A name may hold anything; `repr` keeps it on one line.
    how = f"always answering {name!r} gives {share:.3g}, hardly ever as much as this by chance"
    if evaluated * (1 - share) < 1:
        how = f"the eval split gets too few images to tell a model from one that answers {name!r}"
    return round(threshold, 4), how


def write_starter(layout: Layout, sizes: Sizes) -> str:
    """The text of the configuration: what was guessed, and beside it what people change first."""
    kind = layout.kind_of_label
    height, width, channels = guess_view(sizes, kind == "boxes")
    small = min(sizes.height_px, sizes.width_px) < _SMALL_PX
    first_step = "pad_and_crop" if small else _CROPS.get(kind, "random_resized_crop")
    sounds = sizes.sound is not None
    dtype = sizes.values[0] if sizes.values else "uint8"
    return _TEMPLATE.format(
        images=layout.images,
        kind=layout.kind,
        classes=describe_labels(layout),
        labels=_write_labels(layout),
        splits=_write_splits(layout),
        stratify=_write_stratify(layout),
        bad_fraction=_bad_fraction(layout),
        prepare=_write_prepare(sizes, small),
        sizes=f"{'all' if sizes.equal else 'median'} {sizes.height_px} x {sizes.width_px}",
        color=f"{channels} x {dtype}" if sizes.values else "gray" if sizes.gray else "colour",
        height=height,
        width=width,
        channels=channels if dtype == "uint8" else f"{channels}\n  dtype: float32",
        batch_size=32 if _has_few(layout) else 64,
        steps=_SOUND_STEPS if sounds else _STEPS.format(first_step=first_step),
        model=_write_model(layout, min(height, width)),
        evaluation=_write_evaluation(layout),
    )


def describe_labels(layout: Layout) -> str:
    """What images are said to be, in a few words."""
    kind, count = layout.kind_of_label, len(layout.classes)
    if kind == "values":
        return f"values from {min(layout.values):g} to {max(layout.values):g}"
    if not count:
        return "no class names"
    if kind == "boxes":
        return f"{sum(layout.classes.values()):,} boxes of {format_count(count, 'class')}"
    return format_count(count, "tag" if kind == "tags" else "class")


def _write_evaluation(layout: Layout) -> str:
    """The lines that say when a model is good enough; none where all values are the same."""
    kind = layout.kind_of_label
    if kind == "values" and not np.var(layout.values):
        return ""
    option, how = "min_accuracy", ""
    threshold: float = 0.5
    if kind == "masks":
        option, threshold = "min_mean_iou", EvaluationOptions().min_mean_iou
    elif kind == "boxes":
        option, threshold = "min_map_50_95", EvaluationOptions().min_map_50_95
    elif kind == "tags":
        option, (threshold, how) = "min_f1", _choose_f1(layout)
    elif kind == "values":
        option, variance = "max_mean_squared_error", float(np.var(layout.values))
        threshold = float(f"{0.9 * variance:.4g}")
        how = f"always answering the mean gives {variance:.4g}"
    elif layout.classes and layout.generator is None:  # Else the first items may be of any class.
        threshold, how = choose_threshold(layout)
    side = "above" if option.startswith("max") else "below"
    reason = f"; {how}" if how else ""
    return f"evaluation:\n  {option}: {threshold}  # a model {side} it is not pushed{reason}\n"


def _choose_f1(layout: Layout) -> tuple[float, str]:
    """A tenth of the way from what answering all tags of every image gives to 1."""
    share = sum(layout.classes.values()) / (layout.images * len(layout.classes) or 1)
    all_tags = 2 * share / (1 + share)
    how = f"always answering all tags gives {all_tags:.3g}"
    return round(all_tags + (1 - all_tags) / 10, 4), how


# With boxes, a small crop would leave few of them.
_CROPS = {"boxes": "{op: random_resized_crop, area: [0.3, 1]}"}
_USUAL_ENCODING = "jpeg  # png loses nothing, and is five times larger"
_SMALL_ENCODING = "original  # small files stay as they are, unless training cannot read them"
_STEPS = """\
  # Random steps of training; leave out flip_horizontal where a mirrored image is another class.
  augment: [{first_step}, flip_horizontal]"""
_SOUND_STEPS = """\
  # Random steps of training: black rectangles hide some pitches for some time.
  augment: [random_erasing]"""
_TEMPLATE = """\
# Written by `image-pipeline init` for {images} images: {kind}, {classes}.
# What is left out has its default; a wrong key or value is an error that names the right ones.
ingest:
{labels}
{splits}
{stratify}  # Unusable images are quarantined; the run fails if their share is larger than this.
  max_bad_fraction: {bad_fraction}
  prepare:
{prepare}
view:  # the model's input; sizes found: {sizes} pixels (height x width), {color}
  height_px: {height}
  width_px: {width}
  channels: {channels}
feeding:
  batch_size: {batch_size}
{steps}
training:
{model}  epochs: 10
{evaluation}"""


def _write_model(layout: Layout, size_px: int) -> str:
    images = None if layout.generator is not None else layout.images
    chosen = choose_model(size_px, images, layout.kind_of_label)
    if chosen is None:
        return ""
    model, why = chosen
    lines = [f"# For {why}. Where there are weights of another training, a backbone such as"]
    lines += [
        "# MobileNetV3Small that starts from them (`weights`) is better; see docs/training.md."
    ]
    # The small one is used anyway.
    lines += [] if model == "small" else [f"model: {model}"]
    return "".join(f"  {line}\n" for line in lines)


def _write_prepare(sizes: Sizes, small: bool) -> str:
    if sizes.sound is None:
        shorter = "256  # shorter side of the stored image; smaller ones are kept as they are"
        lines = [
            f"size_px: {shorter}",
            f"encoding: {_SMALL_ENCODING if small else _USUAL_ENCODING}",
        ]
        if sizes.values is not None:
            dtype, channels = sizes.values
            lines[1:] = ["encoding: raw", f"dtype: {dtype}", f"channels: {channels}"]
    else:
        rate_hz, duration_s = sizes.sound.sample_rate_hz, sizes.sound.duration_s
        lines = [
            "# Sounds become pictures: pitches from top to bottom, time from left to right.",
            "sound:",
            f"  sample_rate_hz: {rate_hz}  # other sounds are resampled; keeps half as many Hz",
            f"  duration_s: {duration_s:g}  # longer sounds are cut, shorter ones padded",
            f"  mel_bins: {sizes.sound.mel_bins}  # bands: the picture's height",
            *("resize: none", "encoding: png", "color: gray"),
        ]
    return "\n".join(f"    {line}" for line in lines)


def _write_masks(masks: Masks, levels: Sequence[int | str]) -> list[str]:
    images, own = masks.templates or ("", "")
    classes = guess_classes(levels)
    lines = [
        "# An image and its mask have {key} in common, and are stored as one record.",
        "masks:",
        f"  images: {json.dumps(images)}",
        f"  masks: {json.dumps(own)}",
        f"  # Some masks have {describe_levels(levels)}.",
        "  # Name all of them: by a list in the order of ids, or by level or colour. Those of no",
        "  # class are named by `ignored`.",
        f"  classes: {_flow(classes) if classes else 'null'}",
    ]
    return lines


def _write_labels(layout: Layout) -> str:
    lines = [] if layout.masks is None else _write_masks(layout.masks, layout.levels)
    rows = "table's" if layout.generator is None else "items'"
    if layout.generator is not None:
        shards = f"generator: {{shards: {layout.generator.shards}}}"
        lines.append(f"{shards}  # each is a call of the function; the order depends on them")
    if layout.columns:
        lines += [
            f"# The {rows} columns by the names that records give them; null leaves one out.",
            f"columns: {_flow(layout.columns)}",
        ]
    if layout.column_types:
        lines.append(f"column_types: {_flow(layout.column_types)}")
    if layout.tag_separator:
        lines.append(f"tag_separator: {json.dumps(layout.tag_separator)}")
    if layout.root_dir:
        lines.append(f"root_dir: {json.dumps(layout.root_dir)}  # seen from the table's folder")
    if layout.video is not None:
        rate = f"{layout.video.frames_per_second:g}"
        lines.append(f"video: {{frames_per_second: {rate}}}  # each is an image; one split a file")
    if layout.label_pattern or not (layout.columns or layout.has_masks):
        lines += [
            "# Matched from the start of each path below the images folder; `label` is the class.",
            f"label_pattern: {_quote(layout.label_pattern)}",
        ]
    return "\n".join(f"  {line}" for line in lines)


def _write_splits(layout: Layout) -> str:
    shares = _choose_shares(layout)
    if not layout.splits:
        comment = "# An image's content decides its split, so it never depends on other images."
        return f"  {comment}\n  splits: {_flow(shares)}"
    if layout.columns:
        is_table = layout.generator is None
        who, rows = ("table names", "rows") if is_table else ("items name", "items")
        lines = [f"# The {who} the split; shares are for {rows} that name none."]
    else:
        lines = [
            "# Folders name the split; shares are for images in other folders.",
            f"split_pattern: {_quote(layout.split_pattern)}",
        ]
    lines.append(f"splits: {_flow(shares)}")
    if layout.split_names:
        lines.append(f"split_names: {_flow(layout.split_names)}  # training needs `eval`")
    return "\n".join(f"  {line}" for line in lines)


def _choose_shares(layout: Layout) -> Mapping[str, float]:
    if layout.splits:
        count = len(layout.splits)
        shares = _SHARES.get(count, (1 / count,) * count)
        return dict(zip(layout.splits, shares, strict=True))
    return {"train": 0.8, "eval": 0.2} if _has_few(layout) else _NINE_TENTHS


def _count_evaluated(layout: Layout, total: int) -> float:
    """The number of images in the eval split, at least one; a generator may make any number."""
    if layout.generator is not None:
        return math.inf
    expected = total * _choose_shares(layout).get("eval", 0.1)
    return max(1.0, layout.splits.get("eval", 0) or expected)


def _has_few(layout: Layout) -> bool:
    return layout.generator is None and layout.images < _FEW_IMAGES


def _is_stratified(layout: Layout) -> bool:
    """Whether chance could change a class's share in the eval split, or leave it without images.

    Not where paths name the split, nor where there are no classes, or their sizes are unknown.
    """
    if (
        layout.generator is not None
        or layout.splits
        or not layout.classes
        or layout.kind_of_label != "classes"
    ):
        return False
    return _has_few(layout) or min(layout.classes.values()) < _FEW_OF_A_CLASS


def _write_stratify(layout: Layout) -> str:
    if not _is_stratified(layout):
        return ""
    fewest = min(layout.classes.values())
    comment = f"Every class gets its share of each split: the smallest has {fewest:,}"
    return f"  # {comment}.\n  stratify: true\n"


_NINE_TENTHS = {"train": 0.9, "eval": 0.1}
_SHARES: dict[int, tuple[float, ...]] = {2: (0.9, 0.1), 3: (0.8, 0.1, 0.1)}


def _bad_fraction(layout: Layout) -> float:
    """A hundredth, or more if there are other files among the images."""
    has_classes = layout.classes and layout.kind_of_label == "classes"
    labelled = sum(layout.classes.values()) if has_classes else layout.images
    found = layout.images + layout.others
    return max(0.01, min(1.0, -(-(found - labelled) * 100 // found) / 100 + 0.01))


def _quote(text: str | None) -> str:
    """A YAML scalar in single quotes, where backslashes mean themselves."""
    return "null" if text is None else "'" + text.replace("'", "''") + "'"


def _flow(values: Mapping[str, object]) -> str:
    """A mapping on one line; JSON's keys and values are YAML's."""
    return json.dumps(dict(values), ensure_ascii=False)
