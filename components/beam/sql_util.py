"""Puts a stand-in for `tfx_bsl.arrow.sql_util` in place, if it is missing.

TFDV 1.16, which runs where glibc is older than 2.39, imports it, and tfx-bsl 1.21 lacks it. `import
tfx` puts one in its place, but a worker of Beam that was sent TFDV's code imports only TFDV. So
jobs of StatisticsGen have their workers import this module first.
"""

import importlib
import sys
import types

_MISSING = "tfx_bsl.arrow.sql_util"


class RecordBatchSQLSliceQuery:
    """The class that TFDV names in annotations, and calls only for slices given as SQL."""

    def __init__(self, sql: str, arrow_schema: object):
        """Refuses."""
        raise NotImplementedError(
            f"slices cannot be given as SQL: this version of tfx-bsl has no {_MISSING}; "
            "give slice functions or feature names instead."
        )


try:
    importlib.import_module(_MISSING)
except ModuleNotFoundError:
    sys.modules[_MISSING] = types.ModuleType(_MISSING)
    sys.modules[_MISSING].RecordBatchSQLSliceQuery = (  # type: ignore[attr-defined]
        RecordBatchSQLSliceQuery
    )
