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
    option: str, keys: Sequence[str], further: Sequence[record.Column], with_lists: bool = False
) -> tuple[record.Column, ...]:
    """Finds columns by their keys.

    Args:
      option: the option that names them.
      keys: their feature keys.
      further: the further columns of the data set, as a table had them.
      with_lists: whether lists may be named.

    Raises:
      UserError: if there is no such column, or it is a list and may not be one.
    """
    label = record.label_column(further)
    usable = [c for c in (*EXTRA_COLUMNS, *further) if c != label]
    known = {c.key: c for c in usable if with_lists or not c.is_list}
    kind = "columns" if with_lists else "columns of one value"
    for key in keys:
        if key not in known:
            raise UserError(
                f"{option} names {key!r}, but the data set's {kind} are "
                f"{', '.join(known)}; {suggest(key, known) or 'name one of those.'}".rstrip()
            )
    return tuple(known[key] for key in keys)
