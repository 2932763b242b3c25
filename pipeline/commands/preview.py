"""`image-pipeline preview`: what training gets to see, on one sheet."""

import click

from image_pipeline.commands.shared import CONFIG, SEED, SET, quiet_libraries, say

_ENDINGS = (".png", ".html")


@click.command(short_help="Draw what training sees of some images.")
@click.argument("folder", metavar="DATA")
@CONFIG
@SET
@click.option("--records", default=8, show_default=True, type=click.IntRange(1, 200))
@click.option(
    "--epochs",
    default=4,
    show_default=True,
    type=click.IntRange(1, 50),
    help="Training views of each record.",
)
@click.option("--split", default="train", show_default=True, help="Split to take records from.")
@SEED
@click.option(
    "--output",
    "output_path",
    default="preview.png",
    show_default=True,
    help="The sheet: .png, or .html for a self-contained page.",
)
def preview(
    folder: str,
    config_path: str | None,
    overrides: tuple[str, ...],
    records: int,
    epochs: int,
    split: str,
    seed: int | None,
    output_path: str,
) -> None:
    """Draw what training sees: stored images beside their eval and train views.

    DATA is the folder that ingest wrote, or the output folder of a run. For a run, its options
    are used (--config replaces them, --set changes them), and the model's input is drawn as well.
    The records are spread over the classes; the views are the pixels that training gets.
    """
    if not output_path.endswith(_ENDINGS):
        raise click.UsageError(f"--output must end in .png or .html, got {output_path!r}.")
    from image_pipeline.named_folder import find_source, list_split
    from image_pipeline.run_config import read_config
    from image_pipeline.show.html import write_output
    from image_pipeline.show.words import describe_steps

    source = find_source(folder)
    config = read_config(source, config_path, overrides)
    shards = [list_split(source.data_dir, split)]
    seed = config.training.seed if seed is None else seed
    steps, options = describe_steps(config.feeding.steps), (config.view, config.feeding)
    with quiet_libraries("preview"):
        from image_pipeline.preview.plots import save_sheet
        from image_pipeline.preview.samples import read_views
        from image_pipeline.report.page import GROUPS, render_page
        from image_pipeline.report.pictures import draw_views

        views = read_views(shards, *options, source.graph_dir, records, epochs, seed)
        if output_path.endswith(".html"):
            values = {"absent": {}, "views": draw_views(views, config, split, seed)}
            title = f"What training sees of {source.data_dir}"
            write_output(output_path, render_page(title, {"Views": GROUPS["Views"]}, values))
        else:
            title = f"{source.data_dir}, split {split}, seed {seed}"
            save_sheet(output_path, views, [title, *steps])
    say("\n".join([*steps, output_path]))
