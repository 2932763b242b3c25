"""The lock files against requirements/advisories.toml: no version with a published fault.

What cannot be mended says why, and that must still be true.
"""

import importlib.metadata
import itertools
import pathlib
import re
import tomllib

import av
import cv2
import h5py
import pytest
import soundfile
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.locks import PYTHONS, read_pins

pytestmark = pytest.mark.unit

ROOT = pathlib.Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
ADVISORIES = tomllib.loads((REQUIREMENTS / "advisories.toml").read_text())
ENTRIES = [(package, entry) for package, entries in ADVISORIES.items() for entry in entries]
LOCKS = (
    "requirements.lock",
    *(f"requirements/{p.name}" for p in sorted(REQUIREMENTS.glob("*.lock"))),
)
# Versions of what the installed wheels bundle, and by that of what the locked ones do.
BUNDLED = {
    "FFmpeg": av.ffmpeg_version_info,
    "HDF5": h5py.version.hdf5_version,
    "OpenJPEG": re.search(r"JPEG 2000: .*ver ([\d.]+)", cv2.getBuildInformation())[1],
    "libsndfile": soundfile.__libsndfile_version__,
}


def _is_affected(entry, version):
    return any(version in SpecifierSet(each, prereleases=True) for each in _ranges(entry))


def _ranges(entry):
    return entry["affected"].split(" or ")


def _find_affected(pins):
    """The faults in pinned versions: package, id, and whether none is said to be newer."""
    for package, entry in ENTRIES:
        if package in pins:
            version = BUNDLED[entry["library"]] if "library" in entry else pins[package]
            if _is_affected(entry, version):
                yield package, entry["id"], entry.get("newest") == pins[package]


def _list_caps(holder, package):
    """What a package asks of another."""
    asked = map(Requirement, importlib.metadata.requires(holder))
    return [
        each.specifier
        for each in asked
        if each.name.lower() == package and (each.marker is None or each.marker.evaluate())
    ]


def test_no_locked_version_has_a_fault_that_a_newer_one_mends():
    for lock, python in itertools.product(LOCKS, PYTHONS):
        pins = read_pins(lock, python)
        assert len(pins) >= 10
        assert [(lock, python, *each) for each in _find_affected(pins) if not each[2]] == []


def test_locks_have_what_is_installed_whose_bundled_libraries_are_asked():
    for package, entry in ENTRIES:
        if "library" in entry:
            for lock in (LOCKS[0], "requirements/image.lock"):
                assert read_pins(lock)[package] == importlib.metadata.version(package)


def test_a_planted_old_version_is_found():
    pins = read_pins(LOCKS[0])
    assert list(_find_affected(pins | {"pillow": "12.3.0", "pyarrow": "18.1.0"}))[:3] == [
        ("pillow", "CVE-2026-112403", False),
        ("pillow", "CVE-2026-112395", False),
        ("pillow", "CVE-2026-96639", False),
    ]
    assert ("pyarrow", "CVE-2026-25087", False) in list(_find_affected({"pyarrow": "18.1.0"}))
    assert list(_find_affected({"pyarrow": "23.0.1"})) == []


def test_a_fault_of_a_bundled_library_is_found_and_excused_at_one_version_only(monkeypatch):
    newest = next(entry["newest"] for entry in ADVISORIES["h5py"] if "newest" in entry)
    assert {is_newest for *_, is_newest in _find_affected({"h5py": newest})} == {True}
    # A newer wheel, of the same library: look again whether there is none with a mended one.
    assert {is_newest for *_, is_newest in _find_affected({"h5py": "99.0"})} == {False}
    monkeypatch.setitem(BUNDLED, "HDF5", "1.14.6")
    assert ("h5py", "CVE-2025-44905", False) in list(_find_affected({"h5py": newest}))
    monkeypatch.setitem(BUNDLED, "HDF5", "2.2.0")
    assert list(_find_affected({"h5py": newest})) == []


def test_an_entry_says_all_and_contradicts_itself_nowhere():
    known = {"library", "id", "affected", "mended", "release", "about", "reached"}
    for _, entry in ENTRIES:
        assert re.fullmatch(r"CVE-20\d\d-\d{4,}|GHSA(-[a-z0-9]{4}){3}", entry["id"])
        assert entry["about"] and entry["reached"] and entry.get("library", "HDF5") in BUNDLED
        assert entry.keys() <= known | {"held_by", "newest"}
        assert entry.keys() & {"mended", "newest"}
        assert "mended" not in entry or not _is_affected(entry, entry["mended"])


def test_what_is_said_to_have_no_mended_release_is_still_affected():
    said = {(package, entry["id"], True) for package, entry in ENTRIES if "newest" in entry}
    assert said and said - {*_find_affected(read_pins(LOCKS[0]))} == set()


def test_a_cap_that_is_lifted_would_still_keep_the_mended_version_away():
    """Once it does not, the override and `held_by` go."""
    lines = (REQUIREMENTS / "overrides.txt").read_text().splitlines()
    overrides = [Requirement(line) for line in lines if line and not line.startswith("#")]
    held = [(package, entry) for package, entry in ENTRIES if "held_by" in entry]
    for package, entry in held:
        mended = entry.get("release", entry["mended"])
        caps = _list_caps(entry["held_by"], package)
        assert caps and not any(mended in cap for cap in caps), (package, caps)
        lifted = [mended in each.specifier for each in overrides if each.name == package]
        assert lifted == [True], package
    assert held
