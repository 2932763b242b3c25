"""What holds images must be as it was when they were listed."""

import os

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.sources.held import Place
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.components.sources.source_kinds import check_unchanged

pytestmark = pytest.mark.unit


def _refer(path, modified_ns, kind="bytes", within=None):
    return ImageRef("a.jpg", 1, modified_ns, place=Place(str(path), kind, 0, within=within))


def test_a_file_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(b"x")
    before_ns = os.stat(path).st_mtime_ns
    ref = _refer(path, before_ns)
    frame = _refer("video.mp4", before_ns, "frame", within=ref.place)
    masked = ImageRef("b.jpg", 1, 7, mask=ref)
    check_unchanged([ref, frame, masked])
    os.utime(path, ns=(before_ns, before_ns + 1))
    for each in (ref, frame, masked):
        with pytest.raises(UserError, match=r"a.tar' was changed after .* run again once nothing"):
            check_unchanged([each])


def test_what_cannot_be_told_is_not_refused(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x")
    check_unchanged([_refer(tmp_path / "a.tar", 0)])  # Its store says nothing of it.
    check_unchanged([_refer(tmp_path / "gone.tar", 7)])  # Whoever reads it says that.
    check_unchanged([_refer(tmp_path, 7, "array")])
    check_unchanged([_refer("video.mp4", 7, "frame"), ImageRef("a.jpg", 1, 7)])
