"""What a page's sections are made of, beside the data set's own figures."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from image_pipeline.components.dataset.manifest import ListedSplit
from image_pipeline.components.errors import UserError
from image_pipeline.components.evaluation import facts
from image_pipeline.components.evaluation.facts import read_evaluation, write_csv
from image_pipeline.components.evaluation.unusual import Outlier
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.order.quality import ideal_quality
from image_pipeline.named_folder import find_whole_run
from image_pipeline.report.classes import (
    choose_samples,
    describe_books,
    describe_classes,
    describe_shards,
)
from image_pipeline.report.data_set import open_data_set
from image_pipeline.report.evaluation import (
    Outliers,
    find_outliers,
    list_outliers,
    sort_matrix,
)
from image_pipeline.report.pixels import measure_image, measure_images
from image_pipeline.report.problems import (
    Alike,
    Member,
    check_leakage,
    describe_duplicates,
    describe_near_duplicates,
    describe_quarantine,
    find_look_alikes,
)
from image_pipeline.report.shapes import describe_shapes
from image_pipeline.report.shuffle import describe_shuffle
from tests.drawings import draw
from tests.ingest_runs import ingest

pytestmark = pytest.mark.beam


def test_the_books(source):
    books = describe_books(source.manifest)
    assert [books[name] for name in ("found", "written", "duplicates", "quarantined")] == [
        *(27, 23, 2, 2)
    ]
    assert books["balanced"]
    off = source.manifest.books.model_copy(update={"found": 28})
    assert not describe_books(source.manifest.model_copy(update={"books": off}))["balanced"]


def test_classes_by_split(source, data):
    classes = describe_classes(source.manifest.books.classes)
    labels = np.array(data.index.classes)[data.index.label]
    assert classes.splits == ["train", "eval"] == list(data.splits)
    assert [(row.name, row.total) for row in classes.rows] == [("cat", 13), ("dog", 10)]
    for row in classes.rows:
        of_class = data.split[labels == row.name]
        assert row.counts == np.bincount(of_class, minlength=2).tolist()
    assert classes.missing == [] and classes.ratio == 1.3


def test_a_class_that_a_split_lacks_is_counted():
    classes = describe_classes({"train": {"ant": 4, "bee": 2}, "eval": {"bee": 1}})
    assert classes.missing == [("eval", 1)]
    assert [row.counts for row in classes.rows] == [[4, 0], [2, 1]]


def test_shards_and_their_balance(source):
    rows = describe_shards(source.manifest)
    assert [(row.split, row.shards) for row in rows] == [("train", 2), ("eval", 2)]
    for row in rows:
        split = source.manifest.splits[row.split]
        assert (row.records, row.bytes) == (split.records, split.bytes)
        assert row.most_records - row.least_records <= 1
        assert row.least_bytes == min(shard.bytes for shard in split.shards)


def test_samples_of_every_class(data):
    samples = choose_samples(data)
    assert samples.classes == 2
    assert [row.name for row in samples.rows] == ["cat", "dog"]
    for code, row in enumerate(samples.rows):
        assert len(row.rows) == 8
        assert set(data.index.label[row.rows]) == {code}


def test_sizes_formats_and_orientations(data):
    shapes = describe_shapes(data)
    assert dict(shapes.sizes) == {"10 × 8": 20, "12 × 20": 1, "96 × 72": 1, "192 × 144": 1}
    assert shapes.sizes[0] == ("10 × 8", 20)
    assert shapes.formats == [("png", 22), ("jpeg", 1)]
    assert shapes.stored_formats == [("png", 23)]
    assert shapes.orientations == [("upright", 22), ("turned by 90°", 1)]
    assert shapes.channels == [("3, colour", 23)]
    side, aspect = shapes.shorter_side, shapes.aspect
    assert (side.min, side.median, side.max) == (8, 8, 144)
    assert (aspect.min, aspect.max) == (12 / 20, 192 / 144)
    assert sum(side.counts) == 23


def test_channels_are_those_of_the_sources_and_no_oddity(tmp_path):
    images = tmp_path / "images" / "any"
    images.mkdir(parents=True)
    pixels = np.arange(64 * 4, dtype=np.uint8).reshape(8, 8, 4)
    for mode in ("L", "LA", "RGB", "RGBA"):
        Image.fromarray(pixels).convert(mode).save(images / f"{mode}.png")
    Image.fromarray(pixels[..., :3]).convert("CMYK").save(images / "CMYK.jpg")
    ingest(images.parent, tmp_path / "data")
    source = find_whole_run(str(tmp_path / "data"))
    shapes = describe_shapes(open_data_set(source.data_dir, source.manifest))
    assert sorted(shapes.channels) == [
        ("1, gray", 1),
        ("2, gray with transparency", 1),
        ("3, colour", 1),
        ("4, colour with transparency", 1),
        ("4, print colours (CMYK)", 1),
    ]
    assert shapes.notes == [("alpha", 2), ("cmyk", 1)]


def test_shuffle_beside_the_ideal(data):
    shuffle = describe_shuffle(data, FeedingOptions(batch_size=4), seed=0)
    labels = data.index.label[data.split == 0]
    ideal = ideal_quality(labels, 4)
    rows = {row.name: row for row in shuffle.rows}
    assert shuffle.batch_size == 4
    assert rows["classes_in_batch"].ideal == pytest.approx(ideal.classes_in_batch)
    assert rows["repeated_neighbours"].ideal == 2 / len(labels)
    runs = 1 + (labels[1:] != labels[:-1]).sum()
    assert rows["label_run"].stored == len(labels) / runs
    assert all(abs(getattr(rows["rank_correlation"], name)) < 0.7 for name in ("stored", "epoch"))


def test_another_seed_is_another_epoch_of_the_same_stored_order(data):
    first, second = (describe_shuffle(data, FeedingOptions(), seed).rows for seed in (0, 1))
    assert [row.stored for row in first] == [row.stored for row in second]
    assert first[0].epoch != second[0].epoch


def test_a_balanced_order_has_no_ideal(data):
    shuffle = describe_shuffle(data, FeedingOptions(balance="uniform"), seed=0)
    assert [row.ideal for row in shuffle.rows] == [None] * 4


def test_an_image_of_other_colours_is_unlike_the_others(data):
    random = np.random.default_rng(0)
    usual = random.integers(100, 110, (22, 8, 8, 3), dtype=np.uint8)
    measured = [measure_image(row, pixels) for row, pixels in enumerate(usual)]
    measured.append(measure_image(22, np.full((8, 8, 3), (255, 0, 255), np.uint8)))
    found = find_outliers(measured, data)
    ((label, images),) = found.groups
    assert (found.by, found.judged, found.found) == ("colours", 23, 1)
    assert [each.row for each in images] == [22] and label == data.say_label(22)
    assert images[0].times > 10
    assert find_outliers([], data) == Outliers("colours", 0, 0, [])


def test_what_evaluation_found_is_grouped_by_label(data, tmp_path):
    ids = {row: data.index.record_id[row].tobytes().hex() for row in (3, 0, 1)}
    times = {3: 4.0, 0: 3.5, 1: 3.0}
    rows = [("a.png", "eval", "cat", times[row], id_) for row, id_ in ids.items()]
    rows.append(("b.png", "eval", "cat", 2.0, "0" * 32))
    write_csv(str(tmp_path / facts.OUTLIERS), facts.OUTLIER_COLUMNS, rows)
    found = list_outliers(str(tmp_path), facts.Outliers(judged=23, of=23, found=4), data)
    assert (found.by, found.judged, found.found) == ("model", 23, 4)
    assert [label for label, _ in found.groups] == sorted({data.say_label(n) for n in (3, 0, 1)})
    for label, images in found.groups:
        expected = [(n, t) for n, t in ((3, 4.0), (0, 3.5), (1, 3.0)) if data.say_label(n) == label]
        assert images == [Outlier(*each) for each in expected]


def test_the_worst_records_are_found_in_the_data_set(run, run_data, figures):
    found = figures["evaluation"]
    assert found == read_evaluation(run.artifact("evaluation"))
    records, cats = found.records, run.manifest.books.classes["eval"]["cat"]
    assert records == run.manifest.splits["eval"].records
    # Both classes get one half, and the first of equal ones is predicted.
    assert figures["matrix"] == {"names": ["cat", "dog"], "rows": [[cats, 0], [records - cats, 0]]}
    assert found.answers.confusions == [[1, 0, records - cats]]
    eval_rows = np.flatnonzero(run_data.split == run_data.splits.index("eval"))
    assert {each["row"] for each in figures["worst"]} <= set(eval_rows.tolist())
    for each in figures["worst"]:
        assert each["loss"] == pytest.approx(np.log(2)) and each["probability"] == 0.5
        assert each["label"] == run_data.say_label(each["row"])
    assert [each.records for each in found.answers.calibration] == [records]


def test_the_matrix_is_sorted_by_name_and_only_shown_of_few_classes(run):
    found = read_evaluation(run.artifact("evaluation"))

    def change(names, matrix):
        answers = found.answers.model_copy(update={"names": names, "matrix": matrix})
        return found.model_copy(update={"answers": answers})

    few = sort_matrix(change(["dog", "cat"], [[0, 1], [2, 3]]))
    assert few == {"names": ["cat", "dog"], "rows": [[3, 2], [1, 0]]}
    assert sort_matrix(change([f"{n:02d}" for n in range(26)], [[0] * 26] * 26)) is None
    assert sort_matrix(change(["a"], None)) is None
    assert sort_matrix(found.model_copy(update={"answers": None})) is None


def test_records_are_found_by_their_ids(run_data):
    ids = [each.tobytes().hex() for each in run_data.index.record_id]
    assert run_data.find_ids([ids[3], ids[1], "0" * 32]) == {ids[3]: 3, ids[1]: 1}
    assert run_data.find_ids([]) == {}


def test_a_data_set_without_records_or_index_is_refused(source, tmp_path):
    empty = {"train": ListedSplit(records=0, bytes=0, shards=[])}
    with pytest.raises(UserError, match="needs a data set with records and an index"):
        open_data_set(str(tmp_path), source.manifest)
    with pytest.raises(UserError, match="needs a data set with records and an index"):
        open_data_set(source.data_dir, source.manifest.model_copy(update={"splits": empty}))


def test_names_that_are_not_utf_8_are_found(data):
    assert data.find_rows(["cat/smooth.png", "cat/\udcff.png"]).keys() == {"cat/smooth.png"}


def test_quarantine_names_the_files(data_dir, source):
    quarantine = describe_quarantine(str(data_dir), source.manifest.books.quarantine_reasons)
    assert quarantine.total == 2
    files = {row.name: row.files for row in quarantine.reasons}
    assert [file.path for file in files["not_an_image"]] == ["cat/<b>.png"]
    assert files["not_an_image"][0].bytes == 4
    assert [file.path for file in files["truncated"]] == ["dog/cut.jpg"]


def test_duplicates_and_conflicting_labels(data_dir, data):
    duplicates = describe_duplicates(str(data_dir), data)
    counts = [duplicates.groups, duplicates.files, duplicates.conflicts]
    assert counts == [2, 2, 1]
    (conflict,) = duplicates.conflicting
    row = conflict.members[0].row
    files = [("cat/000.png", "cat"), ("dog/copy.png", "dog")]
    assert conflict == Alike(2, [Member(path, label, "", row) for path, label in files])
    np.testing.assert_array_equal(data.read_pixels(row), draw(0))
    assert [group.members[0].path for group in duplicates.largest] == ["cat/001.png", "cat/000.png"]


def test_near_duplicates(data_dir, data):
    near = describe_near_duplicates(str(data_dir), data)
    assert (near.groups, near.images, near.straddling, near.compared) == (1, 2, 0, None)
    members = near.largest[0].members
    assert [each.path for each in members] == ["cat/smooth.png", "dog/smooth.png"]
    assert [data.name_source(each.row) for each in members] == [each.path for each in members]
    assert {each.split for each in members} == {data.splits[data.split[members[0].row]]}


def test_the_measured_images_are_grouped_as_ingest_groups_them(data, data_dir):
    measured = [each for each in measure_images(data) if each is not None]
    found = find_look_alikes(measured, data)
    of_ingest = describe_near_duplicates(str(data_dir), data)
    assert (found.groups, found.images, found.compared) == (1, 2, 23)
    assert sorted(found.largest[0].members, key=lambda each: each.path) == (
        of_ingest.largest[0].members
    )
    assert found.straddling == 0
    split = data.split.copy()
    split[found.largest[0].members[0].row] ^= 1
    assert find_look_alikes(measured, dataclasses.replace(data, split=split)).straddling == 1


def test_without_images_there_are_none(data):
    found = find_look_alikes([], data)
    assert (found.groups, found.images, found.largest, found.compared) == (0, 0, [], 0)


def test_nothing_leaks_by_default_and_what_was_not_looked_for_is_said(data_dir, source, data):
    alike = describe_near_duplicates(str(data_dir), data)
    checks = {
        each.name: each for each in check_leakage(str(data_dir), source.manifest, data, alike)
    }
    found = {name: each.found for name, each in checks.items()}
    assert found == {
        "identical files": 0,
        "look-alikes": 0,
        "groups": None,
        "units that paths separate": 0,
    }
    assert "ingest.group_pattern" in checks["groups"].note
    among = dataclasses.replace(alike, straddling=1, compared=23)
    look_alikes = check_leakage(str(data_dir), source.manifest, data, among)[1]
    assert look_alikes.found == 1 and "among 23 images; " in look_alikes.note
    assert "near_duplicates=4" in look_alikes.note


def test_what_a_path_parts_is_leakage(images_dir, tmp_path):
    folder = tmp_path / "data"
    manifest = ingest(
        images_dir,
        folder,
        near_duplicates=4,
        duplicates="keep_all",
        conflicting_labels="keep",
        max_bad_fraction=0.5,
        # Cats train, dogs evaluate; the two of the same name are one group.
        split_pattern="(?P<split>[^/]+)/.+",
        group_pattern=".+/(?P<group>smooth)",
        splits={"cat": 0.5, "dog": 0.5},
    )
    data = open_data_set(str(folder), manifest)
    alike = describe_near_duplicates(str(folder), data)
    found = [each.found for each in check_leakage(str(folder), manifest, data, alike)]
    # Of copies, all go with the first; look-alikes go where their paths say, and so do groups.
    assert found == [0, 1, 1, 1]
    # Had a copy been stored elsewhere, it would be found.
    rows = data.find_rows(["dog/copy.png"])
    split = data.split.copy()
    split[rows["dog/copy.png"]] ^= 1
    moved = dataclasses.replace(data, split=split)
    assert check_leakage(str(folder), manifest, moved, alike)[0].found == 1
