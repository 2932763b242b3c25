"""What `init` found, and what an ingest will take, a line each."""

from collections.abc import Sequence

from image_pipeline.components.ingest.forecast import Forecast
from image_pipeline.components.labels.class_names import find_slips
from image_pipeline.components.meaning.label_map import describe_levels
from image_pipeline.init.layout import Layout, list_missing
from image_pipeline.init.mirror import Mirrored
from image_pipeline.init.recipe import Recipe, say_time
from image_pipeline.init.sizes import Shapes, Sizes
from image_pipeline.init.starter import describe_labels
from image_pipeline.show.words import format_count

_MOST_CLASSES = 5
_FEW_OF_A_CLASS = 10
_NAMES = {"boxes": "classes of boxes"}


def found_rows(layout: Layout, sizes: Sizes, copies: float | None) -> list[tuple[str, str]]:
    """What was found and guessed, a line each.

    Args:
      layout: what paths say.
      sizes: what headers say.
      copies: share of the images that are copies of others; None if it is unknown.
    """
    kind = layout.kind_of_label
    rows = [("layout", layout.kind), *(("taken as", sentence) for sentence in layout.inferred)]
    if kind in ("classes", "tags") and layout.columns:  # Of a folder, its listing says so.
        slips = find_slips(layout.classes, layout.label_pattern is not None, kind == "tags")
        rows += [("look at", sentence) for sentence in slips]
    known = "" if layout.generator is None else "; how many there are is only known once it has run"
    rows.append(("images" if layout.video is None else "videos", f"{layout.images:,}{known}"))
    if layout.columns:
        rows.append(("columns", _list_columns(layout)))
    if layout.others and layout.columns:
        rows.append(("bad rows", f"{layout.others:,}, to be quarantined"))
    elif layout.others:
        rows.append(("other files", f"{layout.others:,}, to be skipped or quarantined"))
    if layout.unread:
        rows.append(("not read", say_unread(layout)))
    rows += _label_rows(layout, kind)
    if layout.root_dir:
        rows.append(("paths start from", f"{layout.root_dir}, seen from the table's folder"))
    if layout.splits:
        rows.append(("splits", ", ".join(f"{k} {n:,}" for k, n in layout.splits.items())))
    if sizes.sound is not None:
        sound = f"{sizes.sound.duration_s:g} s at {sizes.sound.sample_rate_hz:,} Hz, as pictures"
        rows.append(("sounds", sound))
    kind = "all" if sizes.equal else "median"
    rows.append(("sizes", f"{kind} {sizes.height_px} × {sizes.width_px} (height × width)"))
    rows += _shape_rows(sizes.shapes)
    if copies is not None:
        rows.append(("duplicates", _say_copies(copies)))
    return rows


def recipe_rows(recipe: Recipe, mirrored: Mirrored | None) -> list[tuple[str, str]]:
    """How a model is trained, and why so."""
    height, width, channels = recipe.view
    model, epochs = recipe.training["model"], format_count(recipe.training["epochs"], "epoch")
    takes = "" if recipe.seconds is None else f", {say_time(recipe.seconds)}"
    rows = [
        ("model's input", f"{height} × {width} × {channels}"),
        ("model", f"{model}: {recipe.why}"),
        ("training takes", f"{epochs}{takes}"),
    ]
    if mirrored is not None and mirrored.changes_class:
        rows.append(("look at", mirrored.say()))
    return rows


def forecast_rows(forecast: Forecast) -> list[tuple[str, str]]:
    """What an ingest will take."""
    took = f"about {forecast.seconds:,.0f} s on this machine"
    stored = f"about {forecast.stored_bytes[forecast.encoding] / 1e6:,.0f} MB as "
    memory = f"{forecast.memory_bytes / 1e9:.1f} GB"
    rows = [
        ("ingest takes", f"{took}, about {memory} of memory"),
        (
            "and stores",
            f"{stored}{forecast.encoding}, {forecast.peak_disk_bytes / 1e6:,.0f} MB at the peak",
        ),
    ]
    rows += [("look at", sentence) for sentence in forecast.noticed]
    if forecast.bad_fraction:
        rows.append(("unusable", f"about {forecast.bad_fraction:.1%}, to be quarantined"))
    return rows


