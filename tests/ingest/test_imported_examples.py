"""The examples of TFX's own ImportExampleGen: the way from what refuses them to right batches."""

import re
import shlex

import numpy as np
import pytest
from tfx import v1 as tfx

from image_pipeline import analyze, input_fn
from image_pipeline.cli import call
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError, find_user_error
from image_pipeline.components.ingest.component import ImageExampleGen
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.transform.component import ImageTransform
from image_pipeline.components.views.options import ViewOptions
from tests.data_set_files import write_tfrecord

pytestmark = [pytest.mark.e2e, pytest.mark.wide]

COUNT = 60
FLOATS = np.random.default_rng(0).uniform(-0.5, 0.5, (COUNT, 28, 28, 1)).astype(np.float32)
FLOATS[:, 0, 0, 0] = np.arange(COUNT)  # the class is known by it
SHAPE = "ingest.pixel_shape=[28, 28, 1]"
STORED = (
    "ingest.prepare.dtype=float32",
    "ingest.prepare.channels=1",
    "ingest.prepare.encoding=raw",
)
VIEW = {"height_px": 28, "width_px": 28, "channels": 1, "dtype": "float32"}


def _run(folder, *components):
    database = tfx.orchestration.metadata.sqlite_metadata_connection_config(f"{folder}/metadata.db")
    pipeline = tfx.dsl.Pipeline(
        pipeline_name="foreign",
        pipeline_root=str(folder / "root"),
        components=list(components),
        metadata_connection_config=database,
        beam_pipeline_args=list(LOCAL_BEAM_ARGS),
    )
    tfx.orchestration.LocalDagRunner().run(pipeline)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Records as TFX's example of MNIST has them, in a folder of each split."""
    folder = tmp_path_factory.mktemp("source")
    rows = [
        {"image_class": n % 3, "image_floats": f.ravel().tolist()} for n, f in enumerate(FLOATS)
    ]
    for split, own in (("train", rows[:40]), ("eval", rows[40:])):
        (folder / split).mkdir()
        write_tfrecord(folder / split / "mnist.tfrecord", own)
    return folder


@pytest.fixture(scope="module")
def imported(source, tmp_path_factory):
    splits = [
        tfx.proto.Input.Split(name=name, pattern=f"{name}/*.tfrecord") for name in ("train", "eval")
    ]
    config = tfx.proto.Input(splits=splits)
    examples = tfx.components.ImportExampleGen(str(source), input_config=config)
    folder = tmp_path_factory.mktemp("imported")
    _run(folder, examples)
    (found,) = (folder / "root" / "ImportExampleGen" / "examples").iterdir()
    return found


def _check(data_dir, graph_dir):
    """The splits are those of the records, and each image has its values and its class."""
    manifest = read_manifest(str(data_dir))
    splits = {"train": range(40), "eval": range(40, COUNT)}
    assert {name: split.records for name, split in manifest.splits.items()} == {
        name: len(numbers) for name, numbers in splits.items()
    }
    mean, deviation = FLOATS[:40].mean(dtype=np.float64), FLOATS[:40].std(dtype=np.float64)
    for split, numbers in splits.items():
        seen = []
        for images, labels in input_fn(str(data_dir), split, view=VIEW, augment=[]):
            for image, label in zip(images.numpy(), labels.numpy(), strict=True):
                seen.append(round(float(image[0, 0, 0])))
                np.testing.assert_array_equal(image, FLOATS[seen[-1]])
                assert label.decode() == str(seen[-1] % 3)
        assert sorted(seen) == list(numbers)
        for images, labels in input_fn(str(data_dir), split, str(graph_dir), augment=[]):
            for image, label in zip(images.numpy(), labels.numpy(), strict=True):
                number = round(float(image[0, 0, 0]) * deviation + mean)
                expected = (FLOATS[number] - mean) / deviation
                np.testing.assert_allclose(image, expected, atol=1e-5)
                assert manifest.class_names[label] == str(number % 3)


def test_what_refuses_them_names_the_command_that_ingests_them(imported, tmp_path, monkeypatch):
    with pytest.raises(UserError) as refused:
        analyze(str(imported), str(tmp_path / "graph"))
    command = re.search(r"image-pipeline (ingest .*? --output data);", str(refused.value))[1]
    with pytest.raises(UserError, match=re.escape(str(refused.value))):
        input_fn(str(imported), "train")
    monkeypatch.chdir(tmp_path)
    given = [word for option in (SHAPE, *STORED) for word in ("--set", option)]
    assert call([*shlex.split(command), *given]) == 0
    analyze("data", "graph", view=VIEW)
    _check(tmp_path / "data", tmp_path / "graph")


def test_the_component_takes_them_where_the_message_says(imported, tmp_path):
    importer = tfx.dsl.Importer(
        source_uri=str(imported),
        artifact_type=tfx.types.standard_artifacts.Examples,
        properties={"split_names": '["train", "eval"]'},
    ).with_id("imported")
    with pytest.raises(Exception, match="but TFRecords in Split-eval, Split-train") as refused:
        _run(tmp_path, importer, ImageTransform(importer.outputs["result"], ViewOptions(**VIEW)))
    said = str(find_user_error(refused.value) or refused.value)
    images = re.search(r'ImageExampleGen\("(.*?)"\)', said)[1]
    prepare = {"dtype": "float32", "channels": 1, "encoding": "raw"}
    options = IngestOptions(pixel_shape=(28, 28, 1), prepare=prepare)
    examples = ImageExampleGen(images, options)
    transform = ImageTransform(examples.outputs["examples"], ViewOptions(**VIEW))
    _run(tmp_path, examples, transform)
    (data_dir,) = (tmp_path / "root" / "ImageExampleGen" / "examples").glob("[0-9]*")
    assert read_manifest(str(data_dir)).books.written == COUNT
    assert list((tmp_path / "root" / "ImageTransform" / "transform_graph").iterdir())
