"""Frames of videos by the times that the files state: exact ones, whatever is asked first."""

import io
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import av
import numpy as np
import pytest

from image_pipeline.components.images.bad_image import BadImage
from image_pipeline.components.sources import video
from image_pipeline.components.sources.video import Video, VideoHeader, read_video_header
from tests import videos
from tests.videos import draw, encode, encode_sound, level_of, turn

pytestmark = pytest.mark.unit

KINDS = [("matroska", "ffv1"), ("mp4", "mpeg4"), ("avi", "mpeg4"), ("mov", "libx264")]
KINDS += [("webm", "libvpx")]


def open_video(data, fps):
    return Video(lambda: io.BytesIO(data), fps)


def levels(reader, numbers):
    """The brightness of frames, by which they are known."""
    return [int(reader.read(number)[:, 20:].mean()) for number in numbers]


def expect(numbers):
    return pytest.approx([level_of(number) for number in numbers], abs=1)


@pytest.mark.parametrize(("kind", "codec"), KINDS)
def test_frames_are_those_shown_at_a_steady_rate(kind, codec):
    data = encode(45, 10, kind, codec)
    assert read_video_header(io.BytesIO(data)) == (16, 32, Fraction(9, 2))
    numbers = [0, 5, 10, 15, 20, 25, 30, 35, 40]
    assert levels(open_video(data, 2.0), range(9)) == expect(numbers)
    assert levels(open_video(data, 4.0), range(5)) == expect([0, 2, 5, 7, 10])
    assert levels(open_video(data, 20.0), range(5)) == expect([0, 0, 1, 1, 2])


@pytest.mark.e2e
@pytest.mark.parametrize(("kind", "codec"), KINDS)
def test_any_order_gives_the_same_frames(kind, codec):
    data = encode(90, 10, kind, codec)
    in_order = open_video(data, 10.0)
    expected = [in_order.read(number) for number in range(90)]
    reader = open_video(data, 10.0)
    order = [80, 3, 3, 79, 0, 89, *np.random.default_rng(0).permutation(90)]
    for number in order:
        np.testing.assert_array_equal(reader.read(number), expected[number])


@pytest.mark.e2e
def test_an_open_group_of_pictures_gives_the_same_frames_after_a_seek():
    settings = {"x264-params": "open-gop=1:keyint=5:bframes=3:scenecut=0"}
    data = encode(60, 10, "mp4", "libx264", options=settings)
    in_order = open_video(data, 10.0)
    expected = [in_order.read(number) for number in range(60)]
    for number in range(60):
        np.testing.assert_array_equal(open_video(data, 10.0).read(number), expected[number])


@pytest.mark.parametrize(("duration_s", "count"), [(Fraction(20003, 10_000), 20), (2, 20)])
def test_what_rounding_adds_to_a_duration_is_no_frame(duration_s, count):
    assert VideoHeader(16, 32, Fraction(duration_s)).count_frames(10.0) == count


def test_pixels_of_a_lossless_video_are_exact():
    pixels = open_video(encode(3), 10.0).read(2)
    assert (pixels.shape, pixels.dtype) == ((16, 32, 3), np.uint8)
    # Stored with a limited range, 16 to 235, so that levels are rounded twice.
    assert np.abs(pixels - draw(2)[..., None].astype(int)).max() <= 1


def test_times_count_and_not_frames():
    times = [0, 0.1, 0.2, 1.9, 2.0, 3.5]
    data = encode(6, 10, "mp4", "libx264", times=times)
    reader = open_video(data, 2.0)
    assert levels(reader, range(7)) == expect([0, 2, 2, 2, 4, 4, 4])


@pytest.mark.e2e
def test_frames_are_turned_as_the_file_says():
    data = encode(3, 10, "mp4", "mpeg4")
    plain, turned = open_video(data, 10.0).read(1), open_video(turn(data), 10.0).read(1)
    assert turned.shape == (32, 16, 3)
    np.testing.assert_array_equal(turned, np.rot90(plain, -1))


def test_a_video_is_decoded_once_by_several_threads(monkeypatch):
    data, starts = encode(100, 10), []
    start = Video._start
    monkeypatch.setattr(Video, "_start", lambda *args: (starts.append(1), start(*args)))
    reader = open_video(data, 10.0)
    with ThreadPoolExecutor(4) as threads:
        parts = threads.map(lambda first: levels(reader, range(first, first + 8)), range(0, 96, 8))
    assert [level for part in parts for level in part] == expect(range(96))
    assert len(starts) == 1
    assert not reader._held


