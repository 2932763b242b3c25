"""Images of 16 bits stored in 8: what is found in all of them, and that all of them get it."""

import pathlib
import pickle
import re
import shutil

import cv2
import numpy as np
import pytest
import tifffile

from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import find_depth as finding
from image_pipeline.components.ingest.find_depth import Counted, add_up, find_depth
from image_pipeline.components.ingest.forecast import forecast_ingest
from image_pipeline.components.ingest.work_folder import WorkFolder
from image_pipeline.components.meaning import listing
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.run.source_note import check_same_source
from tests.drawings import write_folder
from tests.images.extra_files import save_dicom
from tests.ingest.test_tables import _read_records
from tests.ingest_runs import OPTIONS, ingest, read_files, stopped_at_a_shard, update

pytestmark = pytest.mark.beam

PREPARE = {"encoding": "png", "resize": "none"}
PERCENTS = {"low": "0.5%", "high": "99%"}


def draw(number):
    """As of a camera of 12 bits, with a black level: uint16 [9, 11, 3]."""
    noise = np.random.default_rng(number).gamma(2, 300, (9, 11, 3))
    return np.clip(64 + noise, 0, 4095).astype(np.uint16)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Gray TIFFs and PNGs in colour, of 16 bits; PNGs of 8; damaged files, brighter than all."""
    folder = tmp_path_factory.mktemp("deep") / "images"
    for name in "ab":
        (folder / name).mkdir(parents=True)
    for number in range(12):
        path, pixels = str(folder / "ab"[number % 2] / f"{number:02d}"), draw(number)
        if number % 3 == 0:
            tifffile.imwrite(f"{path}.tif", pixels[:, :, 0])
        elif number % 3 == 1:
            cv2.imwrite(f"{path}.png", pixels[:, :, ::-1])
        else:
            cv2.imwrite(f"{path}.png", (pixels[:, :, ::-1] >> 4).astype(np.uint8))
    bright = cv2.imencode(".png", np.full((9, 11), 65000, np.uint16))[1].tobytes()
    (folder / "b" / "cut.png").write_bytes(bright[:-15])
    (folder / "b" / "damaged.png").write_bytes(bright[:-20] + bytes(4) + bright[-16:])
    return folder


def read_sources(images):
    """Pixels of the whole files, by name."""
    found = {}
    for path in sorted(images.rglob("??.*")):
        read = tifffile.imread(path) if path.suffix == ".tif" else cv2.imread(str(path), -1)
        found[str(path.relative_to(images))] = read if read.ndim == 2 else read[:, :, ::-1]
    return found


@pytest.mark.parametrize("asked", [{"high": "100%"}, {"low": "10%", "high": "90%"}])
def test_dicom_files_without_a_window_are_counted_and_stretched_as_others_are(tmp_path, asked):
    folder = tmp_path / "images"
    folder.mkdir()
    drawn = [draw(number)[:, :, 0] for number in range(4)]
    for number, pixels in enumerate(drawn):
        elements = {"BitsStored": 12, "HighBit": 11, "RescaleSlope": 2, "RescaleIntercept": -1024}
        (folder / f"{number}.dcm").write_bytes(save_dicom(pixels, **elements))
    window = {"WindowCenter": 40, "WindowWidth": 400}
    (folder / "window.dcm").write_bytes(save_dicom(draw(9)[:, :, 0], **window))
    manifest = run(folder, tmp_path / "out", asked, splits={"train": 1}, label_pattern=None)
    percents = [float(asked.get(end, of).rstrip("%")) for end, of in (("low", "0%"), ("high", ""))]
    low, high = np.percentile(np.stack(drawn), percents, method="inverted_cdf")
    low = low if "low" in asked else 0
    assert manifest.options["prepare"]["depth"]["found"] == [low, high]
    assert "finds them in 4 images" in manifest.options["understood"][-1]
    for number, pixels in enumerate(drawn):
        expected = np.floor(
            (np.clip(pixels.astype(int), low, high) - float(low)) * 255 / (high - low) + 0.5
        )
        stored = read_stored(tmp_path / "out")[f"{number}.dcm"]
        np.testing.assert_array_equal(stored[:, :, 0], expected)


def run(images, output, depth, **options):
    options |= {"prepare": PREPARE | {"depth": depth}, "max_bad_fraction": 0.5}
    return ingest(images, output, **options)


def read_stored(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Pixels of the records, by name."""
    found = {}
    for serialized in _read_records(folder):
        values = record.decode_example(serialized)
        pixels = cv2.imdecode(np.frombuffer(values[record.IMAGE], np.uint8), cv2.IMREAD_COLOR_RGB)
        found[values[record.FILENAME].decode()] = pixels
    return found


@pytest.mark.parametrize("depth", ["maximum", PERCENTS], ids=["maximum", "percents"])
def test_what_is_found_in_all_usable_images_is_done_to_each(images, tmp_path, depth):
    manifest = run(images, tmp_path / "out", depth)
    sources = read_sources(images)
    values = np.concatenate([s.ravel() for s in sources.values() if s.dtype == np.uint16])
    low, high = (0, int(values.max()))
    if depth == PERCENTS:
        low, high = (int(np.percentile(values, p, method="inverted_cdf")) for p in (0.5, 99))
    assert manifest.depth == (low, high)
    (said,) = manifest.options["understood"]
    assert f"values from {low:,} to {high:,} become 0 to 255" in said and "in 8 images" in said
    stored = read_stored(tmp_path / "out")
    assert stored.keys() == sources.keys() and manifest.books.quarantined == 2
    for name, source in sources.items():
        clipped = np.clip(source.astype(int), low, high) - low
        expected = np.floor(clipped * 255 / (high - low) + 0.5)
        expected = source if source.dtype == np.uint8 else expected
        expected = expected if expected.ndim == 3 else np.dstack([expected] * 3)
        np.testing.assert_array_equal(stored[name], expected, err_msg=name)


