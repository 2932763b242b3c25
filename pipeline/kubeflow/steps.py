"""Puts each step's options into a compiled pipeline's spec, JSON's way, or refuses them.

Fields are those of Kubeflow's `pipeline_spec.proto`, written as `kfp`'s own compiler writes them.
"""

import types
from collections.abc import Mapping, Sequence
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS, complete_beam_args
from image_pipeline.components.errors import UserError
from image_pipeline.engine_options import (
    Accelerator,
    DataflowOptions,
    KubeflowOptions,
    Retries,
    StepOptions,
)
from image_pipeline.kubeflow.step import COPIED
from image_pipeline.run.engine import DATAFLOW

_DISK = "image-pipeline-disk"
# Their workers write what Kubeflow's launcher uploads from the pod's disk.
_WRITING_HERE = ("StatisticsGen", "ImageTransform", "Evaluator")
KUBEFLOW_ONLY = (
    *("timeout_s", "node_selector", "tolerations", "secret_env", "secret_files"),
    *("volume_claims", "disk"),
)
"""Options that Vertex AI's machines, which are not pods of the user's, have nothing like."""


def put_step_options(
    spec: Mapping[str, Any],
    options: KubeflowOptions,
    beam_args: Sequence[str],
    dataflow: DataflowOptions = DataflowOptions(),  # noqa: B008  (frozen)
) -> None:
    """Changes a spec's containers and tasks as each step's options say.

    Args:
      spec: `pipelineSpec`, as TFX compiled it; it is changed.
      options: of all steps.
      beam_args: the flags that TFX wrote last into every container's arguments.
      dataflow: of a step whose own flags name Dataflow.

    Raises:
      UserError: if a step's Beam flags are none, or not fit for the runner.
    """
    for step, task in spec["root"]["dag"]["tasks"].items():
        given = options.of_step(step)
        executor = spec["deploymentSpec"]["executors"].get(f"{step}_executor", {})
        if "container" in executor:  # Resolvers have none: the engine itself runs them.
            _put_container(executor["container"], given, beam_args, dataflow)
        if given.retries is not None:
            task["retryPolicy"] = _retry_policy(given.retries)
        if given.caching is not None:
            task["cachingOptions"] = {"enableCache": given.caching}


def check_engine(spec: Mapping[str, Any], options: KubeflowOptions, *, is_vertex: bool) -> None:
    """Checks that the engine can express all options.

    Raises:
      UserError: naming the first option that it cannot, and its step.
    """
    for step in sorted(spec["root"]["dag"]["tasks"]):  # TFX gives them in any order.
        given = options.of_step(step)
        for name in KUBEFLOW_ONLY if is_vertex else ():
            if getattr(given, name):
                raise UserError(
                    f"kubeflow sets {name} for {step}, for which Vertex AI has no equivalent; "
                    "leave it out, or compile for Kubeflow (.yaml)."
                )
        _check_accelerator(step, given.accelerator, *(_VERTEX if is_vertex else _KUBERNETES))


# Whose names of accelerators, with an example: Kubernetes's resources begin with a domain.
_VERTEX, _KUBERNETES = ("Vertex AI", "NVIDIA_TESLA_T4"), ("Kubernetes", "nvidia.com/gpu")


def _check_accelerator(step: str, given: Accelerator | None, engine: str, example: str) -> None:
    if given is not None and ("/" in given.type) != ("/" in example):
        raise UserError(
            f"kubeflow's accelerator type of {step} must be its name in {engine}, for example "
            f"{example}, got {given.type!r}."
        )


def _put_container(
    container: dict[str, Any],
    given: StepOptions,
    beam_args: Sequence[str],
    dataflow: DataflowOptions,
) -> None:
    if resources := _resources(given):
        container["resources"] = resources
    if given.env:
        container["env"] = [{"name": name, "value": text} for name, text in given.env.items()]
    if given.beam_args:
        kept = container["args"][: len(container["args"]) - len(beam_args)]
        flags = _join_flags(beam_args, given.beam_args)
        container["args"] = kept + _complete_dataflow(flags, dataflow)


def _join_flags(general: Sequence[str], own: Sequence[str]) -> list[str]:
    """A step's flags in place of those that all steps have under the same names."""
    named = {flag.partition("=")[0] for flag in own}
    if "--runner" in named:  # The flags of another runner are none of this one's.
        return complete_beam_args(own)
    return complete_beam_args(
        [flag for flag in general if flag.partition("=")[0] not in named] + [*own]
    )


