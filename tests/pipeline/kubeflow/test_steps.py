import copy

import pytest
from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2 as kubernetes
from kfp.pipeline_spec import pipeline_spec_pb2

from image_pipeline.components.errors import UserError
from image_pipeline.engine_options import DataflowOptions, KubeflowOptions, StepOptions
from image_pipeline.kubeflow.steps import (
    check_engine,
    check_remote_beam,
    make_pod,
    platform_spec,
    put_step_options,
)

pytestmark = pytest.mark.unit

BEAM_ARGS = ("--runner=FnApiRunner", "--direct_running_mode=in_memory", "--direct_num_workers=1")
SPEC = {
    "root": {
        "dag": {
            "tasks": {
                step: {"cachingOptions": {"enableCache": True}}
                for step in ("ImageTransform", "Trainer", "Some-resolver")
            }
        }
    },
    "deploymentSpec": {
        "executors": {
            "ImageTransform_executor": {"container": {"args": ["--own=1", *BEAM_ARGS]}},
            "Trainer_executor": {"container": {"args": ["--own=2", *BEAM_ARGS]}},
            "Some-resolver_executor": {"resolver": {}},
        }
    },
}


def put(defaults=None, **steps):
    """The spec with options; it is read as the engine's message, too."""
    spec = copy.deepcopy(SPEC)
    options = KubeflowOptions.model_validate({"defaults": defaults or {}, "steps": steps})
    put_step_options(spec, options, BEAM_ARGS)
    json_format.ParseDict(spec["root"], pipeline_spec_pb2.ComponentSpec())
    json_format.ParseDict(
        {key: value for key, value in spec["deploymentSpec"].items() if key != "executors"}
        | {
            "executors": {
                name: each
                for name, each in spec["deploymentSpec"]["executors"].items()
                if "container" in each
            }
        },
        pipeline_spec_pb2.PipelineDeploymentConfig(),
    )
    return spec


def container(spec, step):
    return spec["deploymentSpec"]["executors"][f"{step}_executor"]["container"]


def test_without_options_nothing_changes():
    assert put() == SPEC


def test_amounts_are_written_for_old_engines_and_new_ones():
    spec = put(Trainer={"cpu": "500m", "memory": "16Gi"})
    assert container(spec, "Trainer")["resources"] == {
        "cpuRequest": 0.5,
        "cpuLimit": 0.5,
        "resourceCpuRequest": "500m",
        "resourceCpuLimit": "500m",
        "memoryRequest": 17.179869184,
        "memoryLimit": 17.179869184,
        "resourceMemoryRequest": "16Gi",
        "resourceMemoryLimit": "16Gi",
    }
    assert "resources" not in container(spec, "ImageTransform")


def test_they_are_what_kfps_own_compiler_writes():
    from kfp import dsl

    @dsl.container_component
    def step():
        return dsl.ContainerSpec(image="i")

    @dsl.pipeline
    def pipeline():
        task = step()
        task.set_cpu_limit("500m").set_cpu_request("500m")
        task.set_memory_limit("16Gi").set_memory_request("16Gi")
        task.set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(2)
        task.set_retry(3, "60s", 2.0, "600s").set_env_variable("A", "b")

    spec = put(
        Trainer={
            "cpu": "500m",
            "memory": "16Gi",
            "accelerator": {"type": "nvidia.com/gpu", "count": 2},
            "retries": {"most": 3, "longest_wait_s": 600},
            "env": {"A": "b"},
        }
    )
    own = container(spec, "Trainer")
    theirs = json_format.MessageToDict(pipeline.pipeline_spec.deployment_spec)
    (theirs,) = [each["container"] for each in theirs["executors"].values()]
    assert own["resources"] == theirs["resources"]
    assert own["env"] == theirs["env"]
    (task,) = pipeline.pipeline_spec.root.dag.tasks.values()
    message = json_format.ParseDict(
        spec["root"]["dag"]["tasks"]["Trainer"], pipeline_spec_pb2.PipelineTaskSpec()
    )
    assert message.retry_policy == task.retry_policy


def test_caching_and_retries_are_the_tasks():
    spec = put(
        defaults={"retries": {"most": 2}}, ImageTransform={"caching": False, "retries": None}
    )
    tasks = spec["root"]["dag"]["tasks"]
    assert tasks["ImageTransform"] == {"cachingOptions": {"enableCache": False}}
    assert tasks["Trainer"]["retryPolicy"] == {
        "maxRetryCount": 2,
        "backoffDuration": "60s",
        "backoffFactor": 2.0,
        "backoffMaxDuration": "3600s",
    }
    assert tasks["Trainer"]["cachingOptions"] == {"enableCache": True}


def test_a_steps_beam_flags_replace_those_of_the_same_name():
    spec = put(ImageTransform={"beam_args": ["--direct_num_workers=4"]})
    assert container(spec, "ImageTransform")["args"] == [
        *("--own=1", "--runner=FnApiRunner", "--direct_running_mode=in_memory"),
        *("--direct_num_workers=4", "--sdk_container_image=none"),
    ]
    assert container(spec, "Trainer") == {"args": ["--own=2", *BEAM_ARGS]}


def test_a_runner_of_its_own_has_its_own_flags():
    flags = ["--runner=flink", "--flink_master=host:8081"]
    spec = put(ImageTransform={"beam_args": flags})
    assert container(spec, "ImageTransform")["args"] == [
        *("--own=1", "--runner=FlinkRunner", "--flink_master=host:8081")
    ]


