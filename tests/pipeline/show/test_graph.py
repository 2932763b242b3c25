"""`image-pipeline inspect`, where `tests/golden` does not show what it says."""

import hashlib
import json
import shutil

import numpy as np
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import CHECKSUMS, read_graph
from image_pipeline.components.function_version import code_version
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import encode_png
from tests.pipeline.test_commands import call
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=10, crop_fraction=0.5)
GRAPHS = "artifacts/ImageTransform/transform_graph"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data set of 6 cats and 3 dogs, all analysed; blue is 7 everywhere. And its graph."""
    folder = tmp_path_factory.mktemp("inspect")
    for name, count in {"cat": 6, "dog": 3}.items():
        (folder / "images" / name).mkdir(parents=True)
        for number in range(count):
            pixels = np.full((8, 10, 3), (10 * number, len(name) + ord(name[0]), 7), np.uint8)
            (folder / "images" / name / f"{number}.png").write_bytes(encode_png(pixels))
    ingest = IngestOptions.model_validate({"prepare": {"encoding": "png"}, "splits": {"all": 1.0}})
    paths = (str(folder / name) for name in ("images", "data", "work"))
    run_ingest(*paths, ingest, make_pipeline)
    options = TransformOptions(analyze_splits=("all",))
    run_analysis(str(folder / "data"), str(folder / "graph"), VIEW, options, make_pipeline)
    return folder


def change_analysis(graph, **changes):
    analysis = json.loads((graph / "analysis.json").read_text()) | changes
    (graph / "analysis.json").write_text(json.dumps(analysis))
    (graph / CHECKSUMS).unlink(missing_ok=True)


def test_what_a_graph_is_of_is_said(folder):
    lines = [" ".join(line.split()) for line in call("inspect", folder / "graph")[1].splitlines()]
    digest = hashlib.sha256((folder / "data" / "manifest.json").read_bytes()).hexdigest()
    reds = np.array([*range(6), *range(3)]) * 10.0
    greens = np.array([102.0] * 6 + [103.0] * 3)
    for line in (
        "crop fraction 0.5",
        f"code version {code_version('feeding', 'order', 'transform')}",
        f"ingest manifest sha256 {digest}",
        f"mean {reds.mean():.4f}, {greens.mean():.4f}, 7.0000",
        f"std {reds.std():.4f}, {greens.std():.4f}, 1.0000",
        "constant channels 2: one value everywhere, so divided by 1 (std 1)",
    ):
        assert line in lines, line


@pytest.mark.parametrize(("enlarge", "but"), [(True, ""), (False, ", except smaller ones")])
def test_a_graph_says_that_images_are_distorted(folder, tmp_path, enlarge, but):
    shutil.copytree(folder / "graph", tmp_path / "graph")
    change_analysis(tmp_path / "graph", resize={"size_px": 64, "enlarge": enlarge}, files=None)
    lines = [" ".join(line.split()) for line in call("inspect", tmp_path / "graph")[1].splitlines()]
    assert f"distorted by ingest and serving to 64 × 64{but}" in lines


def test_of_a_run_the_latest_graph_is_shown(folder, tmp_path):
    for number in (9, 12):
        shutil.copytree(folder / "graph", tmp_path / "out" / GRAPHS / str(number))
    (tmp_path / "out" / GRAPHS / "13").mkdir()  # of an execution that failed
    result, output = call("inspect", tmp_path / "out")
    assert result.exit_code == 0
    path = tmp_path / "out" / GRAPHS / "12"
    assert output.splitlines()[0] == f"transform graph          {path} (the latest of 2)"


def test_a_function_with_its_own_vocabulary_has_no_counts(folder, tmp_path):
    graph = tmp_path / "graph"
    shutil.copytree(folder / "graph", graph)
    change_analysis(graph, classes=[], files=None)
    lines = [line.split() for line in call("inspect", graph)[1].splitlines()]
    assert ["0", "cat"] in lines and ["1", "dog"] in lines
    (graph / "transform_fn" / "assets" / "label").unlink()
    assert ["vocabulary", "none"] in [
        line.split() for line in call("inspect", graph)[1].splitlines()
    ]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("image/tags", ["vocabulary 2 tags", "tags 2,", "unknown tag fed as 0; 3 such tags in"]),
        ("image/value", ["vocabulary 2 class"]),
    ],
)
def test_tags_and_values_are_no_classes(folder, tmp_path, label, expected):
    graph = tmp_path / "graph"
    shutil.copytree(folder / "graph", graph)
    unknown = {"eval": {"emu": 2, "yak": 1}}
    change_analysis(graph, label=label, unknown_classes=unknown, files=None)
    lines = [" ".join(line.split()) for line in call("inspect", graph)[1].splitlines()]
    assert all(any(line.startswith(start) for line in lines) for start in expected)
    assert any("unknown" in line for line in lines) == (label == "image/tags")


def test_what_is_no_graph_is_explained(tmp_path):
    assert "holds no transform graph: there must be analysis.json" in call("inspect", tmp_path)[1]
    (tmp_path / "file").write_text("x")
    assert "holds no transform graph" in call("inspect", tmp_path / "file")[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "is damaged (Expecting value"),
        ("[]", "is damaged ("),
        ('{"view": {}}', "its channel_order: Field required"),
    ],
)
def test_a_damaged_or_older_analysis_is_explained(tmp_path, text, message):
    (tmp_path / "analysis.json").write_text(text)
    assert message in call("inspect", tmp_path)[1]


def test_a_folder_that_is_no_graph_is_explained(tmp_path):
    with pytest.raises(UserError, match="is not a transform graph's folder: it has no analysis"):
        read_graph(str(tmp_path))
