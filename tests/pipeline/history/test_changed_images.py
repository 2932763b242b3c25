import pytest

from image_pipeline.history.reasons import compare_images
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam


def test_images_that_came_went_and_changed_are_counted(tmp_path):
    images = write_folder(tmp_path / "images", per_class=5)
    names = sorted(path for path in images.rglob("*") if path.is_file())
    (images / "cat" / "bad.png").write_bytes(encode_png(draw(50))[:40])
    options = {"max_bad_fraction": 0.5}
    old, same, new = (str(tmp_path / name) for name in ("old", "same", "new"))
    ingest(images, old, **options)
    ingest(images, same, **options)
    (images / "cat" / "bad.png").write_bytes(encode_png(draw(50)))
    names[0].unlink()
    names[1].write_bytes(encode_png(draw(51)))
    names[2].write_bytes(names[2].read_bytes()[:30])
    for number in (60, 61):
        (images / "dog" / f"{number}.png").write_bytes(encode_png(draw(number)))
    ingest(images, new, **options)
    told = "2 new, 1 repaired, 1 gone, 1 now unusable, 1 changed"
    assert compare_images(old, new) == told
    assert compare_images(old, same).startswith("only the times")
    assert compare_images(old, str(tmp_path / "none")) is None
    assert compare_images(None, new) is None
