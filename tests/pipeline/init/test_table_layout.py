"""What `init` takes tables of tags, values and boxes for, and that its configuration runs."""

import json
import textwrap

import numpy as np
import pytest

from image_pipeline.api import ingest
from image_pipeline.components.dataset import record, tfrecord
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.images.sound import SoundOptions
from image_pipeline.components.sources.options import VideoOptions
from image_pipeline.config import load_config
from tests.data_set_files import write_tfrecord
from tests.drawings import draw, encode_png, write_folder
from tests.pipeline.init.test_starter import _init, _write_table
from tests.sounds import build_wav, encode, make_tone
from tests.videos import encode as encode_video

pytestmark = pytest.mark.beam

COUNT = 40


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(COUNT):
        (folder / f"{number:02d}.png").write_bytes(encode_png(draw(number)))
    return folder


def _start(tmp_path, source):
    """What init says, its configuration, and what ingest makes by it."""
    said = _init(source, "--output", tmp_path / "c.yaml", "--yes").output
    table = said.rpartition("--images ")[2].partition(" --output")[0].strip("'")
    ingest(table, str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
    return said, load_config(str(tmp_path / "c.yaml")), read_manifest(str(tmp_path / "out"))


@pytest.mark.parametrize(("column", "separator"), [("tags", ";"), ("label", "|"), ("label", ",")])
def test_cells_of_several_tags_are_split(tmp_path, images, column, separator):
    cells = [
        separator.join(["sky", "tree"] if n % 2 else ["sky"] if n % 4 else []) for n in range(COUNT)
    ]
    rows = [f'{n:02d}.png,"{cell}"' for n, cell in enumerate(cells)]
    said, config, manifest = _start(tmp_path, _write_table(images, [f"path,{column}", *rows]))
    assert f"2: sky (30), tree (20); separated by {separator!r}" in said
    assert config.ingest.tag_separator == separator and "image-pipeline run" in said
    # Of 40 · 2 tags 50 are true: answering all gives 2 · 0.625 / 1.625.
    assert config.evaluation.min_f1 == round(0.9 * 2 * 0.625 / 1.625 + 0.1, 4)
    assert manifest.label.key.endswith("tags") and manifest.books.written == COUNT


def test_lists_are_tags(tmp_path, images):
    rows = [{"path": f"{n:02d}.png", "tags": ["sky"] * (n % 2)} for n in range(COUNT)]
    table = images / "t.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)))
    said, config, manifest = _start(tmp_path, table)
    assert "1: sky (20)\n" in said and config.ingest.tag_separator is None
    assert not config.ingest.stratify and manifest.books.written == COUNT


def test_names_with_commas_stay_classes(tmp_path, images):
    rows = [f'{n:02d}.png,"{("crane, bird", "tench, fish")[n % 2]}"' for n in range(COUNT)]
    said, config, manifest = _start(tmp_path, _write_table(images, ["path,label", *rows]))
    assert "2: crane, bird (20), tench, fish (20)" in said and manifest.label is None
    assert config.ingest.tag_separator is None


def test_numbers_with_fractions_are_values(tmp_path, images):
    rows = [f"{n:02d}.png,{n / 4}" for n in range(COUNT)]
    said, config, manifest = _start(tmp_path, _write_table(images, ["path,label", *rows]))
    assert "from 0 to 9.75\n" in said and "image-pipeline run" in said
    variance = np.var(np.arange(COUNT) / 4)
    assert config.evaluation.max_mean_squared_error == pytest.approx(0.9 * variance, rel=1e-3)
    assert manifest.label.key.endswith("value")


def _write_coco(path, names, folder):
    path.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(encode_png(draw(int(name[:2]))))
    images = [{"id": n, "file_name": name} for n, name in enumerate(names)]
    boxes = [
        {"image_id": n, "bbox": [1, 1, 4, 4], "category_id": 1 + n % 2} for n in range(len(names))
    ]
    classes = [{"id": 2, "name": "cat"}, {"id": 1, "name": "dog"}, {"id": 3, "name": "owl"}]
    content = {"images": images, "annotations": boxes, "categories": classes}
    path.write_text(json.dumps(content))


def test_cocos_folder_is_read_split_by_split(tmp_path):
    coco = tmp_path / "coco"
    # The same names in both folders, as `000.png` of each split.
    for split, count in (("train", 30), ("val", 10)):
        names = [f"{n:02d}.png" for n in range(count)]
        _write_coco(coco / f"annotations/instances_{split}2017.json", names, coco / f"{split}2017")
    for n in range(10):
        (coco / f"val2017/{n:02d}.png").write_bytes(encode_png(draw(100 + n)))
    said, config, manifest = _start(tmp_path, coco)
    assert "a folder of COCO files" in said and "3: dog (20), cat (20), owl (0)" in said
    assert "train 30, eval 10" in said and "image-pipeline run" in said
    assert config.evaluation.min_map_50_95 == 0.1
    splits = {name: split.records for name, split in manifest.splits.items()}
    assert splits == {"train": 30, "eval": 10}
    assert manifest.splits["eval"].box_counts == {"dog": 5, "cat": 5, "owl": 0}
    assert manifest.books.quarantined == 0


@pytest.mark.parametrize("below", ["images", "../images", "../train2017", ".."])
def test_a_coco_file_finds_its_images(tmp_path, below):
    table = tmp_path / "coco/annotations/instances_train2017.json"
    _write_coco(table, [f"{n:02d}.png" for n in range(20)], table.parent / below)
    said, config, manifest = _start(tmp_path, table)
    assert config.ingest.root_dir == below and f"{below}, seen from the table's folder" in said
    assert "a COCO file\n" in said and manifest.books.written == 20


def test_yolos_folder_is_explained(tmp_path):
    images = write_folder(tmp_path / "images", ("train", "val"), per_class=2)
    for path in images.rglob("*.png"):
        label = tmp_path / "labels" / path.relative_to(images).with_suffix(".txt")
        label.parent.mkdir(parents=True, exist_ok=True)
        label.write_text("0 0.5 0.5 0.1 0.1\n")
    with pytest.raises(UserError, match="has YOLO's boxes"):
        _init(tmp_path, "--output", tmp_path / "c.yaml", "--yes")


_ITEMS = """
    import numpy as np

    def scenes(shard, shards):
        for number in range(shard, 60, shards):
            image = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
            yield {"image": image, "label": "cat" if number % 3 else "dog", "age": number}

    def alike(shard, shards):
        yield np.zeros((6, 8), np.uint8), "cat"
"""


def test_a_generator_is_known_by_its_first_items(tmp_path, monkeypatch):
    (tmp_path / "init_items.py").write_text(textwrap.dedent(_ITEMS))
    monkeypatch.syspath_prepend(str(tmp_path))
    said, config, manifest = _start(tmp_path, "generator:init_items:scenes")
    assert "the first items of a generator" in said
    assert "32; how many there are is only known once it has run" in said
    assert "2: cat (21), dog (11)" in said  # Two of each of 16 shards, so the numbers up to 31.
    assert config.ingest.generator.shards == 16 and config.ingest.column_types == {"age": "int"}
    # Nobody knows how many images there are, so nothing depends on how many were looked at.
    assert config.ingest.splits == {"train": 0.9, "eval": 0.1} and not config.ingest.stratify
    assert config.feeding.batch_size == 64
    assert config.evaluation.min_accuracy == 0.5
    assert (config.view.height_px, config.view.width_px, config.view.channels) == (36, 48, 3)
    assert manifest.books.written == 60


def test_of_one_class_among_the_first_items_no_threshold_is_told(tmp_path, monkeypatch):
    (tmp_path / "init_alike.py").write_text(textwrap.dedent(_ITEMS))
    monkeypatch.syspath_prepend(str(tmp_path))
    said = _init("generator:init_alike:alike", "--output", tmp_path / "c.yaml", "--yes").output
    assert "classes           1: cat (16)\n" in said
    assert load_config(str(tmp_path / "c.yaml")).evaluation.min_accuracy == 0.5


_OWN = """
    from image_pipeline import ImageRef, Annotations
    from tests.drawings import draw, encode_png

    class Photos:
        def list(self):
            for number in range(40):
                label = "cat" if number % 4 else "dog"
                said = Annotations(f"photos:{number}", label)
                yield ImageRef(f"{number:02d}", 9, number, annotations=said)

        def read(self, ref, most_bytes):
            return encode_png(draw(int(ref.path)))
"""


def test_a_source_of_ones_own_says_its_labels(tmp_path, monkeypatch):
    (tmp_path / "init_photos.py").write_text(textwrap.dedent(_OWN))
    monkeypatch.syspath_prepend(str(tmp_path))
    said, config, manifest = _start(tmp_path, "source:init_photos:Photos")
    assert "2: cat (30), dog (10)" in said and "image-pipeline run" in said
    assert manifest.books.classes["train"] == {"cat": 24, "dog": 8} and config.ingest.stratify


def test_values_alone_are_taken_as_square_images(tmp_path):
    pixels = np.random.default_rng(0).random((COUNT, 784), np.float32)
    rows = [{"image_floats": p.tolist(), "image_class": n % 2} for n, p in enumerate(pixels)]
    write_tfrecord(tmp_path / "mnist.tfrecord", rows)
    said, config, manifest = _start(tmp_path, tmp_path / "mnist.tfrecord")
    assert "784 values of 'image_floats' are taken as 28 × 28 × 1" in said
    assert config.ingest.pixel_shape == (28, 28, 1)
    assert (manifest.books.written, manifest.dtype, manifest.channels) == (COUNT, "float32", 1)
    stored = set()
    for shard in (tmp_path / "out").glob("Split-*/*"):
        with open(shard, "rb") as file:
            examples = map(record.decode_example, tfrecord.read_records(file))
            stored.update(example[record.IMAGE] for example in examples)
    assert stored == {each.tobytes() for each in pixels}


def _write(folder, files):
    for number, (name, data) in enumerate(files):
        path = folder / ("cat", "dog")[number % 2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("rate_hz", "seconds", "expected"),
    [
        (8_000, 0.42, SoundOptions(sample_rate_hz=8_000, duration_s=0.5)),
        (44_100, 0.33, SoundOptions(duration_s=0.4)),
        (16_000, 12, SoundOptions(duration_s=10)),
    ],
)
def test_sounds_are_drawn_as_long_as_they_are(tmp_path, rate_hz, seconds, expected):
    tones = [make_tone(300 + number, seconds, rate_hz) for number in range(20)]
    files = [(f"{number}.wav", encode(tone, rate_hz)) for number, tone in enumerate(tones)]
    sounds = _write(tmp_path / "sounds", [*files, ("flac.flac", encode(tones[0], kind="FLAC"))])
    (sounds / "cat" / "cut.wav").write_bytes(build_wav()[:-1])
    loss = ("--max-bad-fraction", "0.1")
    result = _init(sounds, "--output", tmp_path / "c.yaml", "--yes", *loss)
    shown = f"{expected.duration_s:g} s at {expected.sample_rate_hz:,} Hz, as pictures"
    assert shown in result.output
    config = load_config(str(tmp_path / "c.yaml"))
    assert config.ingest.prepare.sound == expected
    view = (config.view.height_px, config.view.width_px, config.view.channels)
    assert view == (64, expected.columns, 1)
    assert [step.op for step in config.feeding.augment] == ["random_erasing"]
    if seconds < 1:
        summary = ingest(str(sounds), str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
        assert (summary["found"], summary["quarantined"]) == (22, 1)


def test_videos_become_their_frames(tmp_path):
    files = [
        (f"{number:02d}.mkv", encode_video(25, size=(16 + 2 * number, 32))) for number in range(20)
    ]
    videos = _write(tmp_path / "videos", files)
    result = _init(videos, "--output", tmp_path / "c.yaml", "--yes")
    lines = [line.split() for line in result.output.splitlines()]
    assert ["videos", "20"] in lines
    assert ["sizes", "median", "34", "×", "32", "(height", "×", "width)"] in lines
    config = load_config(str(tmp_path / "c.yaml"))
    assert config.ingest.video == VideoOptions(frames_per_second=1)
    summary = ingest(str(videos), str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
    assert (summary["found"], summary["quarantined"]) == (60, 0)


def test_what_is_no_video_is_refused(tmp_path):
    (tmp_path / "videos" / "cat").mkdir(parents=True)
    (tmp_path / "videos" / "cat" / "bad.mp4").write_bytes(b"no video")
    with pytest.raises(UserError, match="must hold images, but none of its 1 files is one"):
        _init(tmp_path / "videos", "--output", tmp_path / "c.yaml", "--yes")
