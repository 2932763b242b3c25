"""Masks in batches: read in every way, exact, and where their images are."""

import collections
import gzip
import shutil

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components.augment import draws
from image_pipeline.components.dataset import record
from image_pipeline.components.dataset.index import read_index
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import input_fn
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from tests import graphs
from tests.drawings import encode_png
from tests.feeding.test_service import address  # noqa: F401
from tests.ingest_runs import ingest
from tests.shards import flip_bit

pytestmark = pytest.mark.beam

HEIGHT, WIDTH, COUNT = 20, 24, 24
VIEW = ViewOptions(height_px=HEIGHT, width_px=WIDTH)
SMALL = ViewOptions(height_px=12, width_px=10)
# What a class looks like in the images: its red level; blue tells the number of the image.
LEVELS = {0: 0, 1: 80, 2: 160, 255: 240}
CROP = {"op": "random_resized_crop", "area": [0.3, 0.9]}


def draw_pair(number):
    """An image of flat regions, uint8 [HEIGHT, WIDTH, 3], and its class ids."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    ids = np.where((y - number % 9 - 5) ** 2 + (x - number) ** 2 < 50, 1, 0)
    ids = np.where(x + y > 34 - number % 5, 2, ids)
    ids[: 2 + number % 3] = 255
    red = np.vectorize(LEVELS.get)(ids)
    image = np.stack([red, np.zeros_like(red), np.full_like(red, number * 10)], axis=-1)
    return image.astype(np.uint8), ids.astype(np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`data` with masks and `plain` of the same images without."""
    folder = tmp_path_factory.mktemp("fed")
    for kind in ("images", "masks"):
        (folder / "pairs" / kind).mkdir(parents=True)
    for number in range(COUNT):
        for kind, pixels in zip(("images", "masks"), draw_pair(number), strict=True):
            (folder / "pairs" / kind / f"{number:02d}.png").write_bytes(encode_png(pixels))
    masks = {"images": "images/{key}.*", "masks": "masks/{key}.*", "classes": ["a", "b", "c"]}
    ingest(folder / "pairs", folder / "data", masks=masks)
    table = folder / "images.csv"
    rows = [f"images/{number:02d}.png" for number in range(COUNT)]
    table.write_text("\n".join(["path", *rows, ""]))
    plain = {"root_dir": str(folder / "pairs"), "label_pattern": None}
    ingest(table, folder / "plain", **plain)
    return folder


@pytest.fixture(scope="module")
def paths(folder):
    return str(folder / "data" / "Split-train" / "*")


def read(paths, mode="train", view=VIEW, graph=None, **arguments):
    """The batches as NumPy pairs; options of feeding come with the other arguments."""
    names = set(arguments) & set(FeedingOptions.model_fields)
    options = {"batch_size": 4, "augment": []} | {name: arguments.pop(name) for name in names}
    batches = input_fn.input_fn(
        [paths],
        view=view,
        feeding=FeedingOptions.model_validate(options),
        transform_graph_dir=graph,
        mode=mode,
        **arguments,
    )
    return list(batches.as_numpy_iterator())


def check_same(first, second):
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def check_follow(batches, least_flat=0.3):
    """Wherever an image's pixel and all around it are of one region, its mask names that region."""
    flat = total = 0
    for images, masks in batches:
        assert masks.dtype == np.int32 and masks.shape == images.shape[:3]
        assert set(np.unique(masks)) <= set(LEVELS)
        red = images[..., 0]
        is_flat = np.isin(red, list(LEVELS.values()))
        padded = np.pad(red, ((0, 0), (1, 1), (1, 1)), "edge")
        for y, x in np.ndindex(3, 3):
            is_flat &= padded[:, y : y + red.shape[1], x : x + red.shape[2]] == red
        expected = np.vectorize(LEVELS.get)(masks)
        np.testing.assert_array_equal(red[is_flat], expected[is_flat])
        flat, total = flat + is_flat.sum(), total + is_flat.size
    assert flat >= least_flat * total > 0


