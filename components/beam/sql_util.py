"""Puts a stand-in for `tfx_bsl.arrow.sql_util` among the packages, if TFDV needs one.

TFDV 1.16, which runs where glibc is older than 2.39, imports it, and tfx-bsl 1.21 lacks it. `import
tfx` makes one in its own process; a worker of Beam that was sent TFDV's code imports only TFDV. So
`python -m image_pipeline.components.beam.sql_util` gives the environment of workers a file, once.
"""

import importlib.metadata
import importlib.util
import pathlib
import re

_STAND_IN = '''"""A stand-in of image-pipeline's: TFDV 1.16 imports this module."""


class RecordBatchSQLSliceQuery:
    """The class that TFDV names in annotations, and calls only for slices given as SQL."""

    def __init__(self, sql, arrow_schema):
        """Refuses."""
        raise NotImplementedError(
            "slices cannot be given as SQL: this version of tfx-bsl has no sql_util; "
            "give slice functions or feature names instead."
        )
'''


def put_in_place() -> bool:
    """Writes the file, unless there is such a module, or TFDV needs none; tells whether it did."""
    try:
        version = importlib.metadata.version("tensorflow-data-validation")
    except importlib.metadata.PackageNotFoundError:
        return False
    found = importlib.util.find_spec("tfx_bsl")
    is_enough = tuple(map(int, re.findall(r"\d+", version)[:2])) >= (1, 21)
    if found is None or not found.submodule_search_locations or is_enough:
        return False
    folder = pathlib.Path(found.submodule_search_locations[0], "arrow")
    if any(folder.glob("sql_util*")):
        return False
    (folder / "sql_util.py").write_text(_STAND_IN)
    return True


if __name__ == "__main__":
    put_in_place()
