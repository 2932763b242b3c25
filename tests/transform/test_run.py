"""The analysis as a whole, over data sets that ingest wrote."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import tensorflow_transform as tft

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.manifest import seal
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import parse
from image_pipeline.components.feeding.graph import read_class_names
from image_pipeline.components.function_version import code_version, function_version
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.transform.analysed_sets import read_index_rows, read_spans
from image_pipeline.components.transform.finish import (
    check_records,
    check_unknown_classes,
    find_unknown_classes,
)
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.record_batches import keep_records
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import write_folder
from tests.fed_views import read_views
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=10)
EVERYTHING = ("train", "eval")


def _ingest(folder, **drawn):
    images = write_folder(folder / "images", **drawn)
    options = IngestOptions.model_validate(
        {"prepare": {"encoding": "png"}, "splits": {"train": 0.6, "eval": 0.4}, "shards": 3}
    )
    run_ingest(str(images), str(folder / "out"), str(folder / "work"), options, make_pipeline)
    return folder / "out"


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return _ingest(tmp_path_factory.mktemp("examples"), per_class=30)


@pytest.fixture(scope="module")
def more_examples(tmp_path_factory):
    # The classes' counts differ from the first set's, so that the order of ids is decided by both.
    folder = tmp_path_factory.mktemp("more")
    return _ingest(folder, classes=("bird", "dog", "emu"), per_class=12)


def _batch(examples, splits, columns=()):
    files = [str(examples / f"Split-{split}" / "*") for split in splits]
    return next(read_views(files, VIEW, 1000, parse.columns_of(columns)).as_numpy_iterator())


def test_statistics_are_those_of_the_splits_asked_for(examples, tmp_path):
    options = TransformOptions(batch_size=7)
    summary = run_analysis(str(examples), str(tmp_path), VIEW, options, make_pipeline)
    pixels = _batch(examples, ("train",))[contract.IMAGE_INPUT].astype(np.float64)
    assert summary["records"] == summary["records_in_splits"] == len(pixels)
    np.testing.assert_allclose(summary["statistics"]["mean"], pixels.mean((0, 1, 2)), rtol=1e-14)
    np.testing.assert_allclose(summary["statistics"]["std"], pixels.std((0, 1, 2)), rtol=1e-12)
    assert summary["constant_channels"] == []
    assert sum(row["records"] for row in summary["classes"]) == len(pixels)
    assert json.loads((tmp_path / "analysis.json").read_text())["splits"] == ["train"]


def test_an_unknown_split_is_the_users_error(examples):
    options = TransformOptions(analyze_splits=("train", "test"))
    with pytest.raises(
        UserError, match=r"names \['test'\], but the data set has \['train', 'eval'\]"
    ):
        read_spans([str(examples)], VIEW, options)


def test_a_function_that_fails_on_the_data_is_named(examples, tmp_path):
    name = "tests.transform.bad_functions.reads_numbers_from_names"
    options = TransformOptions(preprocessing_fn=name)
    with pytest.raises(UserError, match=rf"{name} fails on the data: .*convert string: (cat|dog) "):
        run_analysis(str(examples), str(tmp_path), VIEW, options, make_pipeline)


OWN_VOCABULARY = "tests.transform.bad_functions.renamed_labels"


@pytest.mark.wide
def test_whatever_vocabulary_gives_the_label_gives_the_classes(examples, tmp_path):
    """The pattern of docs/transform.md, without `label_ids`."""
    paths, expected = (str(examples), str(tmp_path / "own")), (str(examples), str(tmp_path))
    own = TransformOptions(preprocessing_fn=OWN_VOCABULARY)
    found = run_analysis(*paths, VIEW, own, make_pipeline)["classes"]
    counted = run_analysis(*expected, VIEW, TransformOptions(), make_pipeline)["classes"]
    assert found == [row | {"name": row["name"].upper()} for row in counted]
    assert [row["name"] for row in found] == read_class_names(paths[1])


@pytest.mark.wide
def test_classes_that_hang_on_a_column_are_named_without_counts(examples, tmp_path):
    options = TransformOptions(
        preprocessing_fn="tests.transform.bad_functions.sizes_as_classes", columns=(record.HEIGHT,)
    )
    written = run_analysis(str(examples), str(tmp_path), VIEW, options, make_pipeline)
    assert written["classes"]
    for row in written["classes"]:
        assert row["name"].isdigit() and row["records"] is None


def test_the_background_of_transparent_images_travels_from_ingest(examples, tmp_path):
    written = run_analysis(str(examples), str(tmp_path), VIEW, TransformOptions(), make_pipeline)
    manifest = json.loads((examples / "manifest.json").read_text())
    assert list(written["alpha_background"]) == manifest["options"]["prepare"]["alpha_background"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("alpha_background", [1, 2, 3], r"the same colour, got .*\(1, 2, 3\)"),
        (
            "depth",
            {"low": 0, "high": "100%", "found": [0, 4095]},
            r"the same two values.*\(0, 65535\).*\(0, 4095\)",
        ),
        (
            "resize",
            "exact",
            r"to the same square, or none of them, got ingest\.prepare\.resize .*: None,"
            r".*{'size_px': 256, 'enlarge': False}",
        ),
    ],
)
def test_data_sets_that_were_made_otherwise_are_not_analysed_together(
    examples, tmp_path, option, value, message
):
    other = tmp_path / "other"
    shutil.copytree(examples, other)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["options"]["prepare"][option] = value
    (other / "manifest.json").write_text(json.dumps(seal(manifest)))
    with pytest.raises(UserError, match=message):
        read_spans([str(examples), str(other)], VIEW, TransformOptions())


def test_the_artifact_tells_what_it_was_made_of(examples, tmp_path):
    options = TransformOptions(unknown_label="error")
    written = run_analysis(str(examples), str(tmp_path), VIEW, options, make_pipeline)
    manifest = (examples / "manifest.json").read_bytes()
    assert written["manifests"] == [hashlib.sha256(manifest).hexdigest()]
    assert (written["channel_order"], written["color_space"]) == ("RGB", "sRGB")
    assert written["code_version"] == code_version("feeding", "order", "transform")
    assert written["function_version"] == function_version(options.preprocessing_fn)
    assert written["unknown_label"] == "error"
    read = json.loads((tmp_path / "analysis.json").read_text())
    assert read == json.loads(json.dumps(written))


def test_a_fraction_is_chosen_by_the_records_ids(examples, tmp_path):
    options = TransformOptions(analyze_fraction=0.4, analyze_splits=EVERYTHING, batch_size=3)
    found = run_analysis(str(examples), str(tmp_path), VIEW, options, make_pipeline)
    batch = _batch(examples, EVERYTHING, (record.SOURCE_ID,))
    kept = keep_records(batch[record.SOURCE_ID], 0.4).numpy()
    assert 0 < kept.sum() < len(kept)
    assert (found["records"], found["records_in_splits"]) == (kept.sum(), len(kept))
    expected = batch[contract.IMAGE_INPUT][kept].astype(np.float64).mean((0, 1, 2))
    np.testing.assert_allclose(found["statistics"]["mean"], expected, rtol=1e-14)


def test_the_index_names_records_as_the_shards_do(examples):
    indexed = [name.encode() for _, _, ids in read_index_rows(str(examples)) for name in ids]
    stored = _batch(examples, EVERYTHING, (record.SOURCE_ID,))[record.SOURCE_ID]
    assert sorted(indexed) == sorted(stored)


def test_an_unknown_class_is_reported_or_refused(examples):
    # Of so small a fraction, one class is left: the other one is unknown in both splits.
    options = TransformOptions(analyze_fraction=0.02)
    spans = read_spans([str(examples)], VIEW, options)
    (left,) = spans[0].analysed
    other = {"cat": "dog", "dog": "cat"}[left]
    assert find_unknown_classes(spans) == {
        split: {other: spans[0].classes[split][other]} for split in ("eval", "train")
    }
    check_unknown_classes(spans, options)
    strict = options.model_copy(update={"unknown_label": "error"})
    with pytest.raises(UserError, match=r"set transform\.unknown_label to 'minus_one'"):
        check_unknown_classes(spans, strict)


def test_no_record_to_analyse_is_the_users_error(examples):
    options = TransformOptions(analyze_fraction=1e-9)
    with pytest.raises(UserError, match=r"the analysis needs a record, but .* have none"):
        read_spans([str(examples)], VIEW, options)


@pytest.mark.wide
def test_a_further_span_is_all_that_is_read(examples, more_examples, tmp_path, read_shards):
    both, options, cache = [str(examples), str(more_examples)], TransformOptions(), tmp_path / "c"

    def analyse(folders, name, cache_dir=str(cache)):
        folder = str(tmp_path / name)
        return run_analysis(folders, folder, VIEW, options, make_pipeline, cache_dir)

    whole = analyse(both, "whole", cache_dir=None)
    assert len(read_shards()) == 6  # three a data set
    analyse(both[:1], "first")
    shards = read_shards()
    assert len(shards) == 3 and all(shard.startswith(both[0]) for shard in shards)
    added = analyse(both, "added")
    shards = read_shards()
    assert len(shards) == 3 and all(shard.startswith(both[1]) for shard in shards)
    assert added == whole
    again = analyse(both, "again")
    assert not read_shards() and again == whole
    names = tft.TFTransformOutput(str(tmp_path / "again")).vocabulary_by_name("label")
    assert [name.decode() for name in names] == [row["name"] for row in again["classes"]]


@pytest.mark.wide
def test_what_no_finished_run_has_marked_is_read_again(examples, tmp_path, read_shards):
    cache = tmp_path / "cache"

    def analyse():
        given = (str(examples), str(tmp_path / "graph"), VIEW, TransformOptions(), make_pipeline)
        run_analysis(*given, str(cache))
        return (tmp_path / "graph" / contract.ANALYSIS).read_text(), len(read_shards())

    whole, read = analyse()
    assert read == 3 and analyse() == (whole, 0)
    (marker,) = cache.glob("*/COMPLETE")
    entry = next(path for path in marker.parent.rglob("*") if path.is_file() and path != marker)
    entry.unlink()  # As a run that died leaves it: listed, and not there.
    marker.unlink()
    assert analyse() == (whole, 3) and marker.exists()


def test_the_same_data_set_twice_is_the_users_error(examples, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(examples, copy)
    folders = [str(examples), str(copy)]
    with pytest.raises(UserError, match="the same data set is given more than once"):
        read_spans(folders, VIEW, TransformOptions())


def test_a_lost_record_is_noticed():
    assert check_records(7, 7) == 7
    with pytest.raises(UserError, match="Stage ReadViews lost records: 8 in, 7 out"):
        check_records(7, 8)
