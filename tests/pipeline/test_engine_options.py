import pydantic
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.config import load_config
from image_pipeline.engine_options import KubeflowOptions, Toleration

pytestmark = pytest.mark.unit


def test_a_steps_own_keys_replace_the_defaults_one_by_one():
    options = KubeflowOptions.model_validate(
        {
            "defaults": {"cpu": "2", "memory": "8Gi", "caching": False},
            "steps": {"Trainer": {"memory": "64Gi", "caching": None}},
        }
    )
    trainer, pusher = options.of_step("Trainer"), options.of_step("Pusher")
    assert (trainer.cpu, trainer.memory, trainer.caching) == ("2", "64Gi", None)
    assert (pusher.cpu, pusher.memory, pusher.caching) == ("2", "8Gi", False)


def test_the_engines_own_steps_have_the_defaults():
    options = KubeflowOptions.model_validate({"defaults": {"caching": False}})
    assert options.of_step("BaselineResolver-model-resolver").caching is False


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "kubeflow.steps.Trainr={}",
            "got 'Trainr'; did you mean Trainer? known: ImageExampleGen, ",
        ),
        ("kubeflow.steps.Trainer.cpus=4", "did you mean cpu?"),
        (
            "kubeflow.steps.Trainer.tolerations=[{keys: a}]",
            "0.keys: unknown key; did you mean key?",
        ),
        (
            "dataflow.expected_images=9",
            "the same memory for any number of images now; leave it out",
        ),
        ("kubeflow.steps=4", "kubeflow.steps: Input should be a valid dictionary, got 4"),
        ("kubeflow.steps.Trainer.cpu=four", "kubeflow.steps.Trainer.cpu"),
        ("kubeflow.steps.Trainer.memory=16 GB", "kubeflow.steps.Trainer.memory"),
        ("kubeflow.defaults.timeout_s=0", "kubeflow.defaults.timeout_s"),
        ("kubeflow.steps.Trainer.retries={most: 0}", "kubeflow.steps.Trainer.retries.most"),
        ("kubeflow.steps.Trainer.retries={most: 1, longest_wait_s: 3601}", "longest_wait_s"),
        (
            "kubeflow.steps.Trainer.accelerator={type: nvidia.com/gpu, count: 0}",
            "accelerator.count",
        ),
        ("kubeflow.steps.Trainer.volume_claims={data: relative}", "volume_claims"),
    ],
)
def test_what_no_engine_takes_is_refused(override, message):
    with pytest.raises(UserError) as error:
        load_config(None, [override])
    assert message in str(error.value)


@pytest.mark.parametrize("cpu", ["4", "0.5", "500m"])
@pytest.mark.parametrize("memory", ["16Gi", "500M", "1000000000"])
def test_amounts_are_written_as_kubernetes_writes_them(cpu, memory):
    config = load_config(None, [f"kubeflow.steps.Trainer={{cpu: '{cpu}', memory: '{memory}'}}"])
    assert config.kubeflow.of_step("Trainer").cpu == cpu
    assert config.kubeflow.of_step("Trainer").memory == memory


def test_a_number_of_cores_may_be_a_number():
    for cpu in ("4", "0.5"):
        config = load_config(None, [f"kubeflow.steps.Trainer.cpu={cpu}"])
        assert config.kubeflow.of_step("Trainer").cpu == cpu


def test_a_configuration_of_before_is_refused_with_how_it_is_written_now():
    with pytest.raises(UserError) as error:
        load_config(None, ["kubeflow.Trainer.cpu=4"])
    assert str(error.value) == (
        "The configuration is not valid:\n"
        "  kubeflow: a step's options are under steps now, got Trainer; write {steps: {Trainer: "
        "{…}}}, or --set kubeflow.steps.Trainer.KEY=VALUE."
    )


@pytest.mark.parametrize(
    "given",
    [{"operator": "Equal"}, {"key": "a", "value": "b"}, {"operator": "Equal", "value": "b"}],
)
def test_a_toleration_that_kubernetes_refuses_is_refused(given):
    with pytest.raises(pydantic.ValidationError, match="toleration"):
        Toleration.model_validate(given)
