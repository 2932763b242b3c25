"""`image-pipeline seen`: which images a model was fed, and when."""

from typing import Any

import click

from image_pipeline.commands.shared import JSON, say, say_json


@click.command(short_help="Say when MODEL was fed an image, or what a batch held.")
@click.argument("model")
@click.option("--image", help="Its path below the images folder, or its record id.")
@click.option(
    "--step", type=click.IntRange(min=0), help="Number of a batch, from 0, over all epochs."
)
@click.option(
    "--data",
    "data_dirs",
    multiple=True,
    help="Folder of a data set, or of a run, if MODEL is not a run's folder; a version as DATA@2.",
)
@JSON
def seen(
    model: str, image: str | None, step: int | None, data_dirs: tuple[str, ...], as_json: bool
) -> None:
    """Say when MODEL was fed an image (--image), or which images a batch held (--step).

    MODEL is the output folder of a run, an exported or pushed model's, or a checkpoint's. It holds
    a certificate of a few hundred bytes, by which every batch that it was fed can be named again.
    Without --image and --step, prints that. A data set that was updated since is looked for among
    the versions whose indices it keeps.
    """
    if image is not None and step is not None:
        raise click.UsageError("give --image or --step, not both.")
    from image_pipeline.components.dataset.versions import explain_version, find_version
    from image_pipeline.components.feeding.certificate import FedBatches
    from image_pipeline.named_model import find_certificate
    from image_pipeline.run_folder import RunFolder

    certificate = find_certificate(model)
    named = RunFolder(model).list_data_sets()
    for folder in data_dirs:
        version = find_version(folder)
        named += [version] if version else RunFolder(folder).list_data_sets() or [folder]
    versions = {
        checksum: version
        for part in certificate.parts
        for checksum, _ in part.data
        for root in named
        if (version := explain_version(root, checksum))
    }
    if image is None and step is None:
        if as_json:
            say_json({**vars(certificate), "versions": versions})
        for part in () if as_json else certificate.parts:
            data = ", ".join(
                f"{split} of {checksum[:16]}…"
                + (f" ({versions[checksum]})" if checksum in versions else "")
                for checksum, split in part.data
            )
            batches = f"{part.steps:,} batches of {part.feeding['batch_size']:,}"
            first, end = (f"epoch {epoch} step {step}" for epoch, step in (part.first, part.end))
            say(f"{batches}, from {first} up to {end}: {data}, seed {part.seed}")
        if certificate.started_from and not as_json:
            say(f"What came before is not known: it started from {certificate.started_from}.")
        return
    fed = FedBatches(certificate, named)
    found = fed.find(image) if image is not None else fed.list_batch(step or 0)
    if as_json:
        told = {"started_from": certificate.started_from, "versions": versions}
        say_json({"seen": found, **told})
        return
    for version in versions.values():
        say(f"The model was fed {version}.")
    from rich.console import Console

    from image_pipeline.show.terminal import Table, print_table

    heads = ("image", "label", "epoch", "step", "place", "crop: top, left, height, width")
    rows = [
        (each.source, each.label, *map(str, (each.epoch, each.step, each.place)), _say_crop(each))
        for each in found
    ]
    if not rows:
        say(f"The model was never fed {image!r}, though it is in its data.")
        return
    print_table(Table(heads, rows, texts=(1, 5)), Console(highlight=False))


def _say_crop(fed: Any) -> str:
    crop = ", ".join(map(str, fed.window)) if fed.window else "none at random"
    return f"{crop}, mirrored" if fed.mirrored else crop
