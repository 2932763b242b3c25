"""`image-pipeline preview`, as a person meets it."""

import html
import json
import re
import subprocess

import numpy as np
import pytest
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2
from PIL import Image

from image_pipeline.components.transform.options import TransformOptions
from image_pipeline.components.transform.run import run_analysis
from image_pipeline.config import PipelineConfig
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.pipeline.test_cli import call as call_process
from tests.pipeline.test_commands import call
from tests.transform.analyze import make_pipeline

pytestmark = pytest.mark.beam

SMALL = ("--set", "view.height_px=8", "--set", "view.width_px=8")
STORED = PipelineConfig.model_validate(
    {
        "view": {"height_px": 8, "width_px": 8},
        "feeding": {"augment": [{"op": "rotate", "degrees": 30}]},
        "training": {"seed": 5, "learning_rate": 1e-5},
    }
)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """What a run leaves that a preview needs: a data set, its graph, and TFX's metadata."""
    folder = tmp_path_factory.mktemp("preview")
    images = write_folder(folder / "images")
    out = folder / "out"
    examples = out / "artifacts/ImageExampleGen/examples"
    ingest(write_folder(folder / "others"), examples / "9")
    (examples / "9" / "manifest.json").write_text('{"of": "a run that did not get far"}')
    ingest(images, examples / "1")
    graph_dir = out / "artifacts/ImageTransform/transform_graph/2"
    run_analysis(
        str(examples / "1"), str(graph_dir), STORED.view, TransformOptions(), make_pipeline
    )
    old = PipelineConfig.model_validate({"feeding": {"augment": ["grayscale"]}})
    write_metadata(out / "metadata.db", [old, STORED])
    return out


def write_metadata(path, configs):
    connection = metadata_store_pb2.ConnectionConfig()
    connection.sqlite.filename_uri = str(path)
    connection.sqlite.connection_mode = 3  # opened or created
    store = metadata_store.MetadataStore(connection)
    trainer = metadata_store_pb2.ExecutionType(name="tfx.components.trainer.component.Trainer")
    type_id = store.put_execution_type(trainer)
    for config in configs:
        execution = metadata_store_pb2.Execution(type_id=type_id)
        groups = config.model_dump(mode="json", include={"view", "feeding", "training"})
        execution.custom_properties["custom_config"].string_value = json.dumps(groups)
        store.put_executions([execution])


@pytest.fixture
def data_dir(run_dir):
    return run_dir / "artifacts/ImageExampleGen/examples/1"


def read_page(path):
    """The page's text, and the pictures of each record."""
    page = path.read_text()
    _, *rows = page.split('<div class="pictures views">')
    return page, [re.findall(r'src="data:image/png;base64,([^"]+)"', row) for row in rows]


def test_a_sheet_has_a_panel_for_every_view(data_dir, tmp_path):
    path = tmp_path / "sheet.png"
    result, output = call(
        "preview", data_dir, *SMALL, "--records", 3, "--epochs", 2, "--output", path
    )
    assert result.exit_code == 0
    steps = ["flip_horizontal probability 0.5"]  # that of `run`, for small images
    assert output.splitlines() == [*steps, str(path)]
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    # Views of 8 px are shown in boxes of 128 px, 8 px apart; 16 px is the margin.
    columns, rows = 2 + 2, 3
    assert pixels.shape[1] >= 16 + columns * 128 + (columns - 1) * 8 + 16
    colored = (pixels != 255).any(axis=2)
    right = colored[:, -16 - 128 : -16]
    assert np.count_nonzero(right.mean(axis=1) > 0.95) == pytest.approx(rows * 128, abs=rows * 16)
    assert not colored[:, -16:].any() and not colored[-16:].any()


def test_a_page_has_everything_in_it(data_dir, tmp_path):
    path = tmp_path / "made" / "sheet.html"
    call("preview", data_dir, *SMALL, "--records", 4, "--epochs", 3, "--output", path)
    page, rows = read_page(path)
    assert [len(row) for row in rows] == [2 + 3] * 4
    assert "color-scheme: light dark" in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "batch_size: 64" in page and "height_px: 8" in page
    assert re.findall(r"<h4>(\w+) <small>", page) == ["cat", "dog", "cat", "dog"]
    titles = re.findall(r'data-note="([^"]+)"', page)
    assert titles[:5] == ["stored, 10×8", "eval, 8×8", *(f"train, epoch {n}" for n in range(3))]
    assert all(
        re.fullmatch(r"(cat|dog)/\d+.png", each)
        for each in re.findall('data-path="&#34;([^"]+)&#34;"', page)
    )


def test_the_configuration_on_a_page_makes_the_page_again(data_dir, tmp_path):
    path, again = tmp_path / "sheet.html", tmp_path / "again.html"
    flags = ("--records", 2, "--epochs", 2, "--output")
    call("preview", data_dir, *SMALL, "--set", "feeding.augment=[cutout]", *flags, path)
    page, rows = read_page(path)
    (tmp_path / "c.yaml").write_text(html.unescape(re.search(r"<pre>(.*)</pre>", page, re.S)[1]))
    call("preview", data_dir, "--config", tmp_path / "c.yaml", *flags, again)
    assert read_page(again) == (page, rows)