def copied_rows(copied: Sequence[str]) -> list[tuple[str, str]]:
    """Which splits an ingest would leave empty without their copies."""
    sentence = (
        f"all images of {' and '.join(copied)} are copies of another split's, and say nothing of "
        "new images; they are kept (ingest.duplicates: keep_as_given)"
    )
    return [("look at", sentence)] if copied else []


def say_unread(layout: Layout) -> str:
    """How many images of which endings are not read, and what to do."""
    counted = ", ".join(f"{count:,} {ending}" for ending, count in layout.unread.items())
    missing = list_missing(layout.unread)
    if not missing:
        return f"{counted}: convert them to JPEG or PNG"
    extras = ",".join(sorted(set(missing.values())))
    install = f"pip install 'image-pipeline[{extras}]' to read {', '.join(missing)}"
    others = "" if len(missing) == len(layout.unread) else "; convert the others to JPEG or PNG"
    return f"{counted}: {install}{others}"


def _shape_rows(shapes: Shapes | None) -> list[tuple[str, str]]:
    """How images lie, and how far their sizes differ."""
    if shapes is None:
        return []
    total = sum(shapes.counts.values())
    parts = [f"{count / total:.0%} {name}" for name, count in shapes.counts.most_common()]
    parts += [f"{shapes.turned / total:.0%} to be turned upright (EXIF)"] * bool(shapes.turned)
    (height, width), (most_height, most_width) = shapes.smallest, shapes.largest
    sides = f"; from {height} × {width} to {most_height} × {most_width}"
    return [("shapes", ", ".join(parts) + sides * (shapes.smallest != shapes.largest))]


def _say_copies(copies: float) -> str:
    if not copies:
        return "none seen among some of the files that have the same size"
    return f"about {copies:.1%} are copies of another file, and stored once"


def _label_rows(layout: Layout, kind: str) -> list[tuple[str, str]]:
    """What the images' labels were taken for."""
    if layout.masks and layout.masks.templates:
        images, masks = layout.masks.templates
        shown = describe_levels(layout.levels)
        return [("images are", images), ("masks are", masks), ("masks show", shown)]
    if layout.classes:
        rows = [(_NAMES.get(kind, kind), f"{len(layout.classes):,}: {_list_some(layout)}")]
        rare = sum(count < _FEW_OF_A_CLASS for count in layout.classes.values())
        if rare and layout.generator is None:
            few = f"{format_count(rare, 'class')} of fewer than {_FEW_OF_A_CLASS}"
            rows.append(("hard to learn", f"{few}: add images, or expect little of them"))
        return rows
    if kind == "values":
        return [("values", describe_labels(layout).removeprefix("values "))]
    if layout.has_masks:
        return [("classes", "those of the masks")]
    return [("classes", "none found: the images can be ingested, but not used for training")]


def _list_columns(layout: Layout) -> str:
    """Each name with the column that it stands for, or with its type."""
    parts = [
        f"{name}: {column!r}" if name not in layout.column_types else f"{name} ({type_})"
        for name, column in layout.columns.items()
        if column is not None
        for type_ in [layout.column_types.get(name)]
    ]
    return ", ".join(parts)


def _list_some(layout: Layout) -> str:
    classes = layout.classes
    some = [f"{name} ({count:,})" for name, count in list(classes.items())[:_MOST_CLASSES]]
    text = ", ".join(some + ["…"] * (len(classes) > _MOST_CLASSES))
    return text + (f"; separated by {layout.tag_separator!r}" if layout.tag_separator else "")
