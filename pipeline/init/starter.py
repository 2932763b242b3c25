"""A commented starter configuration for a folder of images."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from image_pipeline.components.meaning.label_map import describe_levels, guess_classes
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.init.choose_steps import SMALL_PX
from image_pipeline.init.layout import Layout, choose_shares, has_few
from image_pipeline.init.recipe import Recipe, say_time
from image_pipeline.init.sizes import Sizes
from image_pipeline.option_list import find_options, first_sentence, to_yaml
from image_pipeline.show.words import format_count

_USUAL_PX = 256  # of what is stored: room around a view of 224 pixels
# Of the smallest class: with fewer, chance may leave next to nothing of it to evaluate on.
_FEW_OF_A_CLASS = 50


@dataclasses.dataclass(frozen=True)
class Answers:
    """What an ingest is to accept.

    Attributes:
      bad_fraction: the largest share of the images that may be lost.
      copied: splits all of whose images are copies of another split's.
      shares: of splits, to be exact, where chance would leave one of them empty.
    """

    bad_fraction: float = IngestOptions.model_fields["max_bad_fraction"].default
    copied: Sequence[str] = ()
    shares: Mapping[str, float] | None = None


_NO_ANSWERS = Answers()


def choose_threshold(layout: Layout) -> tuple[float, str]:
    """The accuracy below which a model is not pushed, and how it was chosen.

    Always answering the most frequent class needs no model. A model must get at least a tenth of
    the way from there to 1, and beyond what such answers may reach by chance: the class's share of
    the evaluated images equals its share of all, to within one image if splits are stratified, or
    else three standard deviations. It need not get more than half of the way.
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


def write_starter(
    layout: Layout, sizes: Sizes, recipe: Recipe, answers: Answers = _NO_ANSWERS
) -> str:
    """The text of the configuration: what was guessed, and beside it what people change first."""
    height, width, channels = recipe.view
    small = min(sizes.height_px, sizes.width_px) < SMALL_PX
    dtype = sizes.values[0] if sizes.values else "uint8"
    return _TEMPLATE.format(
        images=layout.images,
        kind=layout.kind,
        classes=describe_labels(layout),
        labels=_write_labels(layout),
        splits=_write_splits(layout, answers.shares),
        stratify=_write_stratify(layout, answers.shares) + _write_duplicates(answers.copied),
        bad_fraction=f"{answers.bad_fraction}  # {_say('ingest.max_bad_fraction')}",
        prepare=_write_prepare(sizes, small, min(height, width)),
        sizes=f"{'all' if sizes.equal else 'median'} {sizes.height_px} x {sizes.width_px}",
        color=f"{channels} x {dtype}" if sizes.values else "gray" if sizes.gray else "colour",
        height=height,
        width=width,
        channels=channels if dtype == "uint8" else f"{channels}\n  dtype: float32",
        batch_size=f"{recipe.batch_size}  # {_say('feeding.batch_size')}",
        steps=_write_steps(recipe.steps, sizes.sound is not None),
        transform=_write_transform(recipe),
        training=_write_training(recipe),
        evaluation=_write_evaluation(layout),
    )


def describe_labels(layout: Layout) -> str:
    """The kind of labels, in a few words."""
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


_USUAL_ENCODING = "jpeg  # png loses nothing, and is five times larger"
_SMALL_ENCODING = "original  # small files stay as they are, unless training cannot read them"
_STEPS = """\
  # Random steps of training{why}.
  augment: {steps}"""
_TEMPLATE = """\
# Written by `image-pipeline init` for {images} images: {kind}, {classes}.
# What is left out has its default; a wrong key or value is an error that names the right ones.
ingest:
{labels}
{splits}
{stratify}  max_bad_fraction: {bad_fraction}
  prepare:
{prepare}
view:  # the model's input; sizes found: {sizes} pixels (height x width), {color}
  height_px: {height}
  width_px: {width}
  channels: {channels}
feeding:
  batch_size: {batch_size}
{steps}
{transform}training:
{training}
{evaluation}"""


def _write_steps(steps: Sequence[object], sounds: bool) -> str:
    """The random steps, and why they are not others."""
    why = "; leave out flip_horizontal where a mirrored image is another class"
    if sounds:
        why = ": black rectangles hide some pitches for some time"
    elif "flip_horizontal" not in steps:
        why = "; no flip_horizontal: a mirrored image is another class"
    return _STEPS.format(why=why, steps=to_yaml(steps))


def _say(key: str) -> str:
    """What an option does, in the words of `image-pipeline options`."""
    (group,) = find_options(key)
    return first_sentence(group.options[0].meaning)


