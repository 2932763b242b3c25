"""ImageExampleGen's contract: which folder is ingested, and what its artifact says."""

import pathlib

import pytest
from tfx.types import standard_artifacts

from image_pipeline.components.dataset.pointer import follow_pointer
from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest import component
from image_pipeline.components.ingest.component import ImageExampleGen, ImageExampleGenExecutor
from image_pipeline.components.meaning.options import IngestOptions
from tests.dataset.listed import write_listed

pytestmark = pytest.mark.unit


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Runs `Do`, with the ingest itself left out: the folders given to it, and the artifact."""
    calls = []

    def run(images_dir, output_dir, work_dir, options, make_pipeline, listing, earlier):
        calls.append((images_dir, work_dir))
        return write_listed(output_dir, {"train": [b"abc"], "eval": [b"de"]})

    monkeypatch.setattr(component, "run_ingest", run)

    def do(images_dir, options=IngestOptions(), **arguments):  # noqa: B008  (frozen)
        examples = standard_artifacts.Examples()
        examples.uri = f"{tmp_path}/examples/1"
        gen = ImageExampleGen(str(images_dir), options, "f1", **arguments)
        ImageExampleGenExecutor().Do({}, {"examples": [examples]}, gen.exec_properties)
        return calls[-1], examples

    return do


def test_paths_and_mappings_are_taken_as_the_functions_take_them(tmp_path):
    gen = ImageExampleGen(
        tmp_path / "photos",
        {"stratify": True, "prepare": {"encoding": "png"}},
        work_root=tmp_path / "work",
        data_root=tmp_path / "data",
    )
    options = IngestOptions(stratify=True, prepare={"encoding": "png"})
    named = (str(tmp_path / name) for name in ("work", "data"))
    same = ImageExampleGen(str(tmp_path / "photos"), options, "", "latest", *named)
    assert gen.exec_properties == same.exec_properties


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stratfy": True}, r"ingest\.stratfy: unknown key; did you mean stratify\? known: "),
        ({"prepare": {"encode": "png"}}, r"ingest\.prepare\.encode: unknown key; did you mean enc"),
        ({"shards": -1}, r"ingest\.shards: .* greater than 0, got -1"),
        ("stratify", r"ingest: Input should be a valid dictionary .*, got 'stratify'"),
    ],
    ids=str,
)
def test_a_wrong_option_is_told_by_its_name(options, message):
    with pytest.raises(UserError, match=message):
        ImageExampleGen("photos", options)


@pytest.fixture
def photos(tmp_path):
    for name in ("7/v1", "7/v2", "8/v1"):
        (tmp_path / "photos" / name).mkdir(parents=True)
    return tmp_path / "photos"


def test_a_fingerprint_sees_behind_links_that_are_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "0.png").touch()
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "cat").symlink_to(tmp_path / "elsewhere")

    def identify(follow_links):
        options = IngestOptions(follow_links=follow_links)
        gen = ImageExampleGen(str(tmp_path / "images"), options)
        return component._identify_images(gen.exec_properties)["fingerprint"]

    before = identify(True), identify(False)
    (tmp_path / "elsewhere" / "1.png").touch()
    assert identify(True) != before[0] and identify(False) == before[1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty", "The images folder '{}' holds no files; give a folder that holds images."),
        ("none.csv", "None of 1 rows of '{}' can be used; none.csv:2: the column 'path' is empty"),
    ],
)
def test_nothing_to_ingest_is_told_before_beam_starts(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "none.csv").write_text("path,label\n,cat\n")
    gen = ImageExampleGen(tmp_path / name)
    with pytest.raises(UserError, match=message.format(tmp_path / name)):
        component.ImageExampleGenDriver(None).identify(gen.exec_properties)


def test_a_folder_is_ingested_as_span_0_as_tfx_has_it(execute, photos):
    (images_dir, _), examples = execute(photos / "7")
    assert images_dir == f"{photos}/7"
    assert examples.get_int_custom_property("span") == 0
    assert not examples.has_custom_property("version")
    assert examples.get_string_custom_property("input_fingerprint") == "f1"
    assert examples.split_names == '["train", "eval"]'


@pytest.mark.parametrize(
    ("arguments", "folder", "span", "version"),
    [
        ({}, "8/v1", 8, 1),
        ({"span": "latest"}, "8/v1", 8, 1),
        ({"span": "7"}, "7/v2", 7, 2),
        ({"span": 7}, "7/v2", 7, 2),
    ],
    ids=str,
)
def test_a_pattern_is_resolved_in_the_step(execute, photos, arguments, folder, span, version):
    (images_dir, _), examples = execute(photos / "{SPAN}" / "v{VERSION}", **arguments)
    assert images_dir == f"{photos}/{folder}"
    assert examples.get_int_custom_property("span") == span
    assert examples.get_int_custom_property("version") == version


def test_a_span_that_is_not_there_is_an_error(execute, photos):
    with pytest.raises(UserError, match="There is no span 9 of"):
        execute(photos / "{SPAN}" / "v{VERSION}", span="9")


def test_an_attempt_goes_on_only_from_one_of_the_same_span(execute, photos):
    (_, first), _ = execute(photos / "{SPAN}" / "v1")
    (photos / "9" / "v1").mkdir(parents=True)
    (_, second), _ = execute(photos / "{SPAN}" / "v1")
    assert first != second


def test_where_each_run_has_its_own_folders_an_attempt_still_goes_on(execute, photos, tmp_path):
    (_, beside), _ = execute(photos / "7")
    (_, named), _ = execute(photos / "7", work_root=f"{tmp_path}/working")
    assert beside.startswith(f"{tmp_path}/examples/.work-")
    assert named.startswith(f"{tmp_path}/working/") and "/" not in named.removeprefix(
        f"{tmp_path}/working/"
    )


def test_a_run_that_says_nothing_of_its_images_goes_on_from_one_of_the_same_images(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "1.png").touch()

    def find(images_dir, **parameters):
        gen = ImageExampleGen(str(images_dir), IngestOptions(**parameters), work_root="/working")
        return component.find_work_dir("/out", component._identify_images(gen.exec_properties))

    first = find(tmp_path / "images")
    assert first.startswith("/working/") and find(tmp_path / "images") == first
    assert find(tmp_path / "images", seed=1) != first
    (tmp_path / "images" / "cat" / "2.png").touch()
    assert find(tmp_path / "images") != first


def test_a_span_of_one_folder_is_an_error(execute, photos):
    with pytest.raises(
        UserError, match=r"The span '7' is chosen from a pattern such as day-{SPAN}"
    ):
        execute(photos / "7", span="7")


def test_with_a_folder_of_data_sets_the_artifact_is_a_pointer(execute, photos, tmp_path):
    places = {"work_root": f"{tmp_path}/working", "data_root": f"{tmp_path}/data"}
    (_, work_dir), examples = execute(photos / "{SPAN}" / "v{VERSION}", **places)
    pointer = follow_pointer(examples.uri)
    assert pointer.uri == f"{tmp_path}/data/{work_dir.removeprefix(f'{tmp_path}/working/')}"
    assert (pointer.records, pointer.bytes, pointer.span, pointer.version) == (5, 5, 8, 1)
    assert examples.get_string_custom_property("data_set_uri") == pointer.uri
    assert examples.get_string_custom_property("manifest_sha256") == pointer.manifest_sha256
    assert examples.get_int_custom_property("records") == 5
    assert [path.name for path in (tmp_path / "examples/1").iterdir()] == ["data_set.json"]
    written = pathlib.Path(pointer.uri, "manifest.json").stat().st_mtime_ns
    _, again = execute(photos / "{SPAN}" / "v{VERSION}", **places)
    assert follow_pointer(again.uri) == pointer
    assert pathlib.Path(pointer.uri, "manifest.json").stat().st_mtime_ns == written
    pathlib.Path(pointer.uri, "manifest.json").unlink()
    execute(photos / "{SPAN}" / "v{VERSION}", **places)
    assert pathlib.Path(pointer.uri, "manifest.json").stat().st_mtime_ns > written


def test_without_one_the_artifact_is_the_data_set(execute, photos, tmp_path):
    _, examples = execute(photos / "7")
    assert follow_pointer(examples.uri) is None and (tmp_path / "examples/1/manifest.json").exists()
    assert not examples.has_custom_property("data_set_uri")


def test_the_artifact_tells_patterns_and_options_apart(execute, photos):
    pattern = photos / "{SPAN}" / "v1"
    _, one = execute(pattern, span="7")
    _, same = execute(pattern, span="8")
    _, elsewhere = execute(photos / "{SPAN}" / "v{VERSION}", span="7")
    _, other = execute(pattern, IngestOptions(seed=1), span="7")
    kinds = (one, same, elsewhere, other)
    values = [each.get_string_custom_property("ingest_series") for each in kinds]
    assert values[0] == values[1] and len(set(values)) == 3
