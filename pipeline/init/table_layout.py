"""What a table of images says, as a layout for a starter configuration."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from image_pipeline.components.ingest.open_source import (
    complete_options,
    no_usable_row,
    open_source,
)
from image_pipeline.components.ingest.options import IngestOptions
from image_pipeline.components.ingest.path_patterns import label_of
from image_pipeline.components.sources.references import ImageRef, Said
from image_pipeline.init.layout import SPLIT_NAMES, Layout

_ORDER = {"train": 0, "eval": 1, "test": 2}


@dataclasses.dataclass
class _Problems:
    """The rows that cannot be used: how many, and what is wrong with the first."""

    count: int = 0
    first: str = ""

    def leave_out(self, refs: Iterable[ImageRef]) -> Iterator[tuple[ImageRef, Said]]:
        """The other rows, with what the table says of each."""
        for ref in refs:
            if ref.problem is None and ref.said is not None:
                yield ref, ref.said
            else:
                self.count += 1
                self.first = self.first or ref.message


def read_layout(table: str) -> tuple[Layout, list[str], str]:
    """Reads a table as ingest would.

    Args:
      table: its path or URI, or the pattern of one a split.

    Returns:
      The layout, the paths of the rows that can be used, and the folder that they start from.

    Raises:
      UserError: if the table cannot be read.
    """
    options = complete_options(table, IngestOptions())
    source = open_source(table, options)
    classes: collections.Counter[str] = collections.Counter()
    named: collections.Counter[str] = collections.Counter()
    paths, problems = [], _Problems()
    for ref, said in problems.leave_out(source.list()):
        paths.append(ref.path)
        classes.update(filter(None, [label_of(ref, options)]))
        named.update(filter(None, [said.split]))
    if not paths:
        raise no_usable_row(table, problems.count, problems.first)
    own, columns = _name_splits(named), dict(options.columns)
    if "{SPLIT}" in table and not own:
        own = {name: name for name in sorted(named)}
    if not own and "split" in columns:
        columns |= {"split": None, "table_split": columns["split"]}
    layout = Layout(
        "a table",
        len(paths),
        problems.count,
        label_pattern=None if "label" in options.columns else options.path_label_pattern,
        classes=dict(sorted(classes.items())),
        split_names={name: split for name, split in own.items() if name != split},
        splits=_count_splits(own, named),
        columns=columns,
        column_types=options.column_types,
    )
    return layout, paths, source.root


def _count_splits(own: Mapping[str, str], named: Mapping[str, int]) -> dict[str, int]:
    """The rows of each split by the pipeline's names, training's first."""
    splits: collections.Counter[str] = collections.Counter()
    for name, split in own.items():
        splits[split] += named[name]
    return dict(sorted(splits.items(), key=lambda item: _ORDER.get(item[0], len(_ORDER))))


def _name_splits(named: Mapping[str, int]) -> dict[str, str]:
    """The pipeline's name for each split that rows name; none if no split is for training."""
    own = {name: SPLIT_NAMES.get(name.lower(), name) for name in sorted(named)}
    if "train" not in own.values():
        return {}
    if "eval" not in own.values():  # Training needs one.
        own = {name: "eval" if split == "test" else split for name, split in own.items()}
    return own
