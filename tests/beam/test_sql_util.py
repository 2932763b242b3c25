"""TFDV can be imported first, without TFX, once the stand-in is there."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.e2e


def _run(code):
    """What a fresh Python prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_tfdv_is_imported_without_tfx():
    code = (
        "import image_pipeline.components.beam.sql_util, tensorflow_data_validation, sys;"
        "print('tfx' in sys.modules)"
    )
    assert _run(code) == "False"


def test_slices_by_sql_are_refused_instead_of_made_up():
    code = (
        "import image_pipeline.components.beam.sql_util;"
        "from tfx_bsl.arrow import sql_util\n"
        "try: sql_util.RecordBatchSQLSliceQuery('SELECT 1', None)\n"
        "except NotImplementedError as error: print(error)"
    )
    assert "slices cannot be given as SQL: this version of tfx-bsl has no tfx_bsl.arrow" in _run(
        code
    )


def test_a_module_that_is_there_stays():
    code = (
        "import sys, types; name = 'tfx_bsl.arrow.sql_util';"
        "own = sys.modules[name] = types.ModuleType(name);"
        "import image_pipeline.components.beam.sql_util;"
        "print(sys.modules[name] is own)"
    )
    assert _run(code) == "True"
