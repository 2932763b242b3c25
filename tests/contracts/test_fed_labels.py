"""Each kind of label from a table to batches: stored, read in every way, where its image is."""

import collections
import functools
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import input_fn
from image_pipeline.components.feeding.batches import Batches
from image_pipeline.components.feeding.graph import read_class_names
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.labels.kinds import find_kind
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests.contracts.fed import (
    VIEW,
    assert_same,
    by_number,
    check_follow,
    each,
    number_of,
    open_batches,
    read,
    unindexed,
)
from tests.contracts.kinds import COUNT, CROP, HEIGHT, KINDS, PAD, TURN, WIDTH, write_rows
from tests.ingest_runs import ingest, make_pipeline, read_lines, update
from tests.shards import flip_bit
from tests.tiers import wide

pytestmark = pytest.mark.beam

LARGE = ViewOptions(height_px=2 * HEIGHT, width_px=2 * WIDTH)


MOVING = [name for name, kind in KINDS.items() if kind.moves]
SAME = [name for name, kind in KINDS.items() if kind.numbered is None]  # with and without a graph


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Of a kind's name: a folder of its table, `raw/t.jsonl`, and of `data` and `graph`."""

    @functools.cache
    def make(name):
        folder = tmp_path_factory.mktemp(name)
        ingest(KINDS[name].write(folder / "raw"), folder / "data", label_pattern=None)
        places = (str(folder / each) for each in ("data", "graph"))
        run_analysis(*places, VIEW, TransformOptions(), make_pipeline)
        return folder

    return make


@pytest.fixture
def folder(kind, make):
    return make(kind.name)


@pytest.mark.parametrize(
    ("source", "has_graph", "columns"),
    [
        wide("indexed", False, []),
        ("scanned", False, ["parity"]),
        ("indexed", True, ["parity"]),
        wide("scanned", True, []),
    ],
)
def test_evaluation_gives_the_very_label_of_every_image_once(
    kind, folder, source, has_graph, columns
):
    graph, wanted = (folder / "graph" if has_graph else None), kind.truth
    if has_graph and kind.numbered is not None:
        wanted = functools.partial(kind.numbered, names=read_class_names(str(graph)))
    place = unindexed(folder) if source == "scanned" else folder
    batches = read(place, "eval", graph=graph, columns=columns, dtype="uint8")
    found = by_number(batches)
    assert sorted(found) == list(range(COUNT))
    for number, (image, label) in found.items():
        np.testing.assert_array_equal(image, kind.draw(number))
        assert_same(label, wanted(number))
    for inputs, _ in batches if columns else ():
        assert inputs["parity"].tolist() == [number_of(image) % 2 for image in inputs["image"]]


@pytest.mark.parametrize("kind", SAME, indirect=True)
def test_a_graph_changes_images_but_no_values_masks_and_boxes(kind, folder):
    plain, batches = (
        read(folder, "eval", graph=graph, layout=layout)
        for graph, layout in ((None, "NHWC"), (folder / "graph", "NCHW"))
    )
    for (levels, labels), (images, others) in zip(plain, batches, strict=True):
        levels = levels.transpose(0, 3, 1, 2)
        assert (images.dtype, images.shape) == (np.float32, levels.shape)
        assert not np.array_equal(images, levels)
        assert_same(others, labels)


def test_types_and_shapes_are_known_before_a_batch_is_read(kind, folder):
    images, labels = open_batches(folder, remainder="drop").element_spec
    assert (images.dtype, images.shape) == (tf.uint8, (4, HEIGHT, WIDTH, 3))
    for spec, wanted in zip(*map(tf.nest.flatten, (labels, kind.truth(0))), strict=True):
        wanted = tf.constant(wanted)
        assert (spec.dtype, spec.shape) == (wanted.dtype, [4, *wanted.shape])


def test_batches_say_what_their_classes_are_called(kind, folder):
    """As Keras's data sets do, in the order of the ids; values have none."""
    behind = open_batches(folder, "eval", graph=folder / "graph").class_names
    plain = open_batches(folder, "eval").class_names
    if kind.name in ("value", "unlabelled"):
        assert behind is plain is None
    elif kind.ids:
        assert behind == plain == list(kind.ids)
    else:
        assert behind == read_class_names(str(folder / "graph")) == sorted(behind)
        assert kind.name != "class" or plain == behind


def test_only_classes_behind_a_graph_can_be_one_hot(kind, folder):
    graph = folder / "graph"
    if kind.name not in ("class", "unlabelled"):
        with pytest.raises(UserError, match=r"labels=one_hot gives images of one class each"):
            open_batches(folder, labels="one_hot", graph=graph)
        return
    with pytest.raises(UserError, match="labels=one_hot needs the transform graph, which numbers"):
        open_batches(folder, labels="one_hot")
    for mode in ("train", "eval"):
        ids, shares = (read(folder, mode, graph=graph, labels=each) for each in ("ids", "one_hot"))
        for (images, numbers), (same, rows) in zip(ids, shares, strict=True):
            np.testing.assert_array_equal(images, same)
            assert rows.dtype == np.float32
            known = np.eye(3)[numbers] if kind.name == "class" else np.zeros([len(numbers), 1])
            np.testing.assert_array_equal(rows, known)


