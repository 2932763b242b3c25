"""Predictions for further images, by the function and by TFX's runner."""

import json
import pathlib

import pytest
from tfx import v1 as tfx

from image_pipeline.components.inference.component import ImagePredictor
from image_pipeline.components.inference.exported import ExportedModel
from image_pipeline.components.inference.options import InferenceOptions
from image_pipeline.components.inference.predict import predict, write_predictions
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.config import load_config
from image_pipeline.pipeline import create_pipeline
from tests.drawings import write_folder
from tests.inference.exported_models import export
from tests.inference.near import near

pytestmark = [pytest.mark.beam, pytest.mark.wide]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = write_folder(tmp_path_factory.mktemp("more") / "images", per_class=2)
    (folder / "cat" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "notes.md").write_text("# Notes\n")
    return str(folder)


def test_each_file_has_its_line_in_order(images, tmp_path):
    options = InferenceOptions(images=images, top=1, batch_size=2)
    model_dir = export("classification")
    counts = write_predictions(model_dir, str(tmp_path), options, IngestOptions())
    assert counts == {"answered": 4, "failed": 1, "skipped": 1}
    lines = (tmp_path / "predictions.jsonl").read_text().splitlines()
    asked = predict(ExportedModel(model_dir), [images], IngestOptions(), top=1)
    assert [json.loads(line) for line in lines] == near(list(asked))
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.jsonl"]


def test_masks_are_beside_the_lines(images, tmp_path):
    options = InferenceOptions(images=images)
    write_predictions(export("segmentation"), str(tmp_path), options, IngestOptions())
    lines = map(json.loads, (tmp_path / "predictions.jsonl").read_text().splitlines())
    masks = [line["mask"] for line in lines if "mask" in line]
    assert len(masks) == 4 and all(pathlib.Path(mask).is_file() for mask in masks)


def run_predictor(tmp_path, images, is_blessed=True):
    kinds = tfx.types.standard_artifacts
    (tmp_path / "model").mkdir(exist_ok=True)
    served = tmp_path / "model" / "Format-Serving"
    if not served.exists():
        served.symlink_to(export("classification"))
    blessing = {"blessed": int(is_blessed)}
    inputs = [
        tfx.dsl.Importer(str(tmp_path / "model"), kinds.Model).with_id("model"),
        tfx.dsl.Importer(
            str(tmp_path / "blessing"), kinds.ModelBlessing, custom_properties=blessing
        ).with_id("blessing"),
    ]
    predictor = ImagePredictor(
        *(each.outputs["result"] for each in inputs), InferenceOptions(images=images)
    )
    database = tfx.orchestration.metadata.sqlite_metadata_connection_config(f"{tmp_path}/m.db")
    tfx.orchestration.LocalDagRunner().run(
        tfx.dsl.Pipeline(
            "predict",
            str(tmp_path / "root"),
            components=[*inputs, predictor],
            enable_cache=True,
            metadata_connection_config=database,
        )
    )


@pytest.mark.parametrize("is_blessed", [True, False])
def test_tfx_runs_it_for_a_model_that_passed_only(images, tmp_path, is_blessed):
    run_predictor(tmp_path, images, is_blessed)
    found = list((tmp_path / "root").glob("ImagePredictor/predictions/*/predictions.jsonl"))
    assert len(found) == int(is_blessed)
    for path in found:
        assert len(path.read_text().splitlines()) == 6


def make_pipeline(*overrides):
    return create_pipeline(load_config(None, overrides), "images", "root", "push")


def test_the_pipeline_has_the_step_only_if_images_are_named(images):
    assert "ImagePredictor" not in {each.id for each in make_pipeline().components}
    (step,) = (
        each
        for each in make_pipeline(f"inference.images={images}", "inference.top=2").components
        if each.id == "ImagePredictor"
    )
    assert json.loads(step.exec_properties["options"])["top"] == 2


@pytest.mark.wide
@pytest.mark.parametrize("change", [None, "added"])
def test_tfx_asks_again_only_if_images_have_changed(tmp_path, change):
    """Through TFX's driver, which looks into its cache: so wherever the images are."""
    images = write_folder(tmp_path / "images", per_class=1)
    run_predictor(tmp_path, str(images))
    if change:
        (images / "cat" / "more.png").write_bytes((images / "cat" / "000.png").read_bytes())
    run_predictor(tmp_path, str(images))
    found = list((tmp_path / "root").glob("ImagePredictor/predictions/*/predictions.jsonl"))
    counts = sorted(len(path.read_text().splitlines()) for path in found)
    assert counts == ([2, 3] if change else [2])
