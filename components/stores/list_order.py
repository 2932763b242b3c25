"""Makes sure that a store's list has an order, so that nothing needs to be held to sort it.

Most stores list by names. Azure's with folders (hierarchical namespaces) list a folder's files
where the folder's name stands. Either order is the same each time, which is what counts.
"""

from collections.abc import Iterator

from image_pipeline.components.errors import UserError

Listed = tuple[str, int, float]  # URI, size in bytes, time of change in seconds


def check_order(listed: Iterator[Listed]) -> Iterator[Listed]:
    """Passes a list on while it is in the order of the names, or of folders and names.

    Raises:
      UserError: if it is in neither.
    """
    last, by_name, by_folder = "", True, True
    for each in listed:
        uri = each[0]
        by_name = by_name and last < uri
        by_folder = by_folder and last.replace("/", "\0") < uri.replace("/", "\0")
        if not (by_name or by_folder):
            raise UserError(
                f"{uri} is listed behind {last}: its store lists in no order, so images might be "
                "in another one each time. Give a table of their URIs instead."
            )
        last = uri
        yield each
