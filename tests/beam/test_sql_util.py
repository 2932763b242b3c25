"""TFDV can be imported first, without TFX, by every Python that this project is installed for."""

import base64
import csv
import hashlib
import os
import shutil
import subprocess
import sys

import pytest

from tests.wheels import ROOT, build_and_unpack

pytestmark = pytest.mark.e2e


def _run(code, *arguments):
    """What a fresh Python prints; it sees this project, and of `.pth` files those of the tests."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What a wheel, and one for `--editable`, put among the packages."""
    kinds = ("wheel", "editable")
    return {kind: build_and_unpack(kind, tmp_path_factory.mktemp(kind)) for kind in kinds}


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_an_uninstall_finds_the_file(built, kind):
    content = (built[kind] / "sql_util.pth").read_bytes()
    assert content == (ROOT / "components" / "beam" / "sql_util.pth").read_bytes()
    (record,) = built[kind].glob("*.dist-info/RECORD")
    rows = {name: (digest, size) for name, digest, size in csv.reader(record.open())}
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    assert rows["sql_util.pth"] == (f"sha256={digest}", str(len(content)))
    files = {str(path.relative_to(built[kind])) for path in built[kind].rglob("*")}
    assert rows.keys() <= files


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_an_install_offers_the_module_before_any_other_import(built, kind):
    site_dir = built[kind].parent / f"only-{kind}"
    site_dir.mkdir()
    shutil.copy(built[kind] / "sql_util.pth", site_dir)
    code = (
        "import site, sys; sys.meta_path[:] = [f for f in sys.meta_path"
        " if type(f).__name__ != 'StandInFinder']; site.addsitedir(sys.argv[1]);"
        "import tensorflow_data_validation, tfx_bsl.arrow.sql_util as found;"
        "print(found.__loader__.__class__.__name__, 'tfx' in sys.modules)"
    )
    assert _run(code, site_dir) == "StandInFinder False"


def test_slices_by_sql_are_refused_instead_of_made_up():
    code = (
        "import image_pipeline.components.beam.sql_util as own;"
        "own.offer_stand_in(); own.offer_stand_in();"
        "import sys; print(sum(isinstance(f, own.StandInFinder) for f in sys.meta_path));"
        "from tfx_bsl.arrow import sql_util\n"
        "try: sql_util.RecordBatchSQLSliceQuery('SELECT 1', None)\n"
        "except NotImplementedError as error: print(error)"
    )
    count, message = _run(code).splitlines()
    assert count == "1"
    assert "slices cannot be given as SQL: this version of tfx-bsl has no tfx_bsl.arrow" in message


def test_other_missing_modules_stay_missing():
    code = (
        "import image_pipeline.components.beam.sql_util as own; own.offer_stand_in()\n"
        "try: import tfx_bsl.arrow.no_such\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert _run(code) == "No module named 'tfx_bsl.arrow.no_such'"
