"""A limit on address space is refused when a library that needs more is about to be imported."""

import resource
import sys

import pytest

from image_pipeline import address_space
from image_pipeline.components.errors import UserError

pytestmark = pytest.mark.unit


@pytest.fixture
def limited(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(address_space, "usable_cores", lambda: 4)

    def limit(size_mb):
        size = resource.RLIM_INFINITY if size_mb is None else size_mb * 2**20
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (size, resource.RLIM_INFINITY))
        address_space.guard_imports()
        return sys.meta_path[0]

    return limit


@pytest.mark.parametrize(
    ("module", "needed_mb"), [("numpy", 1000), ("apache_beam", 4000), ("tensorflow", 6500)]
)
def test_a_library_is_imported_where_it_has_room(limited, module, needed_mb):
    assert limited(needed_mb).find_spec(module, None) is None
    refused = (
        rf"{needed_mb:,} MB of address space.*allows {needed_mb - 1:,} MB; .*{needed_mb * 1024}"
    )
    with pytest.raises(UserError, match=refused):
        limited(needed_mb - 1).find_spec(module, None)
    assert limited(1).find_spec("json", None) is None


def test_without_a_limit_nothing_is_guarded(limited):
    before = list(sys.meta_path)
    limited(None)
    assert sys.meta_path == before