def test_a_step_on_dataflow_has_the_configurations_options_and_they_are_checked():
    flags = ["--runner=dataflow", "--temp_location=gs://bucket/tmp", "--region=r"]
    given = {"ImageTransform": {"beam_args": [*flags, "--sdk_container_image=i"]}}
    spec = copy.deepcopy(SPEC)
    options = KubeflowOptions.model_validate({"steps": given})
    dataflow = DataflowOptions(project="our-own")
    put_step_options(spec, options, BEAM_ARGS, dataflow)
    args = container(spec, "ImageTransform")["args"]
    assert "--project=our-own" in args and "--machine_type=n2-standard-4" in args
    assert container(spec, "Trainer") == {"args": ["--own=2", *BEAM_ARGS]}
    with pytest.raises(UserError, match="Missing required option: project"):
        put(**given)


def test_flags_that_lose_records_are_refused_for_a_step_too():
    with pytest.raises(UserError, match="multi_threading is refused"):
        put(Trainer={"beam_args": ["--direct_running_mode=multi_threading"]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout_s", 60),
        ("node_selector", {"a": "b"}),
        ("tolerations", [{"key": "a"}]),
        ("secret_env", {"s": {"k": "V"}}),
        ("secret_files", {"s": "/s"}),
        ("volume_claims", {"c": "/c"}),
        ("disk", {"size": "1Gi", "mount_path": "/s3"}),
    ],
)
def test_what_vertex_has_nothing_like_is_an_error(name, value):
    options = KubeflowOptions.model_validate({"steps": {"Trainer": {name: value}}})
    with pytest.raises(UserError, match=f"kubeflow sets {name} for Trainer, for which Vertex AI"):
        check_engine(SPEC, options, is_vertex=True)
    check_engine(SPEC, options, is_vertex=False)


def test_each_engine_has_its_names_of_accelerators():
    kubernetes, vertex = (
        KubeflowOptions.model_validate({"steps": {"Trainer": {"accelerator": {"type": kind}}}})
        for kind in ("nvidia.com/gpu", "NVIDIA_TESLA_T4")
    )
    check_engine(SPEC, kubernetes, is_vertex=False)
    check_engine(SPEC, vertex, is_vertex=True)
    with pytest.raises(UserError, match=r"its name in Kubernetes, .*got 'NVIDIA_TESLA_T4'"):
        check_engine(SPEC, vertex, is_vertex=False)
    with pytest.raises(UserError, match=r"its name in Vertex AI, .*got 'nvidia\.com/gpu'"):
        check_engine(SPEC, kubernetes, is_vertex=True)


def pod_of(**options) -> kubernetes.KubernetesExecutorConfig:
    pod = make_pod(StepOptions.model_validate(options))
    return json_format.ParseDict(pod, kubernetes.KubernetesExecutorConfig())


def test_nothing_said_of_pods_is_no_platform():
    options = {"defaults": {"cpu": "4", "retries": {"most": 1}, "env": {"A": "b"}}}
    assert platform_spec(SPEC, KubeflowOptions.model_validate(options)) == {}


def test_each_executor_with_a_container_has_its_pod():
    options = {"defaults": {"timeout_s": 60}, "steps": {"Trainer": {"timeout_s": 3600}}}
    spec = platform_spec(SPEC, KubeflowOptions.model_validate(options))
    executors = spec["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert executors == {
        "ImageTransform_executor": {"activeDeadlineSeconds": "60"},
        "Trainer_executor": {"activeDeadlineSeconds": "3600"},
    }


def test_nodes_are_chosen_by_labels_and_taints():
    pod = pod_of(
        node_selector={"pool": "gpu", "zone": "a"},
        tolerations=[
            {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
            {"key": "team", "operator": "Equal", "value": "vision"},
        ],
    )
    assert dict(pod.node_selector.labels) == {"pool": "gpu", "zone": "a"}
    first, second = pod.tolerations
    assert (first.key, first.operator, first.effect) == ("nvidia.com/gpu", "Exists", "NoSchedule")
    assert (second.key, second.operator, second.value) == ("team", "Equal", "vision")


def test_secrets_are_variables_or_files():
    pod = pod_of(
        secret_env={"store": {"id": "AWS_ACCESS_KEY_ID", "key": "AWS_SECRET_ACCESS_KEY"}},
        secret_files={"account": "/secrets"},
    )
    (variables,), (files,) = pod.secret_as_env, pod.secret_as_volume
    assert variables.secret_name == "store"
    assert [(each.secret_key, each.env_var) for each in variables.key_to_env] == [
        ("id", "AWS_ACCESS_KEY_ID"),
        ("key", "AWS_SECRET_ACCESS_KEY"),
    ]
    assert (files.secret_name, files.mount_path) == ("account", "/secrets")


def test_volumes_are_claims_or_made_for_the_pod():
    pod = pod_of(
        volume_claims={"photos": "/data"},
        disk={"size": "100Gi", "mount_path": "/s3", "storage_class": "fast"},
    )
    (claim,), (disk,) = pod.pvc_mount, pod.generic_ephemeral_volume
    assert (claim.constant, claim.mount_path) == ("photos", "/data")
    assert (disk.size, disk.mount_path, disk.storage_class_name) == ("100Gi", "/s3", "fast")
    assert list(disk.access_modes) == ["ReadWriteOnce"] and not disk.default_storage_class
    (plain,) = pod_of(disk={"size": "1Gi", "mount_path": "/s3"}).generic_ephemeral_volume
    assert plain.default_storage_class


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
