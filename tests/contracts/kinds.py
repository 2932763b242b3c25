"""Kinds of labels, and what each promises: a small table of images whose pixels tell their label.

Image n shows n * 10 in blue all over, and in red what the table says of it.
"""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.dataset.record import LABEL_COLUMNS
from tests.drawings import encode_png

HEIGHT, WIDTH, COUNT = 24, 30, 24
NAMES = ("ant", "bee", "cat")
LEVELS = (90, 160, 230)  # of a box's class; 0 is the background
SHOWN = {255: 0, 0: 80, 1: 160, 2: 240}  # of a mask's class
TURN = ["flip_horizontal", "flip_vertical"]
CROP = [{"op": "random_resized_crop", "area": [0.3, 0.9]}, "flip_horizontal"]
PAD = [{"op": "pad_and_crop", "pad_px": 5, "mode": "constant"}]


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of labels.

    Attributes:
      name: its key in `KINDS`.
      say: what the table says of image n beside its path: cells by column.
      red: the red levels of image n, uint8 [HEIGHT, WIDTH] or a scalar.
      truth: the label of image n in a batch without a graph.
      numbered: the same with a graph of these class names.
      check: asserts that a label is what the red levels of its image show; takes both.
      index: what the index says of image n.
      manifest: attributes of the manifest.
      counted: what image n adds to the counts of its split.
      counts: those counts, of a manifest and a split.
      steps: the random steps that it must follow.
      moves: the argument by which a user's step gets it; None for labels that stay as they are.
      ids: the classes in the order of the ids that records have.
      bad: cells that cannot be, the options to say so, and the reason and message of that line.
      refused: options of feeding, whether with a graph, and the message.
      called: how an error calls it, where a graph is of another kind.
    """

    name: str
    say: Callable[[int], Mapping[str, Any]]
    red: Callable[[int], Any]
    truth: Callable[[int], Any]
    check: Callable[[Any, np.ndarray], None]
    index: Callable[[int], Mapping[str, Any]]
    manifest: Mapping[str, Any]
    bad: tuple[Mapping[str, Any], Mapping[str, Any], str, str]
    refused: Sequence[tuple[Mapping[str, Any], bool, str]]
    called: str
    numbered: Callable[[int, Sequence[str]], Any] | None = None
    counted: Callable[[int], Mapping[str, int]] = lambda number: {"": 1}
    counts: Callable[[Manifest, str], Any] = lambda manifest, split: manifest.books.classes[split]
    steps: Sequence[Sequence[Any]] = (TURN, CROP, PAD)
    moves: str | None = None
    ids: tuple[str, ...] = ()

    def draw(self, number: int) -> np.ndarray:
        """The pixels of image n: uint8 [HEIGHT, WIDTH, 3]."""
        image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        image[..., 0], image[..., 2] = self.red(number), number * 10
        return image

    def row(self, number: int) -> dict[str, Any]:
        """What the table says of image n, and of its parity."""
        return {"path": f"{number:02d}.png", **self.say(number), "parity": number % 2}

    def write(self, folder: pathlib.Path) -> pathlib.Path:
        """Writes the images, and the masks if they have such; the table's path."""
        (folder / "masks").mkdir(parents=True)
        for number in range(COUNT):
            (folder / f"{number:02d}.png").write_bytes(encode_png(self.draw(number)))
            if self.moves == "masks":
                mask = encode_png(ids_of(number))
                (folder / "masks" / f"{number:02d}.png").write_bytes(mask)
        return write_rows(folder, map(self.row, range(COUNT)))