def _complete_dataflow(flags: list[str], options: DataflowOptions) -> list[str]:
    """The flags, and if they name Dataflow those of the configuration, checked."""
    if DATAFLOW not in flags:
        return flags
    from image_pipeline.run.dataflow import add_dataflow_options, check_dataflow_flags

    flags = add_dataflow_options(flags, options)
    check_dataflow_flags(flags)
    return flags


def _resources(given: StepOptions) -> dict[str, Any]:
    """`ResourceSpec`: numbers for older engines, and texts for newer ones, as `kfp` writes both."""
    resources: dict[str, Any] = {}
    for kind, text, unit in (("cpu", given.cpu, 1), ("memory", given.memory, 10**9)):
        if text is not None:
            number = float(parse_quantity(text)) / unit
            for bound in ("Request", "Limit"):
                resources[f"{kind}{bound}"] = number
                resources[f"resource{kind.title()}{bound}"] = text
    if given.accelerator is not None:
        resources["accelerator"] = _accelerator(given.accelerator)
    return resources


def _accelerator(given: Accelerator) -> dict[str, str]:
    """A count of 64 bits is a text in JSON."""
    count = str(given.count)
    both = {"type": given.type, "resourceType": given.type}
    return both | {"count": count, "resourceCount": count}


def _retry_policy(given: Retries) -> dict[str, Any]:
    return {
        "maxRetryCount": given.most,
        "backoffDuration": f"{given.wait_s}s",
        "backoffFactor": given.factor,
        "backoffMaxDuration": f"{given.longest_wait_s}s",
    }


def check_remote_beam(spec: Mapping[str, Any], pipeline_root: str) -> None:
    """Checks that workers elsewhere can write their step's outputs.

    Ingest's always can: it reads and writes the store itself. Other steps' outputs are a pod's
    folders, where the root is in a store that TensorFlow and Beam do not open.

    Raises:
      UserError: if a step's workers cannot.
    """
    scheme = pipeline_root.partition("://")[0]
    for step in _WRITING_HERE if scheme in COPIED else ():
        flags = spec["deploymentSpec"]["executors"][f"{step}_executor"]["container"]["args"]
        runners = [flag for flag in flags if flag.startswith("--runner=")]
        if any(runner != LOCAL_BEAM_ARGS[0] for runner in runners):
            raise UserError(
                f"{step} must run Beam in its own pod, got {runners[-1]}: workers elsewhere do not "
                f"see the pod's folders, which its outputs below {scheme}:// are uploaded from; "
                "give the runner to ingest alone (kubeflow.steps.ImageExampleGen.beam_args), or "
                "use a root at gs://."
            )


def platform_spec(spec: Mapping[str, Any], options: KubeflowOptions) -> dict[str, Any]:
    """`PlatformSpec`, JSON's way.

    Returns:
      By executor what its pod is like; empty if no option says anything of pods.
    """
    executors: dict[str, Any] = {}
    for step in spec["root"]["dag"]["tasks"]:
        executor = f"{step}_executor"
        if "container" in spec["deploymentSpec"]["executors"].get(executor, {}):
            pod = make_pod(options.of_step(step))
            executors |= {executor: pod} if pod else {}
    if not executors:
        return {}
    return {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}


def make_pod(given: StepOptions) -> dict[str, Any]:
    """A step's pod, `KubernetesExecutorConfig`, JSON's way; empty if nothing is said of it.

    It is written by the functions of `kfp-kubernetes`, which change a task's `platform_config`: of
    a task of TFX's there is nothing else that they need.
    """
    from kfp import kubernetes

    task: Any = types.SimpleNamespace(platform_config={})
    if given.timeout_s is not None:
        kubernetes.set_timeout(task, given.timeout_s)
    for label, value in given.node_selector.items():
        kubernetes.add_node_selector(task, label, value)
    for each in given.tolerations:
        kubernetes.add_toleration(task, each.key, each.operator, each.value, each.effect)
    for secret, variables in given.secret_env.items():
        kubernetes.use_secret_as_env(task, secret, variables)
    for secret, path in given.secret_files.items():
        kubernetes.use_secret_as_volume(task, secret, path)
    for claim, path in given.volume_claims.items():
        kubernetes.mount_pvc(task, claim, path)
    if (disk := given.disk) is not None:
        modes = ["ReadWriteOnce"]
        kubernetes.add_ephemeral_volume(
            task, _DISK, disk.mount_path, modes, disk.size, disk.storage_class
        )
    return task.platform_config.get("kubernetes", {})
