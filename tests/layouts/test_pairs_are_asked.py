"""Where images have partners that may be their masks, or another picture of them, you are asked.

As in DRIVE, CHASE_DB1, LOL, CycleGAN's and DIV2K: each way out that is named is tried.
"""

import shlex

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.meanings import UnclearLayout
from tests.drawings import encode_png
from tests.layouts.drawn import draw_images, labels_of, splits_of, understand

pytestmark = pytest.mark.beam


def _draw_masks(folder, names, levels=(0, 255)):
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).choice(np.uint8(levels), (30, 40))
        (folder / name).write_bytes(encode_png(pixels))


def _draw_drive(folder):
    for split, numbers in (("training", range(21, 26)), ("test", range(1, 6))):
        own = [f"{number:02}" for number in numbers]
        draw_images(folder, [f"{split}/images/{n}_{split}.tif" for n in own])
        _draw_masks(folder, [f"{split}/1st_manual/{n}_manual1.gif" for n in own])
        _draw_masks(folder, [f"{split}/mask/{n}_{split}_mask.gif" for n in own])


def _draw_chase(folder):
    eyes = [f"Image_{n:02}{side}" for n in range(1, 6) for side in "LR"]
    draw_images(folder, [f"{eye}.jpg" for eye in eyes])
    _draw_masks(folder, [f"{eye}_{of}HO.png" for eye in eyes for of in ("1st", "2nd")])


def _ways(folder):
    """What is asked of a folder: the words of each choice, and the listing that it leads to."""
    with pytest.raises(UnclearLayout) as asked:
        understand(folder)
    found = {}
    for choice in asked.value.choices:
        given = shlex.split(choice.say(str(folder)).removeprefix("set "))
        options = (each.removeprefix("ingest.").partition("=") for each in given)
        found[choice.words] = understand(folder, **{n: yaml.safe_load(v) for n, _, v in options})
    return found


def _pairs_of(listing):
    left_out = listing.options.is_left_out
    return {
        ref.path: ref.mask and ref.mask.path for ref in listing.refs() if not left_out(ref.path)
    }


def test_of_field_of_view_and_vessels_either_may_be_the_mask(tmp_path):
    _draw_drive(tmp_path)
    ways = _ways(tmp_path)
    assert list(ways) == [
        "{scene}/mask/{key}_mask.gif as masks",
        "{scene}/1st_manual/{key}_manual1.gif as masks",
    ]
    for own, listing in zip(("mask/{}_mask", "1st_manual/{}"), ways.values(), strict=True):
        assert listing.options.masks.classes == {"background": 0, "foreground": 255}
        pairs = _pairs_of(listing)
        assert len(pairs) == 10
        key = "01_test" if own.endswith("_mask") else "01_manual1"
        assert pairs["test/images/01_test.tif"] == f"test/{own.format(key)}.gif"
        assert set(splits_of(listing).values()) == {"train", "eval"}


def test_masks_of_two_observers_beside_images_are_asked_about(tmp_path):
    _draw_chase(tmp_path)
    first, second, unlabelled = _ways(tmp_path).values()
    for listing, of in ((first, "1st"), (second, "2nd")):
        assert len(pairs := _pairs_of(listing)) == 10
        assert pairs["Image_03R.jpg"] == f"Image_03R_{of}HO.png"
    assert set(labels_of(unlabelled).values()) == {""} and unlabelled.found == 30


def test_who_answers_gets_the_masks_that_are_meant(tmp_path):
    _draw_drive(tmp_path / "drive")
    config = tmp_path / "c.yaml"
    given = ["init", str(tmp_path / "drive"), "--output", str(config)]
    assert isinstance(CliRunner().invoke(cli, [*given, "--yes"]).exception, UserError)
    asked = CliRunner().invoke(cli, given, input="2\n\n\n\n")
    assert asked.exit_code == 0, asked.output
    masks = yaml.safe_load(config.read_text())["ingest"]["masks"]
    assert masks["masks"] == "{scene}/1st_manual/{key}_manual1.gif"
    assert masks["classes"] == {"background": 0, "foreground": 255}


