"""The TFJob that trains on several machines: what Kubeflow's Training Operator needs of it."""

import json
import pathlib

import pytest
import yaml

from image_pipeline.cli import cli
from image_pipeline.commands.train import train
from image_pipeline.components.training.cluster import read_cluster
from image_pipeline.config import load_config

pytestmark = pytest.mark.unit

TEMPLATE = pathlib.Path(__file__).parents[2] / "kubeflow" / "tfjob.yaml"


@pytest.fixture(scope="module")
def job():
    return yaml.safe_load(TEMPLATE.read_text())


def read_command(job):
    (container,) = job["spec"]["tfReplicaSpecs"]["Chief"]["template"]["spec"]["containers"]
    program, name, *arguments = container["command"]
    assert program == "image-pipeline" and cli.commands[name] is train
    return train.make_context(name, arguments).params


def test_it_is_a_job_of_one_chief_and_workers_that_are_started_again(job):
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "TFJob")
    replicas = job["spec"]["tfReplicaSpecs"]
    assert set(replicas) == {"Chief", "Worker"} and replicas["Chief"]["replicas"] == 1
    for each in replicas.values():
        # A lost machine's others end with code 1, which the policy ExitCode takes for final.
        assert each["restartPolicy"] == "OnFailure"
        (container,) = each["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"
        assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]
        (mount,) = container["volumeMounts"]
        (volume,) = each["template"]["spec"]["volumes"]
        assert mount["name"] == volume["name"] and "persistentVolumeClaim" in volume


def test_its_command_parses_and_its_batches_can_be_shared(job):
    params = read_command(job)
    config = load_config(params["config_path"], params["overrides"])
    assert config.training.strategy == "multi_worker"
    machines = sum(each["replicas"] for each in job["spec"]["tfReplicaSpecs"].values())
    assert config.feeding.batch_size % machines == 0
    (container,) = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    paths = (params["data_set"], params["graph_dir"], params["output_dir"])
    assert all(path.startswith(f"{mount['mountPath']}/") for path in paths)


def test_what_the_operator_tells_each_pod_is_understood(job, monkeypatch):
    name, found = job["metadata"]["name"], []
    cluster = {
        kind.lower(): [f"{name}-{kind.lower()}-{n}.ns.svc:2222" for n in range(each["replicas"])]
        for kind, each in job["spec"]["tfReplicaSpecs"].items()
    }
    for kind, addresses in cluster.items():
        for index in range(len(addresses)):
            task = {"type": kind, "index": index}
            told = {"cluster": cluster, "task": task, "environment": "cloud"}
            monkeypatch.setenv("TF_CONFIG", json.dumps(told))
            found.append(read_cluster())
    assert [each.number for each in found] == [0, 1, 2]
    assert found[0].addresses[0] == f"{name}-chief-0.ns.svc:2222"