# Each of the steps, by one way of reading and in one size; if the labels move, by the other, too.
WAYS = [
    (wide if (place + number) % 2 else pytest.param)(
        name, steps, source, (VIEW, LARGE)[(place // 2 + number) % 2]
    )
    for name, kind in KINDS.items()
    for place, steps in enumerate(kind.steps)
    for number, source in enumerate(("indexed", "scanned"))
    if kind.moves or (place + number) % 2 == 0
]


@pytest.mark.parametrize(("kind", "steps", "source", "view"), WAYS, indirect=["kind"])
def test_labels_follow_their_images(kind, folder, steps, source, view):
    place = unindexed(folder) if source == "scanned" else folder
    batches = read(place, augment=steps, view=view, min_visible=0.5, epochs=2)
    check_follow(kind, batches)
    assert len(batches) == 2 * len(read(folder))
    if kind.moves and view is VIEW:
        changed = [(image != kind.draw(number_of(image))).any() for image, _ in each(batches)]
        assert sum(changed) > len(changed) / 3


@pytest.mark.parametrize(
    "more",
    [{"first_epoch": 1, "epochs": 1, "workers": 2}, {"first_step": 2, "compiled": False}],
    ids=str,
)
def test_batches_are_the_same_resumed_shared_and_uncompiled(kind, folder, more):
    options = {"augment": CROP, "epochs": 2, "seed": 3, "remainder": "drop"}
    whole = read(folder, **options)
    steps = len(whole) // 2 * more.get("first_epoch", 0) + more.get("first_step", 0)
    again = [
        read(folder, hold_decoded=False, worker=worker, **(options | more))
        for worker in range(more.get("workers", 1))
    ]
    for batch, *parts in zip(whole[steps:], *again, strict=True):
        joined = tf.nest.map_structure(lambda *values: np.concatenate(values), *parts)
        for one, other in zip(*map(tf.nest.flatten, (batch, joined)), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("steps", [CROP, PAD, TURN], ids=["crop", "pad", "turn"])
def test_arrays_are_the_batches_of_tensorflow_to_the_bit(kind, folder, mode, steps):
    """Images, labels, boxes and masks of `Batches`, whose labels are numbered as the graph's."""
    options = {"augment": steps, "columns": ["parity"], "batch_size": 4, "min_visible": 0.5}
    split, graph = ("train" if mode == "train" else "eval"), folder / "graph"
    tensors = read(
        folder, mode, split=split, graph=graph, dtype="uint8", seed=3, epochs=2, **options
    )
    feeding = FeedingOptions.model_validate(options)
    opened = Batches(
        [str(folder / "data")],
        split,
        view=VIEW,
        feeding=feeding,
        mode=mode,
        graph_dir=str(graph),
        seed=3,
        epochs=2,
    )
    arrays = list(opened)
    assert len(arrays) == 2 * len(opened) == len(tensors)
    for batch, (inputs, labels) in zip(arrays, tensors, strict=True):
        np.testing.assert_array_equal(batch["image"], inputs["image"])
        np.testing.assert_array_equal(batch["parity"], inputs["parity"])
        tf.nest.assert_same_structure(batch["label"], labels)
        for one, other in zip(*map(tf.nest.flatten, (batch["label"], labels)), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        assert ("key" in batch) == (mode == "train")


@pytest.mark.parametrize("kind", ["tags", *SAME], indirect=True)
def test_an_index_of_a_scan_gives_the_same_batches(kind, folder):
    steps = CROP if kind.moves else TURN
    options = {"augment": steps, "seed": 8, "epochs": 2}
    for ours, theirs in zip(
        read(folder, **options), read(unindexed(folder), **options), strict=True
    ):
        for one, other in zip(*map(tf.nest.flatten, (ours, theirs)), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", MOVING, indirect=True)
def test_mirrored_views_have_mirrored_labels(kind, folder):
    batches = read(folder, many_views={"mirror": True}, augment=["flip_horizontal"])
    check_follow(kind, batches)
    seen = [image.tobytes() for image, _ in each(batches)]
    plain = [image for image, _ in each(read(folder))]
    views = [image.tobytes() for own in plain for image in (own, own[:, ::-1].copy())]
    assert sorted(seen) == sorted(views)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_damaged_record_is_skipped_with_its_label(kind, folder, tmp_path, mode):
    shutil.copytree(folder / "data", tmp_path / "data")
    index = pq.read_table(folder / "data/index.parquet").to_pylist()
    row = next(row for row in index if row["split"] == "train" and row["shard"] == 0)
    shard = min((tmp_path / "data/Split-train").iterdir())
    flip_bit(str(shard), row["record_offset"] + 30)
    with pytest.raises(tf.errors.OpError, match="checksum"):
        read(tmp_path, mode, split="train")
    batches = read(tmp_path, mode, split="train", bad_records="skip", augment=TURN)
    check_follow(kind, batches)
    numbers = {number_of(image) for image, _ in each(batches)}
    train = {int(row["source"][:2]) for row in index if row["split"] == "train"}
    assert numbers == train - {int(row["source"][:2])}
    assert sum(1 for _ in each(batches)) == len(train) - (mode == "eval")


def color(images, keys):
    """A user's step that knows of images only."""
    del keys
    return images // 2


def test_a_user_s_step_must_take_the_labels_that_move(kind, folder):
    step = {"augment": [f"{__name__}.color"]}
    if kind.moves is None:
        for (images, labels), darker in zip(read(folder), read(folder, **step), strict=True):
            assert_same(darker, (images // 2, labels))
        return
    rule = f"must move {kind.moves} with their images: let it take {kind.moves}="
    with pytest.raises(UserError, match=rule):
        read(folder, **step)
    assert len(read(folder, "eval", **step)) == COUNT // 4


REFUSED = [(name, *each) for name, kind in KINDS.items() for each in kind.refused]


@pytest.mark.parametrize(("kind", "options", "has_graph", "rule"), REFUSED, indirect=["kind"])
def test_what_such_labels_cannot_do_is_refused(kind, folder, options, has_graph, rule):
    with pytest.raises(UserError, match=rule):
        read(folder, graph=folder / "graph" if has_graph else None, **options)


OTHERS = ("tags", "value", "boxes", "mask", "class", "tags")


@pytest.mark.parametrize(("kind", "other"), zip(KINDS, OTHERS, strict=True), indirect=["kind"])
def test_labels_of_two_kinds_are_not_taken_for_each_other(kind, folder, make, other):
    found = f"is of {KINDS[other].called}, but the labels of '.*' are {kind.called}; give"
    with pytest.raises(UserError, match=found):
        read(folder, graph=make(other) / "graph")
    both = [str(each / "data/Split-train/*") for each in (folder, make(other))]
    are_alike = kind.manifest["label"] == KINDS[other].manifest["label"]
    rule = "all have masks, or boxes, or none of them" if are_alike else "have labels of one kind"
    with pytest.raises(UserError, match=f"data sets that are read together must {rule}"):
        input_fn.input_fn(
            both, view=VIEW, feeding=FeedingOptions(), transform_graph_dir=None, mode="train"
        )


def test_index_and_manifest_say_what_the_table_said(kind, folder):
    manifest = read_manifest(str(folder / "data"))
    assert {name: getattr(manifest, name) for name in kind.manifest} == kind.manifest
    found = find_kind(manifest.columns)
    assert (found.name, found.class_names(manifest)) == (kind.called, kind.ids)
    counts = {split: collections.Counter() for split in manifest.splits}
    rows = pq.read_table(folder / "data/index.parquet").to_pylist()
    assert sorted(row["source"] for row in rows) == [f"{n:02d}.png" for n in range(COUNT)]
    for row in rows:
        number = int(row["source"][:2])
        wanted = kind.index(number)
        assert {name: row[name] for name in wanted} == wanted
        assert row["parity"] == number % 2
        counts[row["split"]].update(kind.counted(number))
    for split, counted in counts.items():
        assert +collections.Counter(kind.counts(manifest, split)) == counted
    assert verify_data_set(str(folder / "data")) == []


def test_what_is_wrong_is_quarantined_by_its_line_and_may_be_mended(kind, tmp_path):
    table = kind.write(tmp_path / "raw")
    rows = [kind.row(number) for number in range(COUNT)]
    for name, number, said in (("other", 2, 3), ("same", 4, 4)):
        shutil.copy(tmp_path / f"raw/{number:02d}.png", tmp_path / f"raw/{name}.png")
        rows.append(kind.row(said) | {"path": f"{name}.png"})
    cells, options, reason, message = kind.bad
    write_rows(tmp_path / "raw", [*rows[:3], rows[3] | cells, *rows[4:]])
    options = {"label_pattern": None, "max_bad_fraction": 0.2, **options}
    books = ingest(table, tmp_path / "data", **options).books
    lines = read_lines(tmp_path / "data/quarantine.jsonl")
    conflicts = [] if kind.name == "unlabelled" else ["02.png", "other.png"]
    found = [line["path"] for line in lines if line["reason"] == "conflicting_label"]
    assert sorted(found) == conflicts
    (bad,) = (line for line in lines if line["reason"] != "conflicting_label")
    assert bad["reason"] == reason and message in bad["message"]
    copies = {
        line["path"]: line["original"] for line in read_lines(tmp_path / "data/duplicates.jsonl")
    }
    assert copies["same.png"] == "04.png" and len(copies) == 2 - len(conflicts) // 2
    assert books.written == COUNT - 1 - len(conflicts) // 2
    write_rows(tmp_path / "raw", rows)
    taken = update(table, tmp_path / "data", tmp_path / "mended/data", **options)
    assert taken == books.written + books.duplicates
    found = by_number(read(tmp_path / "mended", "eval"))
    assert 3 in found and len(found) == books.written + 1
    for number, (_, label) in found.items():
        assert_same(label, kind.truth(number))