def test_frames_that_nobody_takes_are_forgotten(monkeypatch):
    monkeypatch.setattr(video, "_MOST_HELD_BYTES", 5 * 16 * 32 * 3 // 2)
    reader = open_video(encode(60), 10.0)
    assert levels(reader, [0, 40]) == expect([0, 40])
    assert sorted(reader._held) == [36, 37, 38, 39]
    assert levels(reader, [3, 50]) == expect([3, 50])


def test_frames_after_a_cut_are_missing_by_name():
    data = encode(60, 10)
    reader = open_video(data[: len(data) * 6 // 10], 1.0)
    assert levels(reader, [0, 1, 2]) == expect([0, 10, 20])
    for number in (4, 5, 9):
        with pytest.raises(BadImage, match=rf"the video ends at .* s, before {number}\.000 s"):
            reader.read(number)
    assert levels(reader, [1]) == expect([10])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the video cannot be read"),
        (b"no video" * 99, "the video cannot be read"),
        (encode(9, 10, "mp4", "mpeg4")[:-300], "the video cannot be read"),
        (encode_sound(), "no video stream; it has other media only"),
    ],
)
def test_what_is_no_video_is_refused(data, message):
    with pytest.raises(BadImage, match=message):
        read_video_header(io.BytesIO(data))
    with pytest.raises(BadImage, match="no frame that can be decoded"):
        open_video(data, 1.0).read(0)


def test_damage_inside_costs_frames_and_not_the_run():
    data = bytearray(encode(90, 10, "matroska", "libx264"))
    place = len(data) // 2
    data[place : place + 40] = bytes(40)
    reader, found = open_video(bytes(data), 10.0), []
    for number in range(90):
        try:
            found.append(levels(reader, [number])[0])
        except BadImage:
            found.append(None)
    assert found[:20] == expect(range(20)) and found[-5:] == expect(range(85, 90))


def read_all(data, count, fps=10.0):
    """Every frame's bytes, or why there is none."""
    reader, found = open_video(data, fps), []
    for number in range(count):
        try:
            found.append(reader.read(number).tobytes())
        except BadImage as error:
            found.append(error.reason)
    return found


@pytest.mark.parametrize("kind", ["matroska", "mp4"])
def test_what_damage_is_drawn_into_is_no_frame(monkeypatch, kind):
    far = np.arange(-60, 400)
    picture = np.sin(far[:, None] ** 2 / 900) * np.cos(far / 7) * 90 + 120

    def moving(number, _):
        return picture[number : number + 96, 2 * number :][:, :96].astype(np.uint8)

    monkeypatch.setattr(videos, "draw", moving)
    data = bytearray(encode(90, 10, kind, "mpeg4", size=(96, 96)))
    whole = read_all(bytes(data), 90)
    place = len(data) // 2
    data[place : place + 200] = bytes(200)
    found = read_all(bytes(data), 90)
    damaged = [number for number in range(90) if found[number] != whole[number]]
    assert 0 < len(damaged) < 20
    assert {found[number] for number in damaged} == {"corrupt"}


@pytest.mark.e2e
def test_a_mirrored_video_is_mirrored():
    mp4 = encode(3, 10, "mp4", "mpeg4")
    upright = b"\0\1\0\0" + bytes(12) + b"\0\1\0\0"
    start = mp4.index(upright, mp4.index(b"tkhd"))
    mirrored = mp4[:start] + b"\xff\xff\0\0" + mp4[start + 4 :]
    found = open_video(mirrored, 10.0).read(1)
    np.testing.assert_array_equal(found, open_video(mp4, 10.0).read(1)[:, ::-1])


def test_a_video_that_begins_late_has_no_more_frames():
    times = [3.5 + number / 10 for number in range(20)]
    data = encode(20, 10, times=times)
    assert float(read_video_header(io.BytesIO(data)).duration_s) == pytest.approx(2, abs=0.002)
    assert levels(open_video(data, 10.0), range(20)) == expect(range(20))


def test_a_duration_that_is_none_is_not_believed():
    data = encode(20, 10)
    start = data.index(b"00:00:02.")
    data = data[:start] + b"never" + data[start + 5 :]
    assert float(read_video_header(io.BytesIO(data)).duration_s) == pytest.approx(2, abs=0.002)
    weeks = data[:start] + b"900:00:02" + data[start + 9 :]
    with pytest.raises(BadImage, match=r"s long; a video of more than 604800 s is damaged"):
        read_video_header(io.BytesIO(weeks))


def test_a_title_in_another_encoding_does_no_harm():
    file = io.BytesIO()
    with av.open(file, "w", format="avi") as container:
        container.metadata["title"] = "caf__"
        stream = container.add_stream("mjpeg", rate=10)
        stream.height, stream.width, stream.pix_fmt = 16, 32, "yuvj420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(draw(0), format="gray")))
        container.mux(stream.encode())
    data = file.getvalue()
    assert b"caf__" in data
    latin = data.replace(b"caf__", b"caf\xe9!")
    assert read_all(latin, 1) == read_all(data, 1) != ["corrupt"]
    assert read_video_header(io.BytesIO(latin)).width == 32


def test_a_stream_that_no_decoder_reads_is_a_bad_image():
    data = encode(15, 10, "avi", "mpeg4").replace(b"FMP4", b"\1\2\3\4")
    with pytest.raises(BadImage, match="no decoder reads its video stream"):
        read_video_header(io.BytesIO(data))
