import os
import shutil
import zipfile

import pytest

from image_pipeline.components.dataset.manifest import read_whole_manifest
from image_pipeline.components.dataset.verify import verify_data_set
from image_pipeline.components.errors import UserError
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.config import load_config
from image_pipeline.run.engine import choose_engine
from image_pipeline.run.preflight import (
    check_classes,
    check_ingest,
    check_labels,
    check_output,
    survey_images,
)
from image_pipeline.run.run_plan import plan_run
from tests.drawings import write_folder

pytestmark = pytest.mark.unit


def test_a_survey_counts_files_and_classes(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    (images / "loose.txt").write_text("x")
    survey = survey_images(str(images), IngestOptions())
    assert (survey.found, survey.classes) == (7, {"cat": 3, "dog": 3})


def test_one_more_file_is_another_fingerprint(tmp_path):
    images = write_folder(tmp_path / "images", per_class=3)
    before = survey_images(str(images), IngestOptions()).fingerprint
    assert survey_images(str(images), IngestOptions()).fingerprint == before
    (images / "cat" / "new.png").write_bytes(b"x")
    assert survey_images(str(images), IngestOptions()).fingerprint != before


def test_an_empty_folder_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match=r"holds no files; give a folder that holds images"):
        survey_images(str(tmp_path), IngestOptions())


@pytest.mark.parametrize("classes", [("cat",), ()])
def test_training_needs_two_classes(tmp_path, classes):
    images = write_folder(tmp_path / "images", classes)
    os.makedirs(images, exist_ok=True)
    (images / "loose.txt").write_text("x")
    survey = survey_images(str(images), IngestOptions())
    expected = "only the class 'cat'" if classes else "no class"
    with pytest.raises(UserError, match=rf"name {expected}, but training needs at least two"):
        check_classes(survey, str(images))


def test_an_archive_of_which_nothing_can_be_read_says_why(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("cat/a.png", b"any")
        archive.writestr("dog/b.png", b"any")
    with pytest.raises(UserError, match=r"None of 2 members .*: in .* packed by the method 12"):
        survey_images(str(path), IngestOptions())


def test_the_output_must_not_lie_in_the_input(tmp_path):
    with pytest.raises(UserError, match="the next run would read it as images"):
        check_output(str(tmp_path / "out"), str(tmp_path))
    check_output(str(tmp_path) + "-out", str(tmp_path))


def test_an_output_that_cannot_be_written_is_the_users_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"Cannot write to the output folder .*: Not a directory"):
        check_output(str(tmp_path / "file" / "out"), str(tmp_path / "images"))


def test_a_folder_whose_name_is_not_utf8_is_refused_before_any_work(tmp_path):
    images, out = str(write_folder(tmp_path / "images", per_class=2)), str(tmp_path / "out")
    odd, odd_out = f"{tmp_path}/caf\udce9", f"{tmp_path}/caf\udce9-out"
    shutil.copytree(images, odd)
    options, flags, config = IngestOptions(), choose_engine(()), load_config(None)
    why = r"must have a path that is UTF-8, .*, got '.*/caf\\xe9(-out)?'; rename it, or, .*ln -s"
    for given, output, name in ((odd, out, "--images"), (images, odd_out, "--output")):
        with pytest.raises(UserError, match=rf"^{name} {why}"):
            check_ingest(given, output, options, flags)
        with pytest.raises(UserError, match=rf"^{name} {why}"):
            plan_run(config, given, output, ())
    for read in (read_whole_manifest, verify_data_set):
        with pytest.raises(UserError, match=rf"^A data set {why}"):
            read(odd_out)
    assert not os.path.exists(out) and not os.path.exists(odd_out)
    # A link to it has another name; and files in a folder are called as they are.
    os.rename(f"{odd}/cat/000.png", f"{odd}/cat/\udce9.png")
    os.symlink(odd, f"{tmp_path}/link")
    assert check_ingest(f"{tmp_path}/link", out, options, flags).found == 4


def test_masks_among_the_images_are_refused_before_any_work(tmp_path):
    images = write_folder(tmp_path / "pairs", classes=["images", "masks"], per_class=2)
    with pytest.raises(UserError, match=r"images and their masks, such as 'masks/000.png' of"):
        survey_images(str(images), IngestOptions(label_pattern=None))


def test_a_folder_of_one_class_is_told_from_one_of_all_classes(tmp_path):
    images = write_folder(tmp_path / "photos", per_class=2)
    survey = survey_images(str(images / "cat"), IngestOptions())
    with pytest.raises(UserError) as caught:
        check_labels(survey)
    message = str(caught.value)
    assert message.startswith(f"None of 2 files in '{images}/cat' names a class by ingest.label")
    assert f"if 'cat' is one of several classes, give --images '{images}'; or" in message
    assert "--set ingest.label_pattern=null" in message
    check_labels(survey_images(str(images / "cat"), IngestOptions(label_pattern=None)))
    (tmp_path / "photos" / "dog").rename(tmp_path / "dog")
    with pytest.raises(UserError, match=r"<class>/<file>; correct the pattern"):
        check_labels(survey)


def test_a_folder_of_links_out_of_it_says_how_they_are_followed(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "elsewhere" / name).mkdir(parents=True)
        (tmp_path / "elsewhere" / name / "1.png").touch()
    (tmp_path / "farm").mkdir()
    for name in ("cat", "dog"):
        (tmp_path / "farm" / name).symlink_to(tmp_path / "elsewhere" / name)
    folder = str(tmp_path / "farm")
    survey = survey_images(folder, IngestOptions())
    for check, arguments in ((check_labels, ()), (check_classes, (folder,))):
        with pytest.raises(UserError, match=r"^2 links lead out .*--follow-links"):
            check(survey, *arguments)
    followed = survey_images(folder, IngestOptions(follow_links=True))
    assert followed.classes == {"cat": 1, "dog": 1} and not followed.outside


def test_masks_behind_links_that_are_followed_are_masks(tmp_path):
    for name in ("images", "masks"):
        (tmp_path / "elsewhere" / name).mkdir(parents=True)
        (tmp_path / "farm").mkdir(exist_ok=True)
        for number in range(3):
            (tmp_path / "elsewhere" / name / f"{number}.png").touch()
        (tmp_path / "farm" / name).symlink_to(tmp_path / "elsewhere" / name)
    with pytest.raises(UserError, match="masks"):
        survey_images(str(tmp_path / "farm"), IngestOptions(follow_links=True))


def test_no_folder_is_proposed_where_none_was_given(tmp_path):
    for each in (write_folder(tmp_path / name, per_class=1) for name in ("one", "two")):
        (tmp_path / "t.txt").write_text(f"{each.name}/cat/000.png\n")
    table = str(tmp_path / "t.txt")
    survey = survey_images(table, IngestOptions(label_pattern="no/(?P<label>x)"))
    with pytest.raises(UserError, match=r"names a class by .*; correct the pattern") as caught:
        check_labels(survey)
    assert "is one of several classes" not in str(caught.value)
