"""Which tables a path, a pattern or a data set's folder names, and the splits that names name."""

import json

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.complete_options import check_splits, complete_options
from image_pipeline.components.meaning.open_source import open_source
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.file_names import find_split
from image_pipeline.components.sources.source_kinds import kind_of, list_tables
from tests.data_set_files import make_table, write_arrow, write_parquet, write_tar, write_tfrecord
from tests.drawings import draw, encode_png

pytestmark = pytest.mark.unit

IMAGES = [encode_png(draw(number)) for number in range(4)]


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("data/train-00000-of-00002.parquet", "train"),
        ("mnist-test.tfrecord-00000-of-00001", "test"),
        ("validation-00000-of-00128", "validation"),
        ("out/Split-eval/data_tfrecord-00000-of-00001", "eval"),
        ("out/Split-holdout/data_tfrecord-00000-of-00001.gz", "holdout"),
        ("out/Split-my split/train.gz", "my split"),
        ("extra-00000-of-00003.parquet", "extra"),
        ("imagenet-VAL-000001.tar", "VAL"),
        ("training_set/x.csv", "training"),
        ("latest/x.csv", None),
        ("data/contest.parquet", None),
    ],
)
def test_splits_are_found_in_names(path, split):
    assert find_split(path) == split


def _folder_of(images):
    return kind_of(images).folder(images)


def _touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")


@pytest.mark.parametrize(
    "name", ["00-224x224-798.tfrec", "a.tfrec.gz", "a.tfrecords-00000-of-00002"]
)
def test_tfrecords_have_several_endings(tmp_path, name):
    """Kaggle's end in `.tfrec`."""
    write_tfrecord(tmp_path / name, [])
    assert kind_of(str(tmp_path / name)).is_table and kind_of(str(tmp_path)).is_table
    assert list_tables(str(tmp_path)) == [(str(tmp_path / name), None)]


def test_patterns_name_several_tables(tmp_path):
    _touch(tmp_path, "a-000.csv", "a-001.csv", "a-011.csv", "b-000.csv", "c.txt")
    (tmp_path / "d.csv").mkdir()

    def names(pattern):
        return [path.rpartition("/")[2] for path, _ in list_tables(f"{tmp_path}/{pattern}")]

    assert names("a-*.csv") == ["a-000.csv", "a-001.csv", "a-011.csv"]
    assert names("*.csv") == ["a-000.csv", "a-001.csv", "a-011.csv", "b-000.csv"]
    assert names("a-{000..002}.csv") == ["a-000.csv", "a-001.csv", "a-002.csv"]
    assert names("{b,a}-000.csv") == ["a-000.csv", "b-000.csv"]
    assert names("a-{9..11}.csv") == ["a-10.csv", "a-11.csv", "a-9.csv"]
    with pytest.raises(UserError, match=r"There is no table '.*/z-\*.csv'; give one that exists"):
        list_tables(f"{tmp_path}/z-*.csv")
    assert _folder_of(f"{tmp_path}/a-*.csv") == str(tmp_path)
    assert _folder_of(f"{tmp_path}/*/a.csv") == str(tmp_path)
    assert _folder_of("tfrecord:a/b-{0..9}") == "a" and _folder_of("x.csv") == "."


def test_files_that_are_called_as_a_pattern_are_themselves(tmp_path):
    _touch(tmp_path, "x[1].csv")
    assert list_tables(f"{tmp_path}/x[1].csv") == [(f"{tmp_path}/x[1].csv", None)]


def test_one_split_says_nothing_and_several_say_which(tmp_path):
    _touch(tmp_path, "train-0-of-2.csv", "train-1-of-2.csv")
    assert {split for _, split in list_tables(f"{tmp_path}/*.csv")} == {None}
    _touch(tmp_path, "val-0-of-1.csv")
    assert [s for _, s in list_tables(f"{tmp_path}/*.csv")] == ["train", "train", "val"]


