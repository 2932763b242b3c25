import pytest
from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2 as kubernetes

from image_pipeline.engine_options import KubeflowOptions, StepOptions
from image_pipeline.kubeflow.steps import make_pod, platform_spec
from tests.pipeline.kubeflow.test_steps import SPEC

pytestmark = pytest.mark.unit


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