def write_rows(folder: pathlib.Path, rows) -> pathlib.Path:
    """Writes `t.jsonl` again; its path."""
    (folder / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder / "t.jsonl"


def tags_of(number):
    return [tag for tag, every in zip(NAMES, (2, 3, 5), strict=True) if number % every == 0]


def boxes_of(number):
    """0 to 3 boxes, one a third of the image: (left, top, width, height), class."""
    random = np.random.default_rng(number)
    for place in range(number % 4):
        left, top = place * 10 + int(random.integers(0, 4)), int(random.integers(0, 12))
        width, height = random.integers(4, 7, 2).tolist()
        yield (left, top, width, height), (number + place) % 3


def ids_of(number):
    """Flat regions of a mask: uint8 [HEIGHT, WIDTH]."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    ids = np.where((y - number % 9 - 5) ** 2 + (x - number) ** 2 < 50, 1, 0)
    ids = np.where(x + y > 34 - number % 5, 2, ids)
    ids[: 2 + number % 3] = 255
    return ids.astype(np.uint8)


def draw_boxes(number):
    red = np.zeros((HEIGHT, WIDTH), np.uint8)
    for (left, top, width, height), class_ in boxes_of(number):
        red[top : top + height, left : left + width] = LEVELS[class_]
    return red


def place_boxes(number):
    """As a batch has them: three places, of which the last are empty."""
    sides, classes = np.zeros((3, 4), np.float32), np.full(3, -1, np.int32)
    for place, ((left, top, width, height), class_) in enumerate(boxes_of(number)):
        corners = np.array([top, left, top + height, left + width])
        sides[place], classes[place] = corners / [HEIGHT, WIDTH, HEIGHT, WIDTH], class_
    return {"boxes": sides, "labels": classes, "count": np.int32(number % 4)}


def check_level(level: Callable[[Any], int]):
    """Of labels that stay as they are: the image is as red as its label says."""

    def check(label, red):
        assert red.max() == level(label)

    return check


def check_boxes(label, red):
    """Each box is around the pixels of its class; behind the last one there is nothing."""
    boxes, classes, count = label["boxes"], label["labels"], label["count"]
    assert (classes[:count] >= 0).all() and (classes[count:] == -1).all()
    assert not boxes[count:].any()
    height, width = red.shape
    for box, class_ in zip(boxes[:count], classes[:count], strict=True):
        top, left, bottom, right = box * [height, width, height, width]
        column = red[:, int((left + right) / 2)]
        assert abs(int(column[int((top + bottom) / 2)]) - LEVELS[class_]) < 30
        first, last = np.nonzero(column > 60)[0][[0, -1]]
        assert abs(first - top) <= 2.01 and abs(last + 1 - bottom) <= 2.01


def check_mask(mask, red):
    """Wherever a pixel and all around it are of one region, the mask names that region."""
    assert set(np.unique(mask)) <= set(SHOWN)
    is_flat, padded = np.isin(red, list(SHOWN.values())), np.pad(red, 1, "edge")
    for y, x in np.ndindex(3, 3):
        is_flat &= padded[y : y + red.shape[0], x : x + red.shape[1]] == red
    assert is_flat.mean() > 0.2
    np.testing.assert_array_equal(red[is_flat], np.vectorize(SHOWN.get)(mask)[is_flat])


def index_boxes(number):
    boxes = list(boxes_of(number))
    return {
        "box_text": [NAMES[class_] for _, class_ in boxes],
        "box_label": [class_ + 1 for _, class_ in boxes],
        "box_xmin": [np.float32(x / WIDTH) for (x, _, _, _), _ in boxes],
        "box_ymin": [np.float32(y / HEIGHT) for (_, y, _, _), _ in boxes],
        "box_xmax": [np.float32((x + w) / WIDTH) for (x, _, w, _), _ in boxes],
        "box_ymax": [np.float32((y + h) / HEIGHT) for (_, y, _, h), _ in boxes],
        "box_is_crowd": [0] * len(boxes),
    }


def index_mask(number):
    ids, pixels = np.unique(ids_of(number), return_counts=True)
    name = f"masks/{number:02d}.png"
    return {"mask_source": name, "mask_ids": ids.tolist(), "mask_pixels": pixels.tolist()}


def sum_bits(tags: bytes) -> int:
    return sum(30 << NAMES.index(tag) for tag in tags.decode().split("\n") if tag)


UNNUMBERED = (
    {"augment": ["mixup"]},
    False,
    "mixup and cutmix need the transform graph, which numbers the classes",
)
UNSHARED = ({"balance": "uniform"}, True, "shares an epoch between classes, but the labels are {}")

KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            name="class",
            say=lambda n: {"label": NAMES[n % 3]},
            red=lambda n: LEVELS[n % 3],
            truth=lambda n: NAMES[n % 3].encode(),
            numbered=lambda n, names: np.int64(names.index(NAMES[n % 3])),
            check=check_level(lambda name: LEVELS[NAMES.index(name.decode())]),
            index=lambda n: {"label": NAMES[n % 3]},
            manifest={"label": None, "class_names": NAMES},
            counted=lambda n: {NAMES[n % 3]: 1},
            bad=(
                {"label": "cow"},
                {"classes": NAMES},
                "unknown_label",
                "t.jsonl:4: 'cow' is not one of ingest.classes",
            ),
            refused=[UNNUMBERED],
            called="classes",
        ),
        Kind(
            name="tags",
            say=lambda n: {"tags": tags_of(n)},
            red=lambda n: sum_bits("\n".join(tags_of(n)).encode()),
            truth=lambda n: "\n".join(tags_of(n)).encode(),
            numbered=lambda n, names: np.float32([name in tags_of(n) for name in names]),
            check=check_level(sum_bits),
            index=lambda n: {"label": "", "tags": tags_of(n)},
            manifest={"label": LABEL_COLUMNS["strings"]},
            bad=(
                {"tags": ["two\nlines"]},
                {},
                "wrong_type",
                "t.jsonl:4: the column 'tags' must be of type strings: a tag must be on one line, "
                "got 'two\\nlines'",
            ),
            refused=[
                UNNUMBERED,
                (*UNSHARED[:2], UNSHARED[2].format("tags")),
                (
                    {"balance": "uniform", "balance_by": "tags"},
                    True,
                    "between single values, but 'tags' holds lists; name another",
                ),
            ],
            called="tags",
        ),
        Kind(
            name="value",
            say=lambda n: {"label": n / 4 + 0.5},
            red=lambda n: n * 10,
            truth=lambda n: np.float32(n / 4 + 0.5),
            check=check_level(lambda value: round((value - 0.5) * 40)),
            index=lambda n: {"label": "", "value": n / 4 + 0.5},
            manifest={"label": LABEL_COLUMNS["float"]},
            bad=(
                {"label": "high"},
                {"column_types": {"label": "float"}},
                "wrong_type",
                "t.jsonl:4: the column 'label' must be of type float: 'high' is not a float",
            ),
            refused=[UNNUMBERED, (*UNSHARED[:2], UNSHARED[2].format("value"))],
            called="values",
        ),
        Kind(
            name="boxes",
            say=lambda n: {
                "boxes": [{"bbox": box, "category": NAMES[id_]} for box, id_ in boxes_of(n)]
            },
            red=draw_boxes,
            truth=place_boxes,
            check=check_boxes,
            index=index_boxes,
            manifest={"label": None},
            ids=NAMES,
            counted=lambda n: collections.Counter(NAMES[id_] for _, id_ in boxes_of(n)),
            counts=lambda manifest, split: manifest.splits[split].box_counts,
            moves="boxes",
            bad=(
                {"boxes": [{"bbox": [1, 1, 0, 2], "category": "ant"}]},
                {},
                "bad_box",
                "t.jsonl:4: box 0, ant [1.0, 1.0, 0.0, 2.0], has no area",
            ),
            refused=[
                ({"augment": ["mixup"]}, True, "mix the labels of two images, and boxes cannot"),
                ({"augment": ["cutmix"]}, False, "mix the labels of two images, and boxes cannot"),
                (
                    {"columns": ["image/object/class/label"]},
                    False,
                    "names 'image/object/class/label', of which the labels are made",
                ),
            ],
            called="boxes",
        ),
        Kind(
            name="mask",
            say=lambda n: {"mask": f"masks/{n:02d}.png"},
            red=lambda n: np.vectorize(SHOWN.get)(ids_of(n)),
            truth=lambda n: ids_of(n).astype(np.int32),
            check=check_mask,
            index=index_mask,
            manifest={"label": None},
            ids=("0", "1", "2"),
            counted=lambda n: collections.Counter(map(str, ids_of(n).ravel().tolist())),
            counts=lambda manifest, split: manifest.splits[split].mask_pixels,
            steps=(TURN, CROP, PAD, ["cutmix", *TURN], [{"op": "rotate"}]),
            moves="masks",
            bad=({"mask": ""}, {}, "no_mask", "t.jsonl:4: the column 'mask' is empty"),
            refused=[({"augment": ["mixup"]}, True, "mixup, which blends the labels.*take cutmix")],
            called="masks",
        ),
        Kind(
            name="unlabelled",
            say=lambda n: {},
            red=lambda n: 0,
            truth=lambda n: b"",
            numbered=lambda n, names: np.int64(-1),
            check=check_level(lambda label: 0),
            index=lambda n: {"label": ""},
            manifest={"label": None, "class_names": ()},
            bad=(
                {"path": "none.png"},
                {},
                "missing_file",
                "t.jsonl:4: there is no file 'none.png'",
            ),
            refused=[UNNUMBERED],
            called="classes",
        ),
    )
}
