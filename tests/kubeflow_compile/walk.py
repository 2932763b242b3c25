"""Runs a compiled pipeline without a cluster: the engine's part, and each step's real command.

What is imitated is what the open-source engine's driver and launcher do (kubeflow/pipelines,
`backend/src/v2/driver` and `component/launcher_v2.go`): it fills in `ExecutorInput`, replaces
`{{$}}` with it, and merges what the step wrote about its artifacts. It knows nothing of TFX, and
so ignores the hooks (`lifecycle.preCacheCheck`) that only Vertex AI runs.
"""

import concurrent.futures
import graphlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests import warm
from tests.kubeflow_compile.launcher import SharedDisk

# Steps that wait for no other run side by side, as on a cluster.
STEPS_AT_ONCE = 2
STEP_TIMEOUT_S = 900

Artifacts = dict[str, dict[str, Any]]  # Output name → artifact, as in RuntimeArtifact.


def walk_pipeline(
    spec: Mapping[str, Any],
    parameters: Mapping[str, str],
    folder: pathlib.Path,
    launcher: SharedDisk | None = None,
) -> dict[str, Artifacts]:
    """Runs all steps, each as soon as those that it waits for have ended.

    Args:
      spec: the compiled pipeline.
      parameters: of the run, where it takes others than the pipeline's defaults.
      folder: where each step has an empty working directory, beside its output file.
      launcher: what is done around each step's command; None for nothing.

    Returns:
      Each step's artifacts by their names.

    Raises:
      ValueError: if a parameter of the run is missing.
      RuntimeError: if a step's command fails; with the end of what it said.
    """
    parameters = complete_parameters(spec, parameters)
    tasks = spec["root"]["dag"]["tasks"]
    order = graphlib.TopologicalSorter(
        {name: task.get("dependentTasks", []) for name, task in tasks.items()}
    )
    order.prepare()
    made: dict[str, Artifacts] = {}
    running: dict[concurrent.futures.Future[Artifacts], str] = {}
    with concurrent.futures.ThreadPoolExecutor(STEPS_AT_ONCE) as pool:
        while order.is_active():
            for step in order.get_ready():
                message = fill_in(spec, step, parameters, made, folder)
                running[pool.submit(run_step, spec, step, message, folder, (), launcher)] = step
            ended, _ = concurrent.futures.wait(running, return_when="FIRST_COMPLETED")
            for future in ended:
                step = running.pop(future)
                made[step] = future.result()
                order.done(step)
    return made


def complete_parameters(spec: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """A run's parameters with the pipeline's defaults.

    Raises:
      ValueError: if one without a default is missing, or there is none of a name.
    """
    known = spec["root"]["inputDefinitions"]["parameters"]
    if unknown := given.keys() - known:
        raise ValueError(f"the pipeline has no parameters {sorted(unknown)}")
    defaults = {n: each["defaultValue"] for n, each in known.items() if "defaultValue" in each}
    if missing := known.keys() - defaults - given.keys():
        raise ValueError(f"the run lacks the parameters {sorted(missing)}")
    return defaults | dict(given)


def fill_in(
    spec: Mapping[str, Any],
    step: str,
    parameters: Mapping[str, str],
    made: Mapping[str, Artifacts],
    folder: pathlib.Path,
) -> dict[str, Any]:
    """What the engine knows before a step runs: an `ExecutorInput`, JSON's way."""
    inputs = spec["root"]["dag"]["tasks"][step].get("inputs", {})
    outputs = spec["components"][step].get("outputDefinitions", {}).get("artifacts", {})
    taken = {name: each["taskOutputArtifact"] for name, each in inputs.get("artifacts", {}).items()}
    values = {
        name: each["runtimeValue"]["constant"]
        if "runtimeValue" in each
        else parameters[each["componentInputParameter"]]
        for name, each in inputs.get("parameters", {}).items()
    }
    return {
        "inputs": {
            "parameterValues": values,
            "artifacts": {
                name: {"artifacts": [made[each["producerTask"]][each["outputArtifactKey"]]]}
                for name, each in taken.items()
            },
        },
        "outputs": {
            "artifacts": {
                name: {"artifacts": [_place(spec, step, name, each["artifactType"])]}
                for name, each in outputs.items()
            },
            "outputFile": str(folder / step / "kfp_outputs" / "output_metadata.json"),
        },
    }


def _place(spec: Mapping[str, Any], step: str, name: str, kind: dict[str, str]) -> dict[str, Any]:
    """An artifact that is still to be made."""
    uri = "/".join([spec["defaultPipelineRoot"], spec["pipelineInfo"]["name"], step, name])
    return {"name": name, "type": kind, "uri": uri, "metadata": {}}


def run_step(
    spec: Mapping[str, Any],
    step: str,
    message: dict[str, Any],
    folder: pathlib.Path,
    python: Sequence[str] = (),
    launcher: SharedDisk | None = None,
) -> Artifacts:
    """Executes a step's container command in an empty directory.

    Args:
      spec: the compiled pipeline.
      step: its name.
      message: what `fill_in` returned.
      folder: where the step has its directory.
      python: what runs it; a process with TFX imported by default.
      launcher: see `walk_pipeline`.

    Returns:
      Its artifacts, as later steps see them: named by a number, with what it wrote about them.

    Raises:
      RuntimeError: if it fails.
    """
    working_dir = folder / step / "working_dir"
    working_dir.mkdir(parents=True)
    container = spec["deploymentSpec"]["executors"][f"{step}_executor"]["container"]
    launcher, pod = launcher or SharedDisk(), folder / step / "pod"
    launcher.begin(message, pod)
    filled = json.dumps(message)
    command = [part.replace("{{$}}", filled) for part in container["command"] + container["args"]]
    # The image's `python` is the one that runs this; nothing else of its environment is passed on.
    assert command[0] == "python"
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    done = subprocess.run(
        [*(python or warm.python()), *launcher.change(command[1:], pod)],
        cwd=working_dir,
        env={
            **{"PATH": path, "HOME": str(working_dir.parent), "TF_CPP_MIN_LOG_LEVEL": "1"},
            **launcher.environment,
        },
        capture_output=True,
        text=True,
        timeout=STEP_TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{step} failed:\n{done.stderr[-3000:]}")
    launcher.end(message, pod)
    return _merge(message["outputs"])


def _merge(outputs: Mapping[str, Any]) -> Artifacts:
    written = json.loads(pathlib.Path(outputs["outputFile"]).read_text()).get("artifacts", {})
    merged = {}
    for number, (name, placed) in enumerate(outputs["artifacts"].items(), start=1):
        (artifact,) = placed["artifacts"]
        (said,) = written.get(name, {}).get("artifacts", [{}])
        merged[name] = artifact | {
            # The metadata store numbers them.
            "name": str(number),
            "uri": said.get("uri") or artifact["uri"],
            "metadata": said.get("metadata", {}),
        }
    return merged
