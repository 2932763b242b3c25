"""The sets of images on which defaults are measured, as folders that people have."""

import json
import math
import pathlib
import shutil
from collections.abc import Callable, Iterator

import cv2
import numpy as np

_TEST_SHARE = 0.2
Rng = np.random.Generator


def draw_sets(folder: pathlib.Path, data: pathlib.Path) -> None:
    """Makes all sets below a folder, of the unpacked `cifar10`, `imagenet_sample` and `camvid`."""
    for name, make in _SETS.items():
        if not (folder / name).exists():
            make(folder / name, data, np.random.default_rng(0))


def _write(path: pathlib.Path, image: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), image)


def _copy_cifar(folder: pathlib.Path, data: pathlib.Path, train: int, test: int) -> None:
    for split, count in (("train", train), ("test", test)):
        for of_class in sorted((data / "cifar10" / split).iterdir()):
            target = folder / split / of_class.name
            target.mkdir(parents=True)
            for path in sorted(of_class.iterdir())[:count]:
                shutil.copyfile(path, target / path.name)


def small_photos(folder: pathlib.Path, data: pathlib.Path, rng: Rng) -> None:
    """10,000 photos of 32 x 32 pixels, ten classes."""
    _copy_cifar(folder, data, 1000, 200)


def few_small_photos(folder: pathlib.Path, data: pathlib.Path, rng: Rng) -> None:
    """400 photos of 32 x 32 pixels, ten classes."""
    _copy_cifar(folder, data, 40, 100)


# Of ImageNet's classes, by their numbers in WordNet: from where on they are of a group.
_GROUPS = (
    *((0, "other animals"), (1_500_000, "birds"), (1_630_000, "other animals")),
    *((1_790_000, "birds"), (1_862_000, "other animals"), (2_085_000, "dogs")),
    *((2_114_000, "other animals"), (2_600_000, "things"), (4_600_000, "food and places")),
)


def photos(folder: pathlib.Path, data: pathlib.Path, rng: Rng) -> None:
    """399 photos of about 500 x 400 pixels in five groups of ImageNet's classes."""
    for path in sorted((data / "imagenet_sample").glob("*.JPEG")):
        number = int(path.name[1:9])
        group = next(name for first, name in reversed(_GROUPS) if number >= first)
        (folder / group).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / group / path.name)


