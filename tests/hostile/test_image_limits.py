"""Images of few bytes that would take a decoder minutes or gigabytes."""

import io
import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from image_pipeline.components.dataset.stored import StoredImage
from image_pipeline.components.feeding.random_access import decode
from image_pipeline.components.images import containers, jpeg, tiff
from image_pipeline.components.images.bad_image import UNSUPPORTED, BadImage
from image_pipeline.components.images.prepare import PrepareOptions, prepare_image
from image_pipeline.components.inference.named_images import read_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.served.decode import trace_decoder
from image_pipeline.components.views.fast_decode import decode_image
from image_pipeline.report.pictures import decode_what_can_be

pytestmark = pytest.mark.unit

MANY = "a JPEG of more than 500 scans"


def save(format_, mode="RGB", **settings):
    file = io.BytesIO()
    Image.new(mode, (8, 8), 90).save(file, format_, **settings)
    return file.getvalue()


def repeat_scan(scans, progressive=True, **settings):
    """A JPEG of so many scans, of which the last is repeated."""
    data = save("jpeg", "L" if progressive else "RGB", progressive=progressive, **settings)
    if not progressive:  # Its scan says that it has one of the frame's three components.
        at = data.index(b"\xff\xda")
        data = data[:at] + b"\xff\xda\0\x08\x01\x01\0\0\x3f\0" + data[at + 14 :]
    start, end = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    times = scans - data.count(b"\xff\xda")
    return data[:end] + data[start:end] * times + data[end:]


def stored(encoded, channels=1):
    return StoredImage(encoded, 8, 8, channels, is_raw=False)


def test_up_to_500_scans_are_decoded_everywhere(tmp_path):
    good = repeat_scan(500)
    prepared = prepare_image(good, PrepareOptions(encoding="original", resize="none"))
    assert prepared.height == 8
    assert not jpeg.has_many_scans(good)
    assert trace_decoder(1, (0, 0, 0))(tf.constant(good)).shape == (8, 8, 1)
    assert decode_what_can_be(good).shape == (8, 8, 3)


@pytest.mark.parametrize("progressive", [True, False])
def test_more_scans_are_refused_everywhere(tmp_path, progressive):
    bomb = repeat_scan(501, progressive)
    with pytest.raises(BadImage, match=MANY) as caught:
        prepare_image(bomb, PrepareOptions())
    assert caught.value.reason == UNSUPPORTED
    assert jpeg.has_many_scans(memoryview(bomb))
    with pytest.raises(tf.errors.InvalidArgumentError):
        trace_decoder(1, (0, 0, 0))(tf.constant(bomb))
    for read in (lambda: decode_image(stored(bomb), 1), lambda: decode(stored(bomb))):
        with pytest.raises(ValueError, match=f"its image is {MANY}"):
            read()
    assert decode_what_can_be(bomb) is None
    (tmp_path / "a.jpg").write_bytes(bomb)
    (named,) = read_images([str(tmp_path)], IngestOptions())
    assert named.data.message.startswith(MANY)


def test_a_header_that_another_decoder_reads_otherwise_does_not_pass_for_one_scan():
    bomb = repeat_scan(501)
    single = save("jpeg", "L")
    # What stands behind a fill byte is a segment to whoever takes that for a marker.
    fake = b"\xff\xff" + single[2:]
    assert jpeg.has_many_scans(bomb[:2] + fake + bomb[2:])
    assert not jpeg.has_many_scans(single)
    assert not jpeg.has_many_scans(b"GIF" + bomb)


@pytest.mark.parametrize("filling", [b"\xff\xfe\0\x02", b"\xff", b"\0"])
def test_a_jpeg_of_very_many_segments_is_refused(filling):
    data = save("jpeg", exif=Image.Exif())
    for times, is_bad in ((9000, False), (10_000, True)):
        try:
            prepare_image(data[:2] + filling * times + data[2:], PrepareOptions())
        except BadImage as error:
            assert ("10,000 segments" in error.message) == is_bad or filling == b"\0"
        else:
            assert not is_bad


