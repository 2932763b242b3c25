import shutil

import pytest

from image_pipeline.components import code_version as module
from image_pipeline.components.code_version import ROOMS, code_version

pytestmark = pytest.mark.unit


def test_a_change_in_a_room_changes_its_version_only(tmp_path, monkeypatch):
    copy = tmp_path / "components"
    shutil.copytree(module.pathlib.Path(module.__file__).parent, copy)
    monkeypatch.setattr(module, "__file__", str(copy / "code_version.py"))
    before = code_version("ingest"), code_version("training")
    (copy / "ingest" / "order.py").write_text("# changed")
    assert code_version("ingest") != before[0]
    assert code_version("training") == before[1]


def test_shared_modules_and_images_count_for_every_room(tmp_path, monkeypatch):
    copy = tmp_path / "components"
    shutil.copytree(module.pathlib.Path(module.__file__).parent, copy)
    monkeypatch.setattr(module, "__file__", str(copy / "code_version.py"))
    before = code_version("ingest")
    (copy / "record.py").write_text("# changed")
    assert code_version("ingest") != before


def test_every_room_is_known():
    here = module.pathlib.Path(module.__file__).parent
    assert sorted(path.parent.name for path in here.glob("*/__init__.py")) == list(ROOMS)