@pytest.mark.parametrize(
    ("names", "is_one"),
    [
        (["a.parquet", "README.md", "dataset_infos.json", "LICENSE", ".gitattributes"], True),
        (["data/a.parquet", "README.md"], True),
        (["a.tfrecord-00000-of-00001"], True),
        (["a.record", "label_map.pbtxt"], True),
        (["a.arrow"], True),
        (["metadata.parquet", "x.jpg"], True),  # ImageFolder
        (["other.parquet", "x.jpg"], False),
        (["other.parquet", "cat/x.jpg"], False),
        (["cat/x.jpg", "dog/y.jpg"], False),
        (["README.md"], False),
        ([], False),
    ],
)
def test_a_folder_of_tables_only_is_a_data_set(tmp_path, names, is_one):
    _touch(tmp_path, *names)
    assert kind_of(str(tmp_path)).is_table == is_one


def test_archives_are_data_sets_if_something_is_beside_images(tmp_path):
    write_tar(tmp_path / "a.tar", {"x/1.jpg": b"1", "x/1.cls": b"0"})
    write_tar(tmp_path / "b.tar", {"cat/1.jpg": b"1", "dog/2.jpg": b"2", "readme.txt": b"3"})
    (tmp_path / "c.tar").write_bytes(b"none")
    assert kind_of(f"{tmp_path}/a.tar").is_table and kind_of(f"{tmp_path}/a*.tar").is_table
    assert not any(kind_of(f"{tmp_path}/{name}.tar").is_table for name in "bcd")


def _write_hub(folder, *splits):
    for number, split in enumerate(splits):
        (folder / "data").mkdir(exist_ok=True)
        path = folder / "data" / f"{split}-00000-of-00001.parquet"
        write_parquet(path, make_table([IMAGES[number]]))
    return str(folder)


def _splits_of(images, **options):
    options = complete_options(images, IngestOptions(**options))
    check_splits(images, options)
    return [
        options.split_names.get(ref.annotations.split, ref.annotations.split)
        for ref in open_source(images, options).list()
    ]


def test_splits_get_the_pipelines_names(tmp_path):
    images = _write_hub(tmp_path, "train", "validation")
    assert _splits_of(images) == ["train", "eval"]
    thirds = {"train": 0.8, "eval": 0.1, "test": 0.1}
    assert _splits_of(images, splits=thirds) == ["train", "eval"]
    assert _splits_of(images, splits={"train": 0.5, "validation": 0.5}) == ["train", "validation"]
    assert _splits_of(images, columns={"split": None}) == [None, None]


def test_a_test_split_evaluates_if_no_other_does(tmp_path):
    images = _write_hub(tmp_path, "test", "train")
    assert _splits_of(images) == ["eval", "train"]
    assert _splits_of(images, splits={"train": 0.8, "eval": 0.1, "test": 0.1}) == ["test", "train"]


def test_a_split_that_there_is_not_is_refused(tmp_path):
    images = _write_hub(tmp_path, "test", "train", "validation")
    with pytest.raises(UserError, match=r"are of the split 'test', but ingest.splits has train, "):
        _splits_of(images)
    assert _splits_of(images, split_names={"test": "eval"}) == ["eval", "train", "eval"]


def write_saved(folder):
    for number, split in enumerate(("train", "test")):
        (folder / split).mkdir(parents=True)
        write_arrow(folder / split / "data-00000-of-00001.arrow", make_table([IMAGES[number]]))
        state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}
        (folder / split / "state.json").write_text(json.dumps(state))
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    return str(folder)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("state.json", "{", "JSONDecodeError: Expecting property name"),
        ("state.json", '{"_data_files": [{}]}', "KeyError: 'filename'"),
        ("dataset_dict.json", "[]", "TypeError: list indices"),
        ("dataset_dict.json", '{"splits": ["train"]}', "FileNotFoundError: "),
        ("dataset_info.json", '{"splits": [{}]}', "KeyError: 'name'"),
    ],
)
def test_a_data_set_whose_own_list_is_damaged_is_refused(tmp_path, name, content, why):
    (tmp_path / "features.json").write_text("{}")
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=f"what lists its files cannot be read .{why}"):
        list_tables(str(tmp_path))


def test_what_datasets_saved_is_read(tmp_path):
    images = write_saved(tmp_path / "saved")
    assert kind_of(images).is_table and _splits_of(images) == ["train", "eval"]
    options = complete_options(images, IngestOptions())
    source = open_source(images, options)
    assert {ref.path: source.read(ref, 10**9) for ref in source.list()} == {
        f"{split}/data-00000-of-00001.arrow/00000001": IMAGES[n]
        for n, split in enumerate(("train", "test"))
    }
    assert _splits_of(f"{images}/train") == [None]
