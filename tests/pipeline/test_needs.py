"""Too few addresses or threads are refused before a library is imported that needs more."""

import resource
import sys
import threading

import pytest

from image_pipeline import needs
from image_pipeline.components.errors import UserError

pytestmark = pytest.mark.unit

NONE = resource.RLIM_INFINITY


@pytest.fixture
def limited(monkeypatch):
    """What guards imports under a limit on addresses, in MB, and on threads."""
    monkeypatch.setattr(needs, "usable_cores", lambda: 4)

    def limit(size_mb=None, threads=NONE):
        size = NONE if size_mb is None else size_mb * 2**20
        limits = {resource.RLIMIT_AS: size, resource.RLIMIT_NPROC: threads}
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], NONE))
        before = list(sys.meta_path)
        with needs.guard_imports():
            added = [finder for finder in sys.meta_path if finder not in before]
        assert sys.meta_path == before
        return added

    return limit


@pytest.mark.parametrize(
    ("module", "needed_mb"), [("numpy", 1000), ("apache_beam", 4000), ("tensorflow", 6500)]
)
def test_a_library_is_imported_where_it_has_room(limited, module, needed_mb):
    (guard,) = limited(needed_mb)
    assert guard.find_spec(module, None) is None
    refused = (
        rf"{needed_mb:,} MB of address space.*allows {needed_mb - 1:,} MB; .*{needed_mb * 1024}"
    )
    (guard,) = limited(needed_mb - 1)
    with pytest.raises(UserError, match=refused):
        guard.find_spec(module, None)
    assert guard.find_spec("json", None) is None


def test_threads_that_cannot_be_started_are_told_before_tensorflow_is_imported(
    limited, monkeypatch
):
    (guard,) = limited(threads=100)
    for module in ("numpy", "tensorflow", "json"):
        assert guard.find_spec(module, None) is None
    before, start, left = set(threading.enumerate()), threading.Thread.start, iter(range(59))

    def start_if_any_is_left(thread):
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_any_is_left)
    with pytest.raises(UserError, match="needs 60 threads, and only 59 more can be started; allow"):
        guard.find_spec("tensorflow", None)
    with pytest.raises(UserError, match="needs 6 threads, and only 0 more"):
        guard.find_spec("numpy", None)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("threads", [NONE, 4096])
def test_without_a_limit_nothing_is_guarded(limited, threads):
    assert limited(threads=threads) == []