@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_pictures_of_many_levels_beside_images_are_no_masks(tmp_path, ending):
    draw_images(tmp_path, [f"images/{n}.jpg" for n in range(6)])
    draw_images(tmp_path, [f"depth/{n}.{ending}" for n in range(6)])
    _draw_masks(tmp_path, [f"masks/{n}.png" for n in range(6)], (0, 1, 2))
    with pytest.raises(UserError, match=r'masks: "masks/\{key\}\.png"') as refused:
        understand(tmp_path)
    assert not isinstance(refused.value, UnclearLayout)


def test_two_domains_a_split_are_no_splits_alone(tmp_path):
    counts = {"trainA": 5, "trainB": 6, "testA": 2, "testB": 3}
    draw_images(
        tmp_path, [f"set/{name}/{name}_{n}.jpg" for name in counts for n in range(counts[name])]
    )
    first, second, both = _ways(tmp_path).values()
    assert len(_pairs_of(first)) == 7 and len(_pairs_of(second)) == 9
    assert set(splits_of(first).values()) == {"train", "eval", None}
    labels, splits = labels_of(both), splits_of(both)
    assert len(labels) == 16 and labels["set/testB/testB_0.jpg"] == "B"
    assert (
        splits["set/testB/testB_0.jpg"] == "eval" and splits["set/trainA/trainA_0.jpg"] == "train"
    )


def test_images_and_their_small_copies_are_no_classes(tmp_path):
    for split, numbers in (("train", range(1, 7)), ("valid", range(801, 804))):
        draw_images(tmp_path, [f"DIV2K_{split}_HR/{n:04}.png" for n in numbers])
        small = f"DIV2K_{split}_LR_bicubic"
        draw_images(tmp_path, [f"{small}/X{x}/{n:04}x{x}.png" for n in numbers for x in (2, 3)])
    large, small, both = _ways(tmp_path).values()
    assert len(_pairs_of(large)) == 9 and len(_pairs_of(small)) == 18
    assert labels_of(both)["DIV2K_valid_LR_bicubic/X3/0801x3.png"] == "LR_bicubic"
    assert labels_of(both)["DIV2K_train_HR/0001.png"] == "HR"


def test_small_copies_of_one_split_are_called_as_their_images_are(tmp_path):
    draw_images(tmp_path, [f"DIV2K_train_HR/{n:04}.png" for n in range(1, 7)])
    draw_images(tmp_path, [f"DIV2K_train_LR_bicubic/X2/{n:04}x2.png" for n in range(1, 7)])
    assert list(_ways(tmp_path)) == [
        "the images in DIV2K_train_HR/ alone",
        "the images in DIV2K_train_LR_bicubic/ alone",
        "the classes DIV2K_train_HR, DIV2K_train_LR_bicubic",
    ]


def test_pairs_in_each_folder_are_asked_about_whatever_the_folders_are_called(tmp_path):
    names = [f"our485/{of}/{n}.png" for of in ("low", "high") for n in (2, 5, 6, 7)]
    draw_images(
        tmp_path, [*names, *(f"eval15/{of}/{n}.png" for of in ("low", "high") for n in (1, 22))]
    )
    high, low, both = _ways(tmp_path).values()
    assert set(_pairs_of(high)) == {
        *(f"our485/high/{n}.png" for n in (2, 5, 6, 7)),
        *(f"eval15/high/{n}.png" for n in (1, 22)),
    }
    assert len(_pairs_of(low)) == 6 and labels_of(both)["eval15/low/22.png"] == "low"


def test_where_there_are_no_images_no_labels_are_no_choice(tmp_path):
    (tmp_path / "train_32x32.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(200))
    with pytest.raises(UserError, match=r"holds no images, and train_32x32\.mat may") as refused:
        understand(tmp_path)
    assert "no labels" not in str(refused.value)
    (tmp_path / "fer.csv").write_text("emotion,pixels\n0,1 2\n")
    with pytest.raises(UnclearLayout) as asked:
        understand(tmp_path)
    assert [choice.words for choice in asked.value.choices] == ["what fer.csv says"]
