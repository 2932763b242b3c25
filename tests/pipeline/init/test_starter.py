"""`image-pipeline init`: what it writes is read, and ingests the folder that it was written for."""

import io
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from image_pipeline.api import ingest
from image_pipeline.cli import cli
from image_pipeline.components.errors import UserError
from image_pipeline.components.labels.masks import MaskOptions
from image_pipeline.components.sources.folder import Folder
from image_pipeline.components.sources.references import ImageRef
from image_pipeline.config import load_config
from image_pipeline.init.layout import guess_layout
from image_pipeline.init.recipe import Wishes, choose_recipe
from image_pipeline.init.sizes import Sizes, measure_sizes
from image_pipeline.init.starter import write_starter
from tests.drawings import draw, encode_png, write_folder, write_scenes

pytestmark = pytest.mark.beam

SMALL = Sizes(32, 40, equal=True, gray=False)


def _write(layout, sizes=SMALL, **wishes):
    return write_starter(layout, sizes, choose_recipe(layout, sizes, Wishes(**wishes)))


def _load(tmp_path, layout, sizes=SMALL):
    path = tmp_path / "config.yaml"
    path.write_text(_write(layout, sizes))
    return load_config(str(path))


def _init(*arguments, **keywords):
    result = CliRunner().invoke(cli, ["init", *map(str, arguments)], **keywords)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def _measure(folder, *names):
    return measure_sizes(Folder(str(folder)), [ImageRef(name, 1, 0) for name in names])


def test_sides_are_those_of_upright_images(tmp_path):
    exif = Image.Exif()
    for orientation in range(1, 9):
        exif[0x0112] = orientation
        Image.new("RGB", (20, 10)).save(tmp_path / f"{orientation}.jpg", exif=exif)
    found = [_measure(tmp_path, f"{orientation}.jpg") for orientation in range(1, 9)]
    sides = [(each.height_px, each.width_px) for each in found]
    assert sides == [(10, 20)] * 4 + [(20, 10)] * 4


def test_sizes_are_medians_of_headers(tmp_path):
    for number, (height, width) in enumerate([(8, 10), (8, 12), (20, 30)]):
        (tmp_path / f"{number}.png").write_bytes(encode_png(draw(number, height, width)))
    (tmp_path / "bad.png").write_text("text")
    names = ["0.png", "1.png", "2.png", "bad.png", "gone.png"]
    assert _measure(tmp_path, *names) == Sizes(8, 12, equal=False, gray=False)
    assert _measure(tmp_path, "bad.png") is None
    file = io.BytesIO()
    Image.fromarray(np.zeros((5, 6), np.uint8)).save(file, "PNG")
    (tmp_path / "gray.png").write_bytes(file.getvalue())
    assert _measure(tmp_path, "gray.png") == Sizes(5, 6, equal=True, gray=True)


def test_the_configuration_says_what_was_guessed(tmp_path):
    few = [f"{name}/{n}.jpg" for name in ("cat", "it's") for n in range(10)]
    config = _load(tmp_path, guess_layout([*few, "a.txt", "b.txt"]))
    assert config.ingest.splits == {"train": 0.8, "eval": 0.2}
    assert config.ingest.max_bad_fraction == 0.01
    assert config.ingest.prepare.encoding == "original"
    assert (config.view.height_px, config.view.width_px) == (80, 112)
    assert (config.feeding.batch_size, config.training.model) == (32, "EfficientNetLite0")
    assert config.transform.preprocessing_fn.endswith("fixed.minus_one_to_one")
    assert [step.op for step in config.feeding.augment] == ["flip_horizontal"]
    many = [f"{name}/{n}.jpg" for name in ("cat", "dog") for n in range(300)]
    config = _load(tmp_path, guess_layout(many), Sizes(375, 500, equal=False, gray=True))
    assert config.ingest.splits == {"train": 0.9, "eval": 0.1}
    assert config.ingest.max_bad_fraction == 0.01
    assert config.ingest.prepare.encoding == "jpeg"
    assert (config.view.channels, config.feeding.batch_size) == (3, 32)
    assert config.feeding.augment[0].area == (0.5, 1)


def _count(**classes):
    return guess_layout(
        [f"{name}/{n}.jpg" for name, count in classes.items() for n in range(count)]
    )


