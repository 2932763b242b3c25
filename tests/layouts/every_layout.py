"""Draws small data sets in the layouts in which people keep theirs, see `test_every_layout`.

Every picture is 48 x 40 and has one colour, which no other one of its layout has.
"""

import csv
import gzip
import io
import json
import pathlib
import struct
import tarfile
import unicodedata

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 48, 40
_drawn = 0


def draw(path: pathlib.Path, size=(WIDTH, HEIGHT)) -> None:
    """Saves a picture of a colour that no other one has."""
    global _drawn
    _drawn += 1
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = (_drawn * 37 % 251, _drawn * 101 % 241, _drawn * 53 % 239)
    Image.new("RGB", size, colour).save(path, quality=95)


def draw_many(folder: pathlib.Path, count: int, ending: str = ".jpg", start: int = 0) -> None:
    for number in range(start, start + count):
        draw(folder / f"{number:03}{ending}")


def write(path: pathlib.Path, text: str, encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))


def table(
    path: pathlib.Path, rows: list[list], encoding: str = "utf-8", delimiter: str = ","
) -> None:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerows(rows)
    write(path, buffer.getvalue(), encoding)


def splits_of_classes(root):
    for split, count in (("train", 8), ("validation", 3), ("test", 3)):
        for name in ("daisy", "rose"):
            draw_many(root / split / name, count)


def splits_twice(root):
    for split, count in (("seg_train", 8), ("seg_test", 3)):
        for name in ("forest", "sea"):
            draw_many(root / split / split / name, count)
    draw_many(root / "seg_pred" / "seg_pred", 4)


def classes_of_splits(root):
    for name in ("daisy", "rose"):
        for split, count in (("train", 8), ("val", 3)):
            draw_many(root / name / split, count)


def splits_with_metadata(root):
    for split, count in (("train", 8), ("validation", 4)):
        draw_many(root / split, count)
        rows = [["file_name", "label"]]
        rows += [[f"{n:03}.jpg", ("daisy", "rose")[n % 2]] for n in range(count)]
        table(root / split / "metadata.csv", rows)


def metadata_with_objects(root):
    draw_many(root / "train", 12)
    lines = [
        {"file_name": f"{n:03}.jpg", "objects": {"bbox": [[4, 5, 10, 12]], "categories": [n % 2]}}
        for n in range(12)
    ]
    write(root / "train" / "metadata.jsonl", "".join(json.dumps(x) + "\n" for x in lines))


def a_project(root):
    for name in ("cat", "dog"):
        draw_many(root / "data" / name, 6)
        for split, count in (("train", 4), ("test", 2)):
            for number in range(count):
                source = root / "data" / name / f"{number + (0 if split == 'train' else 4):03}.jpg"
                target = root / "split" / split / name / source.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
    draw_many(root / "results", 2, ".png")
    write(root / "README.md", "# cats and dogs\n")


def anomaly(root):
    draw_many(root / "train" / "good", 8, ".png")
    for name in ("good", "scratch"):
        draw_many(root / "test" / name, 3, ".png")
    for number in range(3):
        mask = np.zeros((HEIGHT, WIDTH), np.uint8)
        mask[5:9, 5:9] = 255
        path = root / "ground_truth" / "scratch" / f"{number:03}_mask.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).save(path)


def one_name_like_a_mask(root):
    for name in ("cat", "dog"):
        draw_many(root / name, 12)
    draw(root / "dog" / "000_mask.jpg")


SIZES = {
    f"{letter}{n}.jpg": (60, 50) if letter == "a" else (48, 40)
    for n in range(4)
    for letter in "abc"
}
BOXES = []
for _n in range(4):
    BOXES += [
        (f"a{_n}.jpg", 60, 50, "cat", 3, 4, 20, 30 + _n),
        (f"a{_n}.jpg", 60, 50, "dog", 25, 10, 55, 48),
    ]
    BOXES += [
        (f"b{_n}.jpg", 48, 40, "cat", 0, 0, 48, 40),
        (f"c{_n}.jpg", 48, 40, "dog", 10, 12, 30 - _n, 20),
    ]
    BOXES += [
        (f"c{_n}.jpg", 48, 40, "dog", 31, 12, 47, 20),
        (f"c{_n}.jpg", 48, 40, "cat", 1, 1, 9, 39),
    ]


def boxes_a_row(root):
    for name, size in (SIZES | {"d.jpg": (48, 40)}).items():
        draw(root / "images" / name, size)
    rows = [
        ["filename", "width", "height", "class", "xmin", "ymin", "xmax", "ymax"],
        *map(list, BOXES),
    ]
    table(root / "labels.csv", rows)
    # keras-retinanet's: no header; an image without boxes has empty cells.
    rows = [[f"images/{n}", x0, y0, x1, y1, c] for n, _, _, c, x0, y0, x1, y1 in BOXES]
    table(root / "retinanet.csv", [*rows, ["images/d.jpg", "", "", "", "", ""]])
    table(root / "classes.csv", [["cat", 0], ["dog", 1]])


