"""The random steps of training where a configuration names none: `init`, `run` and compile choose.

They choose once, before anything is run, and write the steps into the configuration: so TFX's cache
key, Kubeflow's templates, the metadata of a run and all that reads these have the same list.
"""

import itertools
from typing import Any

import numpy as np

from image_pipeline.components import files
from image_pipeline.components.dataset.index_file import scan_index
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.labels.kinds import CLASSES, find_kind
from image_pipeline.components.meaning.listing import Listing
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.config import PipelineConfig
from image_pipeline.init.mirror import MOST_NAMES, Mirrored, look_at_mirrored
from image_pipeline.init.sizes import measure_sizes

SMALL_PX = 64
"""Sides below it make an image small; JPEG's blocks are a large part of it, too."""
_LOOKED_AT = 20  # images whose sizes tell whether they are small
# Moved images teach more only where a model has learned the images as they are: it takes so many,
# seen so often.
_MOVED_IMAGES, _MOVED_EPOCHS = 5_000, 20
# Crops of at least such a share of the area, by how many images there are: of few images, a model
# sees each so often that it learns more of the whole of them; 8 % is usual for ImageNet's million.
_LEAST_AREAS = ((5_000, 0.5), (100_000, 0.25))
_LEAST_OF_MANY, _LEAST_WITH_PLACES = 0.08, 0.3


def choose_steps(
    kind: str,
    shorter_px: int,
    *,
    images: int | None = None,
    epochs: int = 1,
    is_sound: bool = False,
    mirrored: bool = True,
) -> tuple[list[str | dict[str, Any]], str]:
    """Chooses the random steps that suit images.

    Sounds have one, for crops and mirrors would change pitches and turn time around: black
    rectangles hide some pitches for some time (SpecAugment). Small images are only moved, by up to
    an eighth of a side, as is usual for CIFAR, and only 5,000 or more that are seen 20 times or
    more: of a crop of 8 % of 32 x 32 pixels, 9 x 9 would be left. Those with masks or boxes are
    cropped to 30 % of their area at least, since a smaller crop leaves few of the objects. Others
    are cropped to half of it at least if there are fewer than 5,000, to a quarter of it below
    100,000, and else to 8 %, as is usual for photos since Inception. All images are also mirrored,
    unless this makes another class of one.

    Args:
      kind: of the labels, as `LabelKind.name` has it.
      shorter_px: the shorter side of the median image.
      images: how many there are; None if that is unknown.
      epochs: how often a model sees each.
      is_sound: whether the images are pictures of sounds.
      mirrored: whether a mirrored image is as good as the image.

    Returns:
      The steps as a configuration names them, and what they suit, in words.
    """
    if is_sound:
        return ["random_erasing"], "sounds"
    mirror: list[str | dict[str, Any]] = ["flip_horizontal"] if mirrored else []
    if shorter_px < SMALL_PX:
        is_moved = epochs >= _MOVED_EPOCHS and (images is None or images >= _MOVED_IMAGES)
        moves: list[str | dict[str, Any]] = ["pad_and_crop"] if is_moved else []
        return [*moves, *mirror], f"images with sides below {SMALL_PX} pixels"
    if kind in ("masks", "boxes"):
        least, suited = _LEAST_WITH_PLACES, f"photos with {kind}"
    else:
        areas = (area for most, area in _LEAST_AREAS if images is None or images < most)
        least, suited = next(areas, _LEAST_OF_MANY), "photos"
        suited += f", of which there are {images:,}" if images is not None else ""
    return [{"op": "random_resized_crop", "area": [least, 1]}, *mirror], suited


def complete_steps(
    config: PipelineConfig, listing: Listing | None = None
) -> tuple[PipelineConfig, str]:
    """Completes a configuration that names no random steps by those that suit the images.

    Args:
      config: with what is known of the images in its group `ingest`.
      listing: the images; None where they are not to be seen: then the view tells whether they are
        small, and they are mirrored.

    Returns:
      The configuration, and a sentence that says what was chosen; "" if steps were named.
    """
    if config.feeding.augment is not None:
        return config, ""
    labels = config.ingest.label_kind
    mirrored = shorter_px = None
    lists_images = listing is not None and listing.kind.lists_images
    # Before a run no generator is called, and no video read.
    if listing is not None and lists_images and listing.options.video is None:
        if labels is CLASSES and files.is_local(listing.images):  # Else it would take long.
            some = _take(listing, MOST_NAMES)
            mirrored = look_at_mirrored(listing.source, some, listing.options)
        if (sizes := measure_sizes(listing.source, _take(listing, _LOOKED_AT))) is not None:
            shorter_px = min(sizes.height_px, sizes.width_px)
    return _complete(
        config,
        labels.name,
        config.ingest.prepare.sound is not None,
        shorter_px,
        listing.found if listing is not None and lists_images else None,
        mirrored,
    )


def complete_steps_for(
    config: PipelineConfig, data_dir: str, manifest: Manifest
) -> tuple[PipelineConfig, str]:
    """The same for a data set: by what it holds, whatever the configuration says of ingest.

    Whether mirrored images are of other classes is not looked at.
    """
    if config.feeding.augment is not None:
        return config, ""
    is_sound = manifest.options.get("prepare", {}).get("sound") is not None
    sides = next(scan_index(data_dir, ["height", "width"]), None)  # Shuffled: the first tell.
    shorter_px = None if sides is None else min(int(np.median(each)) for each in sides.columns)
    kind = find_kind(manifest.columns).name
    return _complete(config, kind, is_sound, shorter_px, manifest.books.found)


def _complete(
    config: PipelineConfig,
    kind: str,
    is_sound: bool,
    shorter_px: int | None,
    images: int | None,
    mirrored: Mirrored | None = None,
) -> tuple[PipelineConfig, str]:
    if shorter_px is None:
        shorter_px = min(config.view.height_px, config.view.width_px)
    changed = mirrored if mirrored is not None and mirrored.changes_class else None
    steps, suited = choose_steps(
        *(kind, shorter_px),
        images=images,
        epochs=config.training.epochs,
        is_sound=is_sound,
        mirrored=changed is None,
    )
    feeding = FeedingOptions.model_validate(config.feeding.model_dump() | {"augment": steps})
    names = ", ".join(step.model_dump()["op"] for step in feeding.steps) or "none"
    why = ""
    if changed is not None:
        why = f"; {changed.say()}"
    elif "flip_horizontal" in names and kind == "classes":
        why = "; leave out flip_horizontal where a mirrored image is another class"
    sentence = (
        "feeding.augment names no random steps; training takes those that suit "
        f"{suited}: {names}{why}. Name others, or [] for none"
    )
    return config.model_copy(update={"feeding": feeding}), sentence


def _take(listing: Listing, count: int) -> list[ImageRef]:
    """Some of the images, from everywhere."""
    apart = max(1, -(-listing.found // count))
    return list(itertools.islice(listing.refs(), 0, None, apart))