def _write_transform(recipe: Recipe) -> str:
    if recipe.preprocessing_fn is None:
        return ""
    return (
        f"transform:\n  preprocessing_fn: {recipe.preprocessing_fn}  # as the network wants them\n"
    )


def _write_training(recipe: Recipe) -> str:
    """The options of training, each with what it does or why it is so."""
    notes = {
        "model": recipe.why,
        "epochs": _say("training.epochs"),
        "schedule": "the learning rate falls slowly, and is near 0 at the end",
    }
    if recipe.seconds is not None:
        notes["epochs"] += f": {say_time(recipe.seconds)}"
    return "\n".join(
        f"  {name}: {to_yaml(value)}" + (f"  # {notes[name]}" if name in notes else "")
        for name, value in recipe.training.items()
    )


def _write_prepare(sizes: Sizes, small: bool, view_px: int) -> str:
    if sizes.sound is None:
        meaning = f"{_say('ingest.prepare.size_px')}; smaller ones stay as they are"
        lines = [
            f"size_px: {max(_USUAL_PX, view_px)}  # {meaning}",
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


def _write_masks(layout: Layout) -> list[str]:
    levels = layout.levels
    images, own = (layout.masks and layout.masks.templates) or ("", "")
    classes: Mapping[str, object] = layout.mask_classes or guess_classes(levels) or {}
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
    lines = [] if layout.masks is None else _write_masks(layout)
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
    if layout.follow_links:
        lines.append("follow_links: true  # links, and a table's rows, may lead out of the folder")
    lines += [
        f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in layout.further.items()
    ]
    if layout.leave_out:
        lines.append(
            f"leave_out: {json.dumps(layout.leave_out)}  # folders of no class, or no masks"
        )
    if layout.video is not None:
        rate = f"{layout.video.frames_per_second:g}"
        lines.append(f"video: {{frames_per_second: {rate}}}  # each is an image; one split a file")
    if layout.label_pattern or not (layout.columns or layout.has_masks):
        lines += [
            "# Matched from the start of each path below the images folder; `label` is the class.",
            f"label_pattern: {_quote(layout.label_pattern)}",
        ]
    return "\n".join(f"  {line}" for line in lines)


def _write_splits(layout: Layout, exact: Mapping[str, float] | None) -> str:
    shares = exact or choose_shares(layout)
    if exact:
        comment = "# So few are shared out by their number: chance would leave a split empty."
        return f"  {comment}\n  splits: {_flow(shares)}"
    if not layout.splits:
        comment = "# An image's content decides its split, so it never depends on other images."
        return f"  {comment}\n  splits: {_flow(shares)}"
    if layout.columns:
        is_table = layout.generator is None
        who, rows = ("table names", "rows") if is_table else ("items name", "items")
        lines = [f"# The {who} the split; shares are for {rows} that name none."]
    else:
        lines = ["# Folders name the split; shares are for images in other folders."]
    if layout.split_pattern is not None:
        lines.append(f"split_pattern: {_quote(layout.split_pattern)}")
    lines.append(f"splits: {_flow(shares)}")
    if layout.split_names:
        lines.append(f"split_names: {_flow(layout.split_names)}  # training needs `eval`")
    return "\n".join(f"  {line}" for line in lines)


def _count_evaluated(layout: Layout, total: int) -> float:
    """The number of images in the eval split, at least one; a generator may make any number."""
    if layout.generator is not None:
        return math.inf
    expected = total * choose_shares(layout).get("eval", 0.1)
    return max(1.0, layout.splits.get("eval", 0) or expected)


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
    return has_few(layout) or min(layout.classes.values()) < _FEW_OF_A_CLASS


def _write_stratify(layout: Layout, exact: Mapping[str, float] | None) -> str:
    if exact:
        return "  stratify: true\n"
    if not _is_stratified(layout):
        return ""
    fewest = min(layout.classes.values())
    comment = f"Every class gets its share of each split: the smallest has {fewest:,}"
    return f"  # {comment}.\n  stratify: true\n"


def _write_duplicates(copied: Sequence[str]) -> str:
    if not copied:
        return ""
    comment = f"All images of {' and '.join(copied)} are copies of another split's: kept in both."
    return f"  # {comment}\n  duplicates: keep_as_given\n"


def _quote(text: str | None) -> str:
    """A YAML scalar in single quotes, where backslashes mean themselves."""
    return "null" if text is None else "'" + text.replace("'", "''") + "'"


def _flow(values: Mapping[str, object]) -> str:
    """A mapping on one line; JSON's keys and values are YAML's."""
    return json.dumps(dict(values), ensure_ascii=False)