def test_markers_are_found_across_blocks(monkeypatch):
    data = np.random.default_rng(0).integers(0, 256, 5000, np.uint8)
    data[::3] = 0xFF
    whole = list(jpeg.find_markers(data.tobytes()))
    for size in (1, 7, 1000, 4999, 5000):
        monkeypatch.setattr(jpeg, "_BLOCK_BYTES", size)
        assert list(jpeg.find_markers(data.tobytes())) == whole


def chunk(name, data=b""):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def test_a_png_of_very_many_chunks_is_refused(monkeypatch):
    data = save("png")
    at = data.index(b"IDAT") - 4
    prepare_image(data[:at] + chunk(b"tEXt", b"a\0b") * 99 + data[at:], PrepareOptions())
    for place in (at, len(data) - 12):
        many = data[:place] + chunk(b"tEXt", b"a\0b") * 100_000 + data[place:]
        with pytest.raises(BadImage, match="a PNG of more than 100,000 chunks"):
            prepare_image(many, PrepareOptions())


def test_a_gif_of_very_many_blocks_is_refused():
    data = save("gif", "L")
    image = data.index(b"\x2c", 13)
    for place in (image, len(data) - 1):
        for comment in (b"\x21\xfe\x01a\0", b"\x21\xfe" + b"\x01a" * 100_001 + b"\0"):
            few = data[:place] + comment[:4] + b"\0" + data[place:]
            assert prepare_image(few, PrepareOptions()).height == 8
            many = comment * (50_001 if len(comment) < 9 else 1)
            with pytest.raises(BadImage, match="a GIF of more than 100,000 blocks"):
                prepare_image(data[:place] + many + data[place:], PrepareOptions())


def test_frames_of_a_gif_are_counted_as_pillow_does():
    random = np.random.default_rng(0)
    frames = [Image.fromarray(random.integers(0, 255, (20, 20), np.uint8)) for _ in range(5)]
    file = io.BytesIO()
    frames[0].save(file, "gif", save_all=True, append_images=frames[1:], comment=b"abc" * 200)
    data = file.getvalue()
    assert containers.count_gif_frames(data) == 5
    compared = 0
    for trial in range(400):
        changed = bytearray(data)
        changed[random.integers(len(data))] = random.integers(256)
        changed = bytes(changed[: random.integers(20, len(data)) if trial % 2 else None])
        try:
            with Image.open(io.BytesIO(changed)) as image:
                expected = image.n_frames
        except (OSError, SyntaxError, ValueError, IndexError):
            continue
        compared += 1
        assert max(1, containers.count_gif_frames(changed)) == expected
    assert compared > 200


@pytest.mark.parametrize("big", [False, True])
def test_a_tiff_of_very_many_images_is_refused(monkeypatch, big):
    monkeypatch.setattr(tiff, "_MOST_DIRECTORIES", 4)
    pages = [Image.new("L", (8, 8), n) for n in range(5)]
    for count in (4, 5):
        file = io.BytesIO()
        pages[0].save(file, "tiff", save_all=True, append_images=pages[1:count], big_tiff=big)
        if count == 4:
            assert prepare_image(file.getvalue(), PrepareOptions()).notes[:1] == ("frames:4",)
            continue
        with pytest.raises(BadImage, match="a TIFF of more than 4 images"):
            prepare_image(file.getvalue(), PrepareOptions())


def test_directories_that_lead_back_end():
    data = bytearray(save("tiff", "L"))
    at = struct.unpack_from("<I", data, 4)[0]
    (count,) = struct.unpack_from("<H", data, at)
    struct.pack_into("<I", data, at + 2 + 12 * count, at)
    tiff.check_directories(bytes(data))


@pytest.mark.parametrize("encoding", ["jpeg", "original"])
def test_a_chunk_that_is_longer_than_its_png_is_not_made_room_for(encoding, monkeypatch):
    data = save("png")
    at = data.index(b"IDAT") - 4
    lying = data[:at] + struct.pack(">I", 2**31 + 1211) + data[at + 4 :]
    monkeypatch.setattr("cv2.imdecode", None)
    for whole, reason in ((lying, "corrupt"), (lying[:-12], "truncated")):
        with pytest.raises(BadImage) as caught:
            prepare_image(whole, PrepareOptions(encoding=encoding))
        assert caught.value.reason == reason