def voc(root):
    for name, size in SIZES.items():
        draw(root / "JPEGImages" / name, size)
        objects = "".join(
            f"<object><name>{c}</name><pose>Unspecified</pose><truncated>0</truncated>"
            f"<difficult>{int(c == 'dog')}</difficult><bndbox><xmin>{x0}</xmin>"
            f"<ymin>{y0}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>"
            for n, _, _, c, x0, y0, x1, y1 in BOXES
            if n == name
        )
        write(
            root / "Annotations" / name.replace(".jpg", ".xml"),
            f"<annotation><folder>x</folder><filename>{name}</filename><size><width>{size[0]}</width>"
            f"<height>{size[1]}</height><depth>3</depth></size>{objects}</annotation>",
        )
    stems = [name.removesuffix(".jpg") for name in SIZES]
    write(
        root / "ImageSets" / "Main" / "train.txt", "".join(f"{x}\n" for x in stems if x[0] in "ab")
    )
    write(root / "ImageSets" / "Main" / "val.txt", "".join(f"{x}\n" for x in stems if x[0] == "c"))


def yolo(root):
    for split, first in (("train", 0), ("valid", 8)):
        for number in range(first, first + (8 if split == "train" else 4)):
            draw(root / split / "images" / f"{number:03}.jpg")
            if number % 4 == 3:
                continue  # no file of labels: a picture without boxes
            text = (
                ""
                if number % 4 == 2
                else f"{number % 2} 0.5 0.5 0.25 0.5\n1 0.25 0.25 0.125 0.125\n"
            )
            write(root / split / "labels" / f"{number:03}.txt", text)
    write(
        root / "data.yaml",
        "train: ../train/images\nval: ../valid/images\nnc: 2\nnames: ['cat', 'dog']\n",
    )


def coco_per_split(root):
    for split, count in (("train", 6), ("valid", 3), ("test", 3)):
        draw_many(root / split, count)
        images = [
            {"id": n, "file_name": f"{n:03}.jpg", "width": WIDTH, "height": HEIGHT}
            for n in range(count)
        ]
        annotations = [
            {
                "id": n,
                "image_id": n,
                "category_id": 1 + n % 2,
                "bbox": [4, 5, 10, 12],
                "area": 120,
                "iscrowd": 0,
            }
            for n in range(count)
        ]
        categories = [{"id": 0, "name": "pets", "supercategory": "none"}]
        categories += [
            {"id": n, "name": c, "supercategory": "pets"} for n, c in ((1, "cat"), (2, "dog"))
        ]
        data = {"images": images, "annotations": annotations, "categories": categories}
        write(root / split / "_annotations.coco.json", json.dumps(data))


def coco_windows_paths(root):
    draw_many(root / "images", 12)
    images = [
        {"id": n, "file_name": f"images\\{n:03}.jpg", "width": WIDTH, "height": HEIGHT}
        for n in range(12)
    ]
    annotations = [
        {"id": n, "image_id": n, "category_id": 0, "bbox": [4, 5, 10, 12]} for n in range(12)
    ]
    data = {"images": images, "annotations": annotations, "categories": [{"id": 0, "name": "cat"}]}
    write(root / "result.json", json.dumps(data))


def panoptic(root):
    annotations = []
    for number in range(12):
        draw(root / "images" / f"{number:03}.jpg")
        mask = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        mask[5:20, 5:20] = (7, 1, 0)
        mask[20:30] = (9, 0, 0)
        path = root / "panoptic" / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).save(path)
        segments = [
            {"id": 263, "category_id": 1, "area": 225},
            {"id": 9, "category_id": 2, "area": 480},
        ]
        annotations.append({"image_id": number, "file_name": path.name, "segments_info": segments})
    images = [
        {"id": n, "file_name": f"images/{n:03}.jpg", "width": WIDTH, "height": HEIGHT}
        for n in range(12)
    ]
    categories = [{"id": 1, "name": "cat", "isthing": 1}, {"id": 2, "name": "sky", "isthing": 0}]
    write(
        root / "panoptic.json",
        json.dumps({"images": images, "annotations": annotations, "categories": categories}),
    )


def run_lengths(root):
    draw_many(root / "train", 12)
    rows = [["ImageId", "ClassId", "EncodedPixels"]]
    for number in range(12):
        rows += [[f"{number:03}.jpg", 1, "1 3 41 5"]] + (
            [[f"{number:03}.jpg", 2, "401 40"]] if number % 2 else []
        )
    table(root / "train.csv", rows)


