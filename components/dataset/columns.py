"""The columns of records that an option names by their keys."""

from collections.abc import Sequence

from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest

# What a record says about its image in one value. The label is an input of its own, and the
# encoded image would be copied a second time beside its pixels.
EXTRA_COLUMNS = tuple(
    column
    for column in record.METADATA_COLUMNS
    if column.key != record.LABEL and not column.is_list
)


def choose_columns(
    option: str, keys: Sequence[str], further: Sequence[record.Column]
) -> tuple[record.Column, ...]:
    """Finds columns by their keys.

    Args:
      option: the option that names them.
      keys: their feature keys.
      further: the further columns of the data set, as a table had them.

    Raises:
      UserError: if there is no such column, or it is a list.
    """
    label = record.label_column(further)
    known = {c.key: c for c in (*EXTRA_COLUMNS, *further) if not c.is_list and c != label}
    for key in keys:
        if key not in known:
            raise UserError(
                f"{option} names {key!r}, but the data set's columns of one value are "
                f"{', '.join(known)}; {suggest(key, known) or 'name one of those.'}".rstrip()
            )
    return tuple(known[key] for key in keys)
