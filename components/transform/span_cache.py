"""Which spans in tf.Transform's cache are complete.

tf.Transform lists a span's entries before it computes them, so a run that dies leaves a list of
missing files. A marker, written after the run, says what may be used.
"""

from collections.abc import Sequence

from image_pipeline.components import files
from image_pipeline.components.transform.analysed_sets import Span

_MARKER = "COMPLETE"


def drop_unfinished(cache_dir: str, spans: Sequence[Span]) -> None:
    """Deletes those spans' entries that no finished run has marked."""
    for span in spans:
        if not files.exists(_marker(cache_dir, span)):
            files.delete_tree(files.join(cache_dir, span.key))


def unmark(cache_dir: str, spans: Sequence[Span]) -> None:
    """Notes that entries of those spans are being written."""
    for span in spans:
        files.delete(_marker(cache_dir, span))


def mark(cache_dir: str, spans: Sequence[Span]) -> None:
    """Notes that those spans' entries are complete."""
    for span in spans:
        files.write_file(_marker(cache_dir, span), b"")


def _marker(cache_dir: str, span: Span) -> str:
    return files.join(cache_dir, span.key, _MARKER)