def colour_masks(root):
    for number in range(12):
        draw(root / "JPEGImages" / f"{number:03}.jpg")
        mask = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        mask[5:20, 5:20] = (48, 112, 32)
        mask[20:30, 20:30] = (176, 112, 32)
        path = root / "SegmentationClass" / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).save(path)
    write(
        root / "labelmap.txt",
        "# label:color_rgb:parts:actions\nbackground:0,0,0::\nCat:48,112,32::\nDog:176,112,32::\n",
    )


def label_called_otherwise(root):
    draw_many(root / "images", 12)
    rows = [["user.id", "image", "emotion"]]
    rows += [
        [600 + n % 3, f"{n:03}.jpg", ("anger", "joy", "ANGER", "fear")[n % 4]] for n in range(12)
    ]
    table(root / "data" / "legend.csv", rows)


def identifiers(root):
    draw_many(root / "train_images", 12, ".png")
    table(root / "train.csv", [["id_code", "diagnosis"], *([f"{n:03}", n % 3] for n in range(12))])


def one_column_a_class(root):
    draw_many(root / "images", 12)
    rows = [["image", "melanoma", "nevus", "keratosis"]]
    rows += [
        [f"{n:03}", float(n % 3 == 0), float(n % 3 == 1), float(n % 3 == 2)] for n in range(12)
    ]
    table(root / "truth.csv", rows)


def a_split_column(root):
    draw_many(root / "images", 10)
    sets = ("TRAIN",) * 6 + ("VALIDATE",) * 2 + ("TEST",) * 2
    rows = [
        ["Set", "Image", "Label"],
        *([sets[n], f"images/{n:03}.jpg", "ab"[n % 2]] for n in range(10)),
    ]
    table(root / "all.csv", rows)


def spreadsheet(root):
    draw_many(root / "images", 12)
    rows = [
        ["filename", "label"],
        *([f"images/{n:03}.jpg", ("Äpfel", "Café")[n % 2]] for n in range(12)),
    ]
    table(root / "windows.csv", rows, "cp1252", ";")
    table(root / "backslashes.csv", [[c.replace("/", "\\") for c in row] for row in rows])
    write(
        root / "excel.csv",
        "sep=;\nfilename;label\n"
        + "".join(f"images/{n:03}.jpg;{'ab'[n % 2]}\n" for n in range(12)),
    )


def alike_names(root):
    for name in (
        "Rose",
        "rose",
        "daisy",
        "daisy ",
        unicodedata.normalize("NFC", "thé"),
        unicodedata.normalize("NFD", "thé"),
    ):
        draw_many(root / name, 4)


def idx(root):
    root.mkdir(parents=True, exist_ok=True)
    pixels = np.arange(20 * 28 * 28).reshape(20, 28, 28) % 251
    for split in ("train", "t10k"):
        with gzip.open(root / f"{split}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">IIII", 2051, 20, 28, 28) + pixels.astype(np.uint8).tobytes())
        with gzip.open(root / f"{split}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">II", 2049, 20) + bytes(range(10)) * 2)


def open_images(root):
    for number in range(12):
        draw(root / "train" / f"{number:016x}.jpg")
    rows = [
        [
            "ImageID",
            "Source",
            "LabelName",
            "Confidence",
            "XMin",
            "XMax",
            "YMin",
            "YMax",
            "IsGroupOf",
        ]
    ]
    rows += [
        [f"{n:016x}", "x", f"/m/0{k}bt", 1, 0.1, 0.5, 0.2, 0.6, 0]
        for n in range(12)
        for k in range(2)
    ]
    table(root / "train-annotations-bbox.csv", rows)
    table(root / "class-descriptions.csv", [["/m/00bt", "Cat"], ["/m/01bt", "Dog"]])


def tar_of_pairs(root):
    root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(root / "shard-000000.tar", "w") as tar:
        for number in range(12):
            buffer = io.BytesIO()
            Image.new("RGB", (WIDTH, HEIGHT), (number * 20, 9, 200)).save(buffer, "JPEG")
            for name, data in (
                (f"s{number}.input.jpg", buffer.getvalue()),
                (f"s{number}.target.cls", b"%d" % (number % 2)),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def twelve_bits(root):
    for number in range(8):
        values = (np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) * 7 + number * 11) % 4096
        path = root / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(values.astype(np.uint16)).save(path)


def linked_classes(root):
    for name in ("cat", "dog"):
        draw_many(root / "store" / name, 4)
        (root / "links").mkdir(exist_ok=True)
        link = root / "links" / name
        if not link.is_symlink():
            link.symlink_to(root.resolve() / "store" / name)
