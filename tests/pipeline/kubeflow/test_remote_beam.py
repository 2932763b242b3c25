import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.kubeflow.steps import check_remote_beam

pytestmark = pytest.mark.unit

STEPS = ("ImageExampleGen", "StatisticsGen", "ImageTransform", "Trainer", "Evaluator")


def _spec(**runners: str) -> dict:
    """Steps that run Beam in their pods, but for the given ones."""
    args = {step: [f"--runner={runners.get(step, 'FnApiRunner')}", "--more=1"] for step in STEPS}
    executors = {f"{step}_executor": {"container": {"args": args[step]}} for step in STEPS}
    return {"deploymentSpec": {"executors": executors}}


@pytest.mark.whole
@pytest.mark.parametrize("root", ["s3://b/root", "minio://b/root"])
@pytest.mark.parametrize("step", ["StatisticsGen", "ImageTransform", "Evaluator"])
def test_workers_elsewhere_cannot_write_into_a_pod(root, step):
    scheme = root.partition(":")[0]
    message = rf"{step} must run Beam in its own pod, got --runner=FlinkRunner: .* {scheme}:// are"
    with pytest.raises(UserError, match=message):
        check_remote_beam(_spec(**{step: "FlinkRunner"}), root)


@pytest.mark.parametrize("root", ["s3://b/root", "minio://b/root"])
def test_ingest_s_workers_may_be_anywhere(root):
    check_remote_beam(_spec(ImageExampleGen="FlinkRunner", Trainer="FlinkRunner"), root)


@pytest.mark.parametrize("root", ["gs://b/root", "/shared/root"])
def test_where_workers_see_the_root_all_steps_may(root):
    check_remote_beam(_spec(**dict.fromkeys(STEPS, "FlinkRunner")), root)