def test_small_classes_are_stratified(tmp_path):
    config = _load(tmp_path, _count(cat=12, dog=300))
    assert config.ingest.stratify
    assert "the smallest has 12." in (tmp_path / "config.yaml").read_text()
    assert _load(tmp_path, _count(cat=50, dog=300)).ingest.stratify  # Too few to leave to chance.
    assert not _load(tmp_path, _count(cat=50, dog=900)).ingest.stratify
    named = [f"{split}/{n}/{i}.jpg" for split in ("train", "val") for n in "ab" for i in range(9)]
    assert not _load(tmp_path, guess_layout(named)).ingest.stratify  # Paths decide.


@pytest.mark.parametrize(
    ("counts", "threshold"),
    [
        ((30, 30), 0.5833),  # Of 12 in eval, one more than half may be of a class.
        ((90, 30), 0.7917),
        ((5,) * 10, 0.2),
        ((9990, 10), 0.9995),
        ((800, 200), 0.9),  # Not stratified: 0.8 ± 0.04 of the 100 in eval, but half of the way.
        ((50_000, 50_000), 0.55),
    ],
    ids=str,
)
def test_the_threshold_is_above_guessing(tmp_path, counts, threshold):
    layout = _count(**{f"c{n}": count for n, count in enumerate(counts)})
    assert _load(tmp_path, layout).evaluation.min_accuracy == threshold
    assert threshold > max(counts) / sum(counts)


def test_the_configuration_says_where_its_threshold_is_from(tmp_path):
    layout = guess_layout([f"{name}/{n}.jpg" for name in ("a\n#: b", "dog") for n in range(9)])
    assert _load(tmp_path, layout).evaluation.min_accuracy == 0.75
    assert (
        "min_accuracy: 0.75  # a model below it is not pushed; always answering 'a\\n#: b' gives "
        "0.5, hardly ever as much as this by chance\n"
    ) in (tmp_path / "config.yaml").read_text()


def test_an_eval_split_that_tells_nothing_is_named(tmp_path):
    assert _load(tmp_path, _count(cat=1, dog=6)).evaluation.min_accuracy == 0.9286
    told = "the eval split gets too few images to tell a model from one that answers 'dog'"
    assert told in (tmp_path / "config.yaml").read_text()


def test_split_folders_are_ingested_as_they_are_named(tmp_path):
    for seed, (split, count) in enumerate({"train": 6, "val": 3, "test": 2}.items()):
        for name in ("cat", "dog"):
            (tmp_path / "images" / split / name).mkdir(parents=True)
        for number in range(2 * count):
            path = tmp_path / "images" / split / ("cat", "dog")[number % 2] / f"{number}.png"
            path.write_bytes(encode_png(draw(100 * seed + number)))
    path = tmp_path / "starter.yaml"
    result = _init(tmp_path / "images", "--output", path, "--yes")
    assert "train 12, eval 6, test 4" in result.output
    summary = ingest(str(tmp_path / "images"), str(tmp_path / "out"), config=str(path))
    assert (summary["found"], summary["quarantined"]) == (22, 0)
    assert summary["splits"] == {"train": 12, "eval": 6, "test": 4}


def test_class_folders_ingest_after_a_yes(tmp_path):
    images = write_folder(tmp_path / "images", per_class=20)
    path = tmp_path / "starter.yaml"
    declined = _init(images, "--output", path, input="\n\nn\n")
    assert declined.exit_code == 1 and not path.exists()
    assert declined.output.endswith("Nothing was written.\n")
    nowhere = "Cannot write '/proc/config.yaml': No such file or directory; choose another --output"
    with pytest.raises(UserError, match=nowhere):
        _init(images, "--output", "/proc/config.yaml", "--yes")
    for answers in ("", "\n", "\n\n"):
        with pytest.raises(UserError, match="not answered, so nothing was written; --yes takes"):
            _init(images, "--output", path, input=answers)
    result = _init(images, "--output", path, input="\n\ny\n")
    assert result.exit_code == 0
    assert "class folders" in result.output and "2: cat (20), dog (20)" in result.output
    assert "32 × 40 × 3" in result.output
    assert f"image-pipeline run --images {images}" in result.output
    summary = ingest(str(images), str(tmp_path / "out"), config=str(path))
    assert (summary["written"], set(summary["splits"])) == (40, {"train", "eval"})