def digits(folder: pathlib.Path, data: pathlib.Path, rng: Rng) -> None:
    """1,797 handwritten digits of 8 x 8 pixels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    for number, (image, label) in enumerate(zip(found.images, found.target, strict=True)):
        levels = np.clip(image * 16, 0, 255).astype(np.uint8)
        _write(folder / str(label) / f"{number:04}.png", levels)


def letters(folder: pathlib.Path, data: pathlib.Path, rng: Rng) -> None:
    """560 drawn letters of 64 x 64 pixels, of which some are mirrors of others."""
    fonts = (cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_TRIPLEX)
    for letter in "bdpqsz2":
        for number in range(80):
            image = np.full((64, 64, 3), rng.integers(120, 255, 3), np.uint8)
            scale, color = rng.uniform(1, 1.8), tuple(map(int, rng.integers(0, 110, 3)))
            font = fonts[rng.integers(len(fonts))]
            (width, height), _ = cv2.getTextSize(letter, font, scale, 2)
            left, base = (64 - width) // 2, (64 + height) // 2
            place = int(left + rng.integers(-8, 9)), int(base + rng.integers(-8, 9))
            cv2.putText(image, letter, place, font, scale, color, int(rng.integers(1, 4)))
            turn = cv2.getRotationMatrix2D((32, 32), rng.uniform(-15, 15), 1)
            image = cv2.warpAffine(image, turn, (64, 64), borderMode=cv2.BORDER_REPLICATE)
            noisy = image + rng.normal(0, 18, image.shape)
            name = f"upper_{letter}" if letter.isdigit() else letter
            _write(folder / name / f"{number:03}.png", np.clip(noisy, 0, 255).astype(np.uint8))


def faces(folder: pathlib.Path, data: pathlib.Path, rng: Rng) -> None:
    """1,230 drawn faces of 48 x 48 gray pixels, four moods, the rarest with 30."""
    counts = {"happy": 600, "sad": 400, "neutral": 200, "surprised": 30}
    for mood, count in counts.items():
        for number in range(count):
            image = np.full((48, 48), rng.integers(20, 200), np.uint8)
            middle = rng.integers(20, 29, 2)
            skin = int(rng.integers(60, 250))
            cv2.ellipse(image, tuple(map(int, middle)), (15, 19), 0, 0, 360, skin, -1)
            dark = max(0, skin - int(rng.integers(30, 60)))
            x, y = map(int, middle)
            for side in (-6, 6):
                cv2.circle(image, (x + side, y - 6), int(rng.integers(1, 3)), dark, -1)
            width, bend = int(rng.integers(4, 8)), int(rng.integers(2, 5))
            if mood == "happy":
                cv2.ellipse(image, (x, y + 6), (width, bend), 0, 0, 180, dark, 1)
            elif mood == "sad":
                cv2.ellipse(image, (x, y + 10), (width, bend), 0, 180, 360, dark, 1)
            elif mood == "neutral":
                cv2.line(image, (x - width, y + 8), (x + width, y + 8), dark, 1)
            else:
                cv2.ellipse(image, (x, y + 8), (bend, bend + 1), 0, 0, 360, dark, 1)
            noisy = image + rng.normal(0, 14, image.shape)
            _write(folder / mood / f"{number:03}.png", np.clip(noisy, 0, 255).astype(np.uint8))


def cells(folder: pathlib.Path, data: pathlib.Path, rng: Rng) -> None:
    """640 drawn cells of 240 x 320 pixels as through a microscope, four kinds by their nuclei."""
    counts = {"one lobe": 320, "two lobes": 200, "three lobes": 100, "ring": 20}
    for kind, (name, count) in enumerate(counts.items()):
        for number in range(count):
            image = np.full(
                (240, 320, 3), np.add((205, 195, 225), rng.integers(-15, 16, 3)), np.uint8
            )
            for _ in range(rng.integers(6, 14)):  # red cells
                place = int(rng.integers(0, 320)), int(rng.integers(0, 240))
                cv2.circle(image, place, int(rng.integers(22, 32)), (165, 160, 215), -1)
            x, y = int(rng.integers(90, 230)), int(rng.integers(80, 160))
            cv2.circle(image, (x, y), int(rng.integers(42, 55)), (205, 170, 190), -1)
            tint = tuple(int(each) for each in np.add((140, 60, 95), rng.integers(-12, 13, 3)))
            if kind == 3:
                cv2.circle(image, (x, y), int(rng.integers(18, 26)), tint, 8)
            lobes = 0 if kind == 3 else kind + 1
            start, apart = rng.uniform(0, 2 * math.pi), 20 if lobes > 1 else 0
            for lobe in range(lobes):
                angle = start + 2 * math.pi * lobe / lobes
                place = int(x + apart * math.cos(angle)), int(y + apart * math.sin(angle))
                cv2.circle(image, place, int(rng.integers(13, 18)), tint, -1)
            image = cv2.GaussianBlur(image, (0, 0), rng.uniform(0.8, 2))
            noisy = image + rng.normal(0, 8, image.shape)
            _write(folder / name / f"{number:03}.jpg", np.clip(noisy, 0, 255).astype(np.uint8))


def scenes(folder: pathlib.Path, data: pathlib.Path, rng: Rng) -> None:
    """92 street scenes of 480 x 360 pixels with masks of eleven classes."""
    shutil.copytree(data / "camvid", folder)
    for each in folder.iterdir():
        if each.is_file():
            each.unlink()


_BOXED = {8: "car", 9: "pedestrian"}


def boxed_scenes(folder: pathlib.Path, data: pathlib.Path, rng: Rng) -> None:
    """The same scenes with boxes around their cars and pedestrians, as COCO has them."""
    images, annotations = [], []
    for number, mask_path in enumerate(sorted((data / "camvid/masks").iterdir())):
        shutil.copytree(data / "camvid/images", folder / "images", dirs_exist_ok=True)
        mask = cv2.imread(str(mask_path), cv2.IMREAD_GRAYSCALE)
        height, width = mask.shape
        name = f"images/{mask_path.name}"
        images.append({"id": number, "file_name": name, "height": height, "width": width})
        for label, box in _find_boxes(mask):
            each = {"image_id": number, "category_id": label, "bbox": box, "iscrowd": 0}
            annotations.append({"id": len(annotations), "area": box[2] * box[3], **each})
    categories = [{"id": label, "name": name} for label, name in _BOXED.items()]
    whole = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "scenes.json").write_text(json.dumps(whole))


def _find_boxes(mask: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    for label in _BOXED:
        count, _, found, _ = cv2.connectedComponentsWithStats((mask == label).astype(np.uint8))
        for number in range(1, count):
            left, top, width, height, area = map(int, found[number])
            if area >= 40:
                yield label, [left, top, width, height]


_SETS: dict[str, Callable[[pathlib.Path, pathlib.Path, Rng], None]] = {
    each.__name__: each
    for each in (
        *(small_photos, few_small_photos, photos, digits, letters, faces, cells),
        *(scenes, boxed_scenes),
    )
}