def numbers(batches):
    return [int(image[..., 2].max()) // 10 for images, _ in batches for image in images]


@pytest.mark.parametrize("source", ["indexed", "streaming"])
def test_evaluation_gives_the_very_masks(folder, paths, source):
    seen = []
    for split in ("train", "eval"):
        batches = read(paths.replace("train", split), "eval", source=source)
        for images, masks in batches:
            assert (masks.dtype, masks.shape[1:]) == (np.int32, (HEIGHT, WIDTH))
            for image, mask in zip(images, masks, strict=True):
                number = int(image[0, 0, 2]) // 10
                np.testing.assert_array_equal(image, draw_pair(number)[0])
                np.testing.assert_array_equal(mask, draw_pair(number)[1])
                seen.append(number)
    assert sorted(seen) == list(range(COUNT))


def test_with_a_graph_images_are_normalised_and_masks_are_not(paths, tmp_path):
    graph = graphs.write_graph(tmp_path / "graph", (HEIGHT, WIDTH, 3))
    plain, batches = read(paths, "eval"), read(paths, "eval", graph=graph)
    for (levels, ids), (images, masks) in zip(plain, batches, strict=True):
        assert (images.dtype, masks.dtype) == (np.float32, np.int32)
        np.testing.assert_allclose(images, levels / np.float32(255), atol=1e-6)
        np.testing.assert_array_equal(masks, ids)
    last = read(paths, "eval", graph=graph, layout="NCHW", dtype="uint8")
    for (levels, ids), (images, masks) in zip(plain, last, strict=True):
        np.testing.assert_array_equal(images, levels.transpose(0, 3, 1, 2))
        np.testing.assert_array_equal(masks, ids)


def test_the_order_and_the_pixels_are_those_of_images_without_masks(folder, paths):
    plain = str(folder / "plain" / "Split-train" / "*")
    steps = [CROP, "flip_horizontal"]
    for arguments in ({"augment": steps, "seed": 5, "epochs": 2}, {"view": SMALL, "mode": "eval"}):
        with_masks, without = read(paths, **arguments), read(plain, **arguments)
        check_same([(images,) for images, _ in with_masks], [(images,) for images, _ in without])
        assert {labels.dtype.kind for _, labels in without} == {"O"}


@pytest.mark.parametrize("source", ["indexed", "streaming"])
@pytest.mark.parametrize(
    "steps",
    [
        [CROP],
        [CROP, "flip_horizontal", "flip_vertical"],
        ["flip_horizontal", "flip_vertical", "cutmix"],
        [{"op": "pad_and_crop", "mode": "constant", "fill": 240}],
        [{"op": "rotate", "fill": 240}],
    ],
)
def test_masks_follow_their_images(paths, source, steps):
    arguments = {"augment": steps, "epochs": 2, "source": source, "seed": 1}
    batches = read(paths, **arguments)
    check_follow(batches)
    changed = [
        not np.array_equal(mask, draw_pair(int(image[..., 2].max()) // 10)[1])
        for images, masks in batches
        for image, mask in zip(images, masks, strict=True)
    ]
    assert sum(changed) > len(changed) / 3
    check_same(read(paths, compiled=False, **arguments), batches)


def test_views_of_another_size_follow_too(paths):
    for more in ({}, {"augment": [CROP]}, {"mode": "eval", "source": "streaming"}):
        check_follow(read(paths, view=SMALL, **more), 0.1)


def test_streaming_and_the_index_give_each_record_the_same_view(paths):
    def by_number(source):
        steps = [CROP, "flip_horizontal", {"op": "rotate", "degrees": 90}]
        batches = read(paths, augment=steps, source=source, seed=8)
        pairs = [pair for images, masks in batches for pair in zip(images, masks, strict=True)]
        return {
            int(image[..., 2].max()): (image.tobytes(), mask.tobytes()) for image, mask in pairs
        }

    assert by_number("indexed") == by_number("streaming")


def test_training_goes_on_within_an_epoch(paths):
    arguments = {"augment": [CROP, "flip_horizontal"], "seed": 3, "epochs": 2}
    check_same(read(paths, first_step=2, **arguments), read(paths, **arguments)[2:])


def test_workers_share_each_batch(paths):
    arguments = {"augment": [CROP], "remainder": "drop"}
    shares = [read(paths, worker=worker, workers=2, **arguments) for worker in range(2)]
    joined = [
        tuple(np.concatenate(parts) for parts in zip(*pair, strict=True))
        for pair in zip(*shares, strict=True)
    ]
    check_same(joined, read(paths, **arguments))


@pytest.mark.parametrize("steps", [[], ["flip_horizontal"], [CROP]])
def test_held_masks_are_those_that_are_decoded_each_time(paths, steps):
    arguments = {"augment": steps, "epochs": 3}
    decoded = read(paths, hold_decoded=False, **arguments)
    check_same(read(paths, hold_decoded=True, **arguments), decoded)
    check_same(
        read(paths, hold_decoded=True, view=SMALL), read(paths, hold_decoded=False, view=SMALL)
    )


def test_mirrored_views_have_mirrored_masks(paths):
    batches = read(paths, many_views={"mirror": True})
    plain = [mask for _, masks in read(paths, "eval") for mask in masks]
    expected = [mask.tobytes() for each in plain for mask in (each, each[:, ::-1].copy())]
    found = [mask.tobytes() for _, masks in batches for mask in masks]
    assert sorted(found) == sorted(expected)
    check_follow(batches)


def test_mixup_cannot_blend_masks(paths):
    with pytest.raises(UserError, match=r"mixup blends labels.*take cutmix"):
        read(paths, augment=["mixup"])


def move(images, keys, masks=None):
    """A user's step: the left half to the right, of some."""
    is_moved = (draws.uniform(keys, 1)[:, 0] < 0.5)[:, None, None, None]
    moved = [
        None if each is None else tf.where(is_moved, tf.roll(each, WIDTH // 2, axis=2), each)
        for each in (images, masks)
    ]
    return moved[0] if masks is None else moved


def darken(images, keys):
    """A user's step that knows nothing of masks."""
    return images // 2


def test_users_steps_move_masks_or_are_refused(paths):
    batches = read(paths, augment=[f"{__name__}.move"])
    check_follow(batches)
    plain = {mask.tobytes() for _, masks in read(paths, "eval") for mask in masks}
    moved = [mask.tobytes() not in plain for _, masks in batches for mask in masks]
    assert 0 < sum(moved) < len(moved)
    with pytest.raises(UserError, match="must move masks with their images: let it take masks="):
        read(paths, augment=[f"{__name__}.darken"])
    assert len(read(paths, "eval", augment=[f"{__name__}.darken"])) == len(read(paths, "eval"))


def test_data_sets_with_and_without_masks_are_not_mixed(folder, paths):
    both = [paths, str(folder / "plain" / "Split-train" / "*")]
    with pytest.raises(UserError, match=r"must all have masks.*plain has neither"):
        input_fn.input_fn(
            both, view=VIEW, feeding=FeedingOptions(), transform_graph_dir=None, mode="train"
        )
    plain = read(both[1], "eval")
    count = read_manifest(str(folder / "plain")).splits["train"].records
    assert sum(len(labels) for _, labels in plain) == count


def test_further_columns_come_beside_masks(paths):
    for images, masks in read(paths, "eval", columns=(record.FILENAME,)):
        assert sorted(images) == ["image", record.FILENAME]
        for image, path, mask in zip(images["image"], images[record.FILENAME], masks, strict=True):
            assert path == f"images/{int(image[0, 0, 2]) // 10:02d}.png".encode()
            np.testing.assert_array_equal(mask, draw_pair(int(image[0, 0, 2]) // 10)[1])


@pytest.fixture
def damaged(folder, tmp_path):
    """A copy whose record 2 of the first shard has a damaged mask; and its image's number."""
    import shutil

    shutil.copytree(folder / "data", tmp_path / "data")
    split = tmp_path / "data" / "Split-train"
    index = read_index(sorted(map(str, split.iterdir())))
    row = int(np.flatnonzero(index.shard == 0)[2])
    shard = sorted(split.iterdir())[0]
    stored = shard.read_bytes()
    start = int(index.offset[row])
    flip_bit(str(shard), stored.index(b"\x89PNG", start) + 1)
    path = record.read_feature(
        stored[start + 12 : start + 12 + int(index.length[row])],
        record.Column(record.FILENAME, "bytes"),
    )
    return str(split / "*"), int(path[-6:-4])


@pytest.mark.parametrize("verify", ["always", "none"])
@pytest.mark.parametrize("hold_decoded", [True, False])
def test_a_damaged_mask_stops_or_is_skipped_with_its_image(damaged, verify, hold_decoded):
    paths, number = damaged
    arguments = {"verify": verify, "hold_decoded": hold_decoded, "batch_size": 5}
    count = read_manifest(paths.partition("/Split-")[0]).splits["train"].records
    with pytest.raises(tf.errors.OpError, match=r"mask|checksum"):
        read(paths, "eval", **arguments)
    for mode in ("eval", "train"):
        batches = read(paths, mode, bad_records="skip", epochs=2, **arguments)
        found = collections.Counter(numbers(batches))
        assert number not in found
        check_follow(batches)
        for images, masks in batches:
            for image, mask in zip(images, masks, strict=True):
                np.testing.assert_array_equal(mask, draw_pair(int(image[..., 2].max()) // 10)[1])
        assert (sum(found.values()) == 2 * count) == (mode == "train")


def test_a_data_service_gives_what_streaming_gives(paths, address):  # noqa: F811
    for steps in ([], ["flip_horizontal", {"op": "rotate", "degrees": 30}]):
        arguments = {"augment": steps, "seed": 3, "epochs": 2}
        served, streamed = (
            collections.Counter(
                (image.tobytes(), mask.tobytes())
                for images, masks in batches
                for image, mask in zip(images, masks, strict=True)
            )
            for batches in (
                read(paths, data_service=address, **arguments),
                read(paths, source="streaming", **arguments),
            )
        )
        assert served == streamed and served
    # Crops of images are resized by other libraries, but masks by the same whole numbers.
    crops = {"augment": [CROP], "seed": 3}
    served, streamed = (
        collections.Counter(mask.tobytes() for _, masks in batches for mask in masks)
        for batches in (
            read(paths, data_service=address, view=SMALL, **crops),
            read(paths, source="streaming", view=SMALL, **crops),
        )
    )
    assert served == streamed


def test_the_manifest_of_the_data_set_names_the_classes(folder):
    assert read_manifest(str(folder / "data")).mask_classes == ("a", "b", "c")
    assert read_manifest(str(folder / "plain")).mask_classes is None


def test_compressed_and_copied_shards_have_masks_too(folder, tmp_path):
    shard = min((folder / "data" / "Split-train").iterdir())
    copied, packed = tmp_path / "some.tfrecord", tmp_path / "Split-train"
    shutil.copy(shard, copied)
    packed.mkdir()
    (packed / f"{shard.name}.gz").write_bytes(gzip.compress(shard.read_bytes()))
    shutil.copy(folder / "data" / "manifest.json", tmp_path)
    for files in ([str(copied)], [str(packed / "*.gz")]):
        batches = input_fn.input_fn(
            files,
            view=VIEW,
            feeding=FeedingOptions(source="streaming", batch_size=4),
            transform_graph_dir=None,
            mode="eval",
        )
        assert batches.element_spec[1].shape.as_list() == [None, HEIGHT, WIDTH]