def test_a_run_is_shown_by_its_own_options_with_the_models_input(run_dir, tmp_path):
    path = tmp_path / "sheet.html"
    _, output = call("preview", run_dir, "--records", 2, "--epochs", 2, "--output", path)
    assert output.splitlines()[0] == "rotate degrees 30, mode constant, fill 0"
    page, rows = read_page(path)
    assert [len(row) for row in rows] == [2 + 2 + 1] * 2
    assert f"What training sees of {run_dir}/artifacts/ImageExampleGen/examples/1" in page
    assert "Split train, seed 5." in page

    def draw(*options):
        target = tmp_path / "other.html"
        result, output = call(
            "preview", run_dir, "--records", 2, "--epochs", 2, "--output", target, *options
        )
        assert result.exit_code == 0
        return output.splitlines()[0], read_page(target)[1]

    assert draw() == (output.splitlines()[0], rows)
    assert draw("--set", "feeding.augment=[flip_vertical]")[0].startswith("flip_vertical")
    config = tmp_path / "config.yaml"
    config.write_text("{view: {height_px: 8, width_px: 8}, feeding: {augment: [cutout]}}")
    assert draw("--config", config)[0].startswith("cutout")
    for options in (("--seed", 6), ("--set", "training.seed=6")):
        (_, other) = draw(*options)
        assert other[0][:2] == rows[0][:2] and other[0][2:4] != rows[0][2:4]


def test_each_option_changes_the_sheet(data_dir, tmp_path):
    def draw(*options):
        path = tmp_path / "sheet.html"
        steps = "--set", "feeding.augment=[pad_and_crop]"
        call(
            "preview",
            data_dir,
            *SMALL,
            *steps,
            "--records",
            2,
            "--epochs",
            2,
            *options,
            "--output",
            path,
        )
        return read_page(path)[1]

    usual = draw()
    assert draw() == usual
    assert draw("--split", "eval")[0][0] != usual[0][0]
    assert draw("--records", 3)[:2] == usual
    assert [row[:4] for row in draw("--epochs", 3)] == usual
    assert draw("--seed", 1)[0][2:] != usual[0][2:]
    assert draw("--set", "feeding.augment=[]")[0][2:] == [usual[0][1]] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--split", "test"), "split must be one of those in"),
        (("--set", "feeding.augment=[rotte]"), "did you mean rotate?"),
        (("--set", "feeding.augment=[no.such.step]"), "the step no.such.step cannot be loaded"),
        (("--config", "missing.yaml"), "Cannot read the configuration"),
    ],
)
def test_what_is_wrong_is_said(data_dir, options, message):
    _, output = call("preview", data_dir, *SMALL, *options)
    assert message in output


def test_wrong_usage_is_told_from_wrong_input(data_dir, tmp_path):
    result, output = call("preview", data_dir, "--output", "sheet.gif")
    assert result.exit_code == 2 and "--output must end in .png or .html" in output
    for option in ("--records", "--epochs"):
        assert call("preview", data_dir, option, 0)[0].exit_code == 2
    done = call_process("preview", tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "holds neither a complete data set (manifest.json) nor a run" in done.stderr


def test_a_sheet_that_cannot_be_written_is_an_error(data_dir, tmp_path):
    (tmp_path / "sheet.png").mkdir()
    _, output = call("preview", data_dir, *SMALL, "--output", tmp_path / "sheet.png")
    assert f"Cannot write '{tmp_path}/sheet.png': Is a directory" in output


def test_a_view_that_the_graph_does_not_take_is_an_error(run_dir):
    _, output = call("preview", run_dir, "--set", "view.height_px=9")
    assert "view must be what the run's transform graph was made for" in output


def test_a_run_without_its_options_asks_for_them(run_dir, tmp_path):
    copy = tmp_path / "out"
    subprocess.run(["cp", "-r", run_dir, copy], check=True)
    (copy / "metadata.db").unlink()
    _, output = call("preview", copy)
    assert "give the options with --config" in output
    write_metadata(copy / "metadata.db", [])
    _, output = call("preview", copy)
    assert "has no Trainer, whose options" in output


def test_options_of_another_version_are_named(run_dir, tmp_path):
    copy = tmp_path / "out"
    subprocess.run(["cp", "-r", run_dir, copy], check=True)
    feeding = STORED.feeding.model_copy(update={"augment": ()})
    object.__setattr__(feeding, "batch_size", -1)
    write_metadata(copy / "metadata.db", [STORED.model_copy(update={"feeding": feeding})])
    _, output = call("preview", copy)
    assert "feeding.batch_size" in output and "give --config" in output
