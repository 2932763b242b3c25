"""Modules of a person's own are looked for in what the workers get."""

import pathlib
import tarfile
import zipfile

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.stores import remote
from image_pipeline.run.dataflow import check_own_modules, find_own_modules
from tests.noting_store import NotingStore

pytestmark = pytest.mark.unit

OWN = {"transform.preprocessing_fn=photos.views.scale": "photos"}


def _pack(folder, kind):
    (folder / "photos").mkdir()
    (folder / "photos" / "__init__.py").write_text("")
    path = folder / f"photos-1.0.{kind}"
    if kind == "tar.gz":
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder / "photos", "photos-1.0/src/photos")
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(folder / "photos" / "__init__.py", "photos/__init__.py")
    return str(path)


def test_what_is_this_projects_own_is_nobody_elses():
    ours = "image_pipeline.components.transform.preprocessing.standardize"
    assert find_own_modules("gs://bucket/images", ours) == {}
    assert find_own_modules(None, None) == {}


def test_modules_are_found_wherever_they_are_named():
    assert find_own_modules("source:photos.db:open:x", "views.scale") == {
        "--images=source:photos.db:open:x": "photos",
        "transform.preprocessing_fn=views.scale": "views",
    }
    assert find_own_modules("generator:made:images", None) == {
        "--images=generator:made:images": "made"
    }


@pytest.mark.parametrize("kind", ["tar.gz", "whl"])
def test_a_package_may_have_it(tmp_path, kind):
    assert check_own_modules(OWN, {"extra_packages": [_pack(tmp_path, kind)]}) == []


def test_a_setup_file_may_have_it_beside_it(tmp_path):
    (tmp_path / "photos.py").write_text("")
    assert check_own_modules(OWN, {"setup_file": f"{tmp_path}/setup.py"}) == []


def test_an_image_may_have_it_which_nobody_can_see():
    assert check_own_modules(OWN, {"sdk_container_image": "r/w:t"}) == ["photos"]


def test_without_an_image_it_is_missing(tmp_path):
    with pytest.raises(UserError, match="its module 'photos' is not in any package that"):
        check_own_modules(OWN, {"setup_file": f"{tmp_path}/setup.py"})


@pytest.mark.parametrize("kept_bytes", [0, 40, 60])
def test_a_package_that_is_none_is_named(tmp_path, kept_bytes):
    path = pathlib.Path(_pack(tmp_path, "tar.gz"))
    path.write_bytes(path.read_bytes()[:kept_bytes] or b"text")
    with pytest.raises(
        UserError, match=r"--extra_package=.*tar\.gz cannot be read: .*; check it.$"
    ):
        check_own_modules(OWN, {"extra_packages": [str(path)]})


def test_a_package_may_be_in_a_bucket(tmp_path, monkeypatch):
    local = _pack(tmp_path, "whl")
    uri = "gs://bucket/photos-1.0.whl"
    store = NotingStore("gs://bucket")
    store.held = {uri: pathlib.Path(local).read_bytes()}
    monkeypatch.setattr(remote, "_find_store", lambda _: store)
    assert check_own_modules(OWN, {"extra_packages": [uri]}) == []
