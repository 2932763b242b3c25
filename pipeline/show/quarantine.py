"""Prints a data set's quarantine."""

from collections.abc import Sequence

from rich.console import Console

from image_pipeline.components.dataset.lists import Quarantined, read_list
from image_pipeline.components.dataset.manifest import has_manifest, read_whole_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.retry import is_interrupted, retry_work_dir
from image_pipeline.components.names import printable
from image_pipeline.run_folder import RunFolder
from image_pipeline.show.rows import print_rows


def read_quarantine(output_dir: str) -> tuple[dict[str, int], list[Quarantined]]:
    """How many files were rejected for each reason, and a line for each file.

    Raises:
      UserError: if there is no complete data set.
    """
    reasons = read_whole_manifest(output_dir).books.quarantine_reasons
    return reasons, read_list(output_dir, Quarantined)


def print_quarantine(reasons: dict[str, int], lines: Sequence[Quarantined]) -> None:
    """Shows the counts, then the files in columns; paths are never cut."""
    console = Console(highlight=False)
    print_rows([(reason, f"{count:,}") for reason, count in reasons.items()], console)
    paths = [printable(line.path) for line in lines]
    path_width = max(map(len, paths), default=0)
    reason_width = max(map(len, reasons), default=0)
    if lines:
        console.print()
    for path, line in zip(paths, lines, strict=True):
        reason, message = printable(line.reason), printable(line.message)
        text = f"{path:<{path_width}}  {reason:<{reason_width}}  {message}"
        console.print(text, soft_wrap=True, markup=False)
    if not lines:
        console.print("No file is in quarantine.")


def check_data_set(output_dir: str) -> None:
    """Makes sure that there is a data set, or an interrupted retry, before anything is written.

    Raises:
      UserError: if there is neither; or if it is a run, whose data sets later steps have used.
    """
    if not has_manifest(output_dir) and RunFolder(output_dir).list_data_sets():
        raise UserError(
            f"{output_dir!r} is a run's folder, whose data sets stay as they are; run again with "
            "the same --images and --output: it ingests what was repaired, too."
        )
    if not is_interrupted(output_dir, retry_work_dir(output_dir)):
        read_whole_manifest(output_dir)