def test_the_result_is_the_same_however_the_images_are_shared_out(images, tmp_path, monkeypatch):
    run(images, tmp_path / "one", PERCENTS, threads=1)
    monkeypatch.setattr(listing, "_MOST_REFS", 3)
    run(images, tmp_path / "many", PERCENTS, threads=4)
    assert read_files(tmp_path / "one") == read_files(tmp_path / "many")
    assert pickle.loads(pickle.dumps(add_up([Counted(2, 1, np.ones(65536, np.int64))]))).listed == 2


def test_an_interrupted_ingest_goes_on_with_the_same_numbers(images, tmp_path, monkeypatch):
    run(images, tmp_path / "whole", "maximum")
    with stopped_at_a_shard(monkeypatch):
        run(images, tmp_path / "out", "maximum")

    def fail(*_):
        raise AssertionError("counted again")

    monkeypatch.setattr(finding, "count_levels", fail)
    run(images, tmp_path / "out", "maximum")
    assert read_files(tmp_path / "out") == read_files(tmp_path / "whole")


def test_images_are_taken_while_the_levels_that_were_found_stay(images, tmp_path):
    folder = tmp_path / "images"
    shutil.copytree(images, folder)
    high = run(folder, tmp_path / "out", "maximum").depth[1]
    bright = np.full((9, 11), 4095, np.uint16)
    bright[0] = high - 1
    cv2.imwrite(str(folder / "b" / "cut.png"), bright)
    options = {"prepare": PREPARE | {"depth": "maximum"}, "max_bad_fraction": 0.5}
    chosen = IngestOptions.model_validate(OPTIONS | options)
    check_same_source(str(tmp_path / "out"), list_images(str(folder), chosen))
    assert update(folder, tmp_path / "out", tmp_path / "other", **options) == 0  # It is higher.
    bright[1:] = high
    cv2.imwrite(str(folder / "b" / "cut.png"), bright)
    assert update(folder, tmp_path / "out", tmp_path / "same", **options) == 12
    stored = read_stored(tmp_path / "same")["b/cut.png"][:, 0, 0]
    assert set(stored[1:]) == {255} and stored[0] == np.floor((high - 1) * 255 / high + 0.5)
    assert read_manifest(str(tmp_path / "same")).depth == (0, high)


def test_masks_of_16_bits_are_not_images(images, tmp_path):
    """Their numbers are classes, whatever images are stretched to."""
    for number in range(4):
        for name, pixels in (("images", draw(number)), ("masks", draw(number)[:, :, 0] % 3)):
            (tmp_path / "set" / name).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(tmp_path / "set" / name / f"{number}.png"), pixels)
    masks = {"images": "images/{key}.*", "masks": "masks/{key}.png"}
    manifest = run(tmp_path / "set", tmp_path / "out", "maximum", masks=masks)
    assert manifest.depth == (0, max(int(draw(number).max()) for number in range(4)))
    assert manifest.books.written == 4
    assert {id_ for split in manifest.splits.values() for id_ in split.mask_pixels} == {*"012"}


def test_without_images_of_16_bits_nothing_changes(tmp_path):
    folder = write_folder(tmp_path / "images", per_class=3)
    manifest = run(folder, tmp_path / "out", "maximum")
    assert manifest.depth == (0, 65535)
    assert "no usable image has them" in manifest.options["understood"][0]


def test_a_lost_chunk_stops_the_run(images, tmp_path):
    with pytest.raises(RuntimeError, match="Stage CountLevels lost files: None in, 0 out"):
        find_depth(add_up([]), WorkFolder(str(tmp_path)), IngestOptions())


def test_a_forecast_is_of_what_the_sample_comes_to(images):
    sizes = {}
    for depth in ("shift", "maximum"):
        options = {"prepare": PREPARE | {"depth": depth}}
        chosen = IngestOptions.model_validate(options)
        sizes[depth] = forecast_ingest(str(images), chosen).stored_bytes["png"]
    assert sizes["maximum"] > sizes["shift"]  # 17 levels need fewer bytes


def test_what_is_not_read_twice_needs_numbers():
    options = IngestOptions.model_validate({"prepare": {"depth": "maximum"}})
    with pytest.raises(UserError, match="a generator's are not made twice"):
        complete_options("generator:tests.drawings:draw", options)
    with pytest.raises(ValueError, match="in_place stores no values"):
        IngestOptions.model_validate(
            {"in_place": True, "prepare": PREPARE | {"encoding": "raw", "depth": {"high": 9}}}
        )


@pytest.mark.parametrize(
    ("depth", "said"),
    [
        ("shift", r"\d of \d images .* up to [\d,]+: they are stored with 8, where \d+ of 256 "
            r"levels are left; ingest.prepare.depth=maximum spreads"),
        ({"high": 900}, r"up to [\d,]+: all above ingest.prepare.depth.high=900 become 255"),
        ({"high": 65000}, None),
        ("maximum", None),
    ],
)  # fmt: skip
def test_what_is_lost_is_told_with_the_way_out(images, depth, said):
    options = IngestOptions.model_validate({"prepare": PREPARE | {"depth": depth}})
    noticed = list_images(str(images), options).noticed
    assert len(noticed) == (said is not None)
    assert said is None or re.search(said, noticed[0])