def test_images_without_classes_are_ingested_only(tmp_path):
    images = write_folder(tmp_path / "images", classes=["only"], per_class=30)
    result = _init(images, "--output", tmp_path / "c.yaml", "--yes")
    assert "can be ingested, but not used for training" in result.output
    assert "image-pipeline ingest --images" in result.output
    summary = ingest(str(images), str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
    assert (summary["written"], summary["quarantined"]) == (30, 0)


def test_pairs_are_taken_for_what_they_are(tmp_path):
    write_scenes(tmp_path / "scenes", 6)
    result = _init(tmp_path / "scenes", "--output", tmp_path / "c.yaml", "--yes")
    lines = [line.split(maxsplit=2) for line in result.output.splitlines()]
    assert ["masks", "are", "masks/{key}.png"] in lines
    assert ["masks", "show", "3 values: 0, 1, 255"] in lines
    assert "Next: image-pipeline run --images" in result.output
    config = load_config(str(tmp_path / "c.yaml"))
    assert config.ingest.masks == MaskOptions(images="images/{key}.*", masks="masks/{key}.png")
    assert config.evaluation.min_mean_iou == 0.25
    summary = ingest(str(tmp_path / "scenes"), str(tmp_path / "out"), config=config)
    assert (summary["found"], summary["written"]) == (6, 6)


@pytest.mark.parametrize(
    ("pattern", "split_pattern"),
    [
        ("{split}/{kind}", "(?P<split>train|val)/"),
        ("{kind}/{split}", "(?:[^/]+/){1}(?P<split>train|val)/"),
    ],
)
def test_pairs_keep_the_splits_of_their_folders(tmp_path, pattern, split_pattern):
    write_scenes(tmp_path / "drawn", 9)
    for number, path in enumerate(sorted((tmp_path / "drawn").rglob("*.png"))):
        split = "val" if number % 9 < 3 else "train"
        folder = tmp_path / "all" / pattern.format(split=split, kind=path.parent.name)
        folder.mkdir(parents=True, exist_ok=True)
        path.rename(folder / path.name)
    _init(tmp_path / "all", "--output", tmp_path / "c.yaml", "--yes")
    options = load_config(str(tmp_path / "c.yaml")).ingest
    assert (options.split_pattern, options.split_names) == (split_pattern, {"val": "eval"})
    summary = ingest(str(tmp_path / "all"), str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
    assert summary["splits"] == {"train": 6, "eval": 3}


def test_a_table_with_masks_is_for_training(tmp_path):
    write_scenes(tmp_path / "scenes", 8)
    rows = [f"scenes/images/{n:02d}.png,scenes/masks/{n:02d}.png" for n in range(8)]
    table = _write_table(tmp_path, ["image,mask", *rows])
    result = _init(table, "--output", tmp_path / "c.yaml", "--yes")
    assert "those of the masks" in result.output and "image-pipeline run" in result.output
    assert load_config(str(tmp_path / "c.yaml")).evaluation.min_mean_iou == 0.25
    summary = ingest(str(table), str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
    assert (summary["written"], summary["quarantined"]) == (8, 0)


def test_two_levels_and_colours_get_names(tmp_path):
    write_scenes(tmp_path / "scenes", 12)
    for number, path in enumerate(sorted((tmp_path / "scenes" / "masks").iterdir())):
        mask = np.asarray(Image.open(path)) == 1
        path.write_bytes(encode_png(mask.astype(np.uint8) * 255))
        colors = np.array([(128, 64, 128), (0, 0, 142)], np.uint8)[mask.astype(int)]
        (tmp_path / "colors" / "masks").mkdir(parents=True, exist_ok=True)
        (tmp_path / "colors" / "masks" / path.name).write_bytes(encode_png(colors))
        (tmp_path / "colors" / "images").mkdir(parents=True, exist_ok=True)
        (tmp_path / "colors" / "images" / path.name).write_bytes(encode_png(draw(number, 16, 20)))
    for name, classes in {
        "scenes": {"background": 0, "foreground": 255},
        "colors": {"class_0": "#00008e", "class_1": "#804080"},
    }.items():
        _init(tmp_path / name, "--output", tmp_path / f"{name}.yaml", "--yes")
        config = load_config(str(tmp_path / f"{name}.yaml"))
        assert config.ingest.masks.classes == classes
        summary = ingest(str(tmp_path / name), str(tmp_path / f"{name}-out"), config=config)
        assert (summary["written"], summary["quarantined"]) == (12, 0)


def test_what_cannot_be_started_with_is_explained(tmp_path, monkeypatch):
    for scene in ("first", "second"):  # Masks of each are called otherwise.
        for name in ("images/1.png", f"masks/1_{scene}.png"):
            path = tmp_path / "pairs" / scene / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode_png(draw(0)))
    with pytest.raises(UserError, match="holds images and their masks, such as 'first/masks/1_fir"):
        _init(tmp_path / "pairs", "--output", tmp_path / "c.yaml", "--yes")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("x")
    with pytest.raises(UserError, match="must hold images, but none of its 1 files is one"):
        _init(tmp_path / "text", "--output", tmp_path / "c.yaml", "--yes")
    (tmp_path / "text" / "b.HEIC").write_text("x")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    install = r"1 \.heic: pip install 'image-pipeline\[heic\]' to read \.heic\."
    with pytest.raises(UserError, match=rf"its 2 files is one that is read; {install}"):
        _init(tmp_path / "text", "--output", tmp_path / "c.yaml", "--yes")
    (tmp_path / "c.yaml").write_text("mine")
    with pytest.raises(UserError, match="exists; choose another --output"):
        _init(tmp_path / "pairs", "--output", tmp_path / "c.yaml", "--yes")
    assert (tmp_path / "c.yaml").read_text() == "mine"


def _write_table(images, rows, name="t.csv"):
    (images / name).write_text("\n".join([rows[0], *rows[1:]]) + "\n")
    return images / name


def test_a_table_is_read_as_ingest_reads_it(tmp_path):
    images = write_folder(tmp_path / "images", per_class=20)
    paths = [path.relative_to(images) for path in sorted(images.rglob("*.png"))]
    rows = [f"{path},{path.parent.name},{n % 7},{'test' if n % 4 else 'train'}"
            for n, path in enumerate(paths)]  # fmt: skip
    table = _write_table(images, ["file,class,height,split", *rows, "nope.png,cat,1,train"])
    loss = ("--max-bad-fraction", "0.05")
    with pytest.raises(UserError, match=r"About 2.4% of .* --max-bad-fraction=0.04 to accept"):
        _init(table, "--output", tmp_path / "c.yaml", "--yes")
    assert not (tmp_path / "c.yaml").exists()
    result = _init(table, "--output", tmp_path / "c.yaml", "--yes", *loss)
    assert "a table" in result.output and "2: cat (20), dog (20)" in result.output
    assert "image: 'file', label: 'class', split: 'split', table_height (int)" in result.output
    assert "1, to be quarantined" in result.output and "train 10, eval 30" in result.output
    config = load_config(str(tmp_path / "c.yaml")).ingest
    assert config.columns["table_height"] == "height"
    assert config.column_types == {"table_height": "int"}
    summary = ingest(str(table), str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
    assert (summary["found"], summary["quarantined"]) == (41, 1)
    assert summary["splits"] == {"train": 10, "eval": 30}


def test_a_table_without_labels_takes_them_from_paths(tmp_path):
    images = write_folder(tmp_path / "images", per_class=30)
    table = _write_table(
        images, [f"{p.relative_to(images)}" for p in images.rglob("*.png")], "l.txt"
    )
    result = _init(table, "--output", tmp_path / "c.yaml", "--yes")
    assert "2: cat (30), dog (30)" in result.output and "image-pipeline run" in result.output
    summary = ingest(str(table), str(tmp_path / "out"), config=str(tmp_path / "c.yaml"))
    assert (summary["written"], summary["quarantined"]) == (60, 0)


def test_folds_are_no_splits_for_training(tmp_path):
    images = write_folder(tmp_path / "images", per_class=20)
    rows = [f"{p.relative_to(images)},x,{n % 5}" for n, p in enumerate(images.rglob("*.png"))]
    table = _write_table(images, ["path,label,split", *rows])
    _init(table, "--output", tmp_path / "c.yaml", "--yes")
    config = load_config(str(tmp_path / "c.yaml")).ingest
    assert (config.columns["split"], config.columns["table_split"]) == (None, "split")


def test_a_table_of_files_that_are_elsewhere_says_where_paths_start(tmp_path):
    table = _write_table(tmp_path, ["path,label", "a.png,x", "b.png,y"])
    message = (
        r"None of 2 rows of .* can be used; t.csv:2: there is no file 'a.png'.*ingest.root_dir"
    )
    with pytest.raises(UserError, match=message):
        _init(table, "--output", tmp_path / "c.yaml", "--yes")
    with pytest.raises(UserError, match=message):
        ingest(str(table), str(tmp_path / "out"))


def test_the_next_command_can_be_copied(tmp_path, monkeypatch):
    images = write_folder(tmp_path / "images", per_class=2)
    program = tmp_path / "image-pipeline"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.argv", [".venv/bin/image-pipeline", "init"])
    for number, (path, name) in enumerate(
        [(tmp_path, "image-pipeline"), (tmp_path / "none", ".venv/bin/image-pipeline")]
    ):
        monkeypatch.setenv("PATH", str(path))
        output = tmp_path / f"my config {number}.yaml"
        told = _init(images, "--output", output, "--yes").output
        assert f"Next: {name} run --images {images} --output out --config '{output}'\n" in told
