"""A stand-in for `tfx_bsl.arrow.sql_util`, which TFDV 1.16.1 imports and tfx-bsl 1.21 lacks.

`import tfx` puts one in its place, but a Beam worker that was sent TFDV's code imports only TFDV.
So `sql_util.pth` is installed among the packages, where Python reads it at every start, and calls
`offer_stand_in`. A real module always wins.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

# No `importlib.abc`: it would make every start of Python in this environment 50 ms slower.

_MISSING = "tfx_bsl.arrow.sql_util"


class RecordBatchSQLSliceQuery:
    """The class that TFDV names in annotations, and calls only for slices given as SQL."""

    def __init__(self, sql: str, arrow_schema: object):
        """Refuses."""
        raise NotImplementedError(
            f"slices cannot be given as SQL: this version of tfx-bsl has no {_MISSING}; "
            "give slice functions or feature names instead."
        )


class StandInFinder:
    """Finds and loads this one module, if no other finder does."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Its spec; None for every other module."""
        return ModuleSpec(name, self) if name == _MISSING else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves that to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Fills the module."""
        module.RecordBatchSQLSliceQuery = RecordBatchSQLSliceQuery  # type: ignore[attr-defined]


def offer_stand_in() -> None:
    """Puts the finder last, once."""
    if not any(isinstance(finder, StandInFinder) for finder in sys.meta_path):
        sys.meta_path.append(StandInFinder())
