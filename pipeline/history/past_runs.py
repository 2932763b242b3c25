"""The runs of an output folder, as TFX's metadata has them. Only reads."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2

from image_pipeline.run_folder import OUTPUTS
from image_pipeline.tfx_metadata import read_metadata

State = Literal["made", "reused", "failed", "unfinished"]

_STATES: dict[int, State] = {
    metadata_store_pb2.Execution.COMPLETE: "made",
    metadata_store_pb2.Execution.CACHED: "reused",
    metadata_store_pb2.Execution.FAILED: "failed",
    metadata_store_pb2.Execution.CANCELED: "failed",
}
_PUSHED_TO = "pushed_destination"  # as the Pusher notes it
_INPUT = (metadata_store_pb2.Event.INPUT, metadata_store_pb2.Event.INTERNAL_INPUT)
_OUTPUT = (metadata_store_pb2.Event.OUTPUT, metadata_store_pb2.Event.INTERNAL_OUTPUT)


@dataclasses.dataclass(frozen=True)
class Artifact:
    """A component's output: its number, its folder, and what TFX notes of it."""

    id: int
    uri: str
    noted: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Step:
    """One component in one run.

    Attributes:
      state: "made" if it ran; "reused" if TFX took the outputs of an earlier run; "failed", or
        "unfinished" if it runs still, or its process was killed.
      started_ms: since 1970.
      ended_ms: since 1970; of the last change.
      parameters: what TFX passed to it, by name.
      inputs: the artifacts that it read, by the inputs' names.
      outputs: those that it gave.
      made_by: the number of the execution that made its outputs; its own unless it is reused.
    """

    id: int
    component: str
    state: State
    started_ms: int
    ended_ms: int
    parameters: Mapping[str, str | int | float]
    inputs: Mapping[str, tuple[Artifact, ...]]
    outputs: Mapping[str, tuple[Artifact, ...]]
    made_by: int

    @property
    def is_done(self) -> bool:
        """Whether it has outputs."""
        return self.state in ("made", "reused")

    @property
    def pushed_to(self) -> str | None:
        """Where it pushed a model to; None if it did not."""
        noted = (each.noted for own in self.outputs.values() for each in own)
        return next((each[_PUSHED_TO] for each in noted if _PUSHED_TO in each), None)


@dataclasses.dataclass(frozen=True)
class PastRun:
    """One run: its number from 1 on, the pipeline's name, and its steps in their order."""

    number: int
    pipeline: str
    steps: tuple[Step, ...]

    def list_paths(self) -> dict[str, str | None]:
        """The folders of what it gave, called as a run's summary calls them."""
        steps = {step.component: step for step in self.steps if step.is_done}
        found: dict[str, str | None] = {
            name: steps[component].outputs[output][0].uri
            for name, (component, output) in OUTPUTS.items()
            if component in steps and steps[component].outputs.get(output)
        }
        return found | {"pushed_model": steps["Pusher"].pushed_to if "Pusher" in steps else None}


def read_runs(metadata_path: str) -> list[PastRun]:
    """Reads all runs, the first one first; one that is not finished has its steps so far.

    Raises:
      UserError: if it is damaged.
    """
    return read_metadata(metadata_path, _read_runs)


def _read_runs(store: metadata_store.MetadataStore) -> list[PastRun]:
    executions = {each.id: each for each in store.get_executions()}
    # Each execution's component, after the pipeline's name and a dot.
    components = {
        execution.id: node.name
        for node in store.get_contexts_by_type("node")
        for execution in store.get_executions_by_context(node.id)
    }
    events = store.get_events_by_execution_ids(list(executions)) if executions else []
    artifacts = {
        each.id: Artifact(each.id, each.uri, _plain(each.custom_properties))
        for each in store.get_artifacts()
    }
    inputs, outputs = (_group(events, types, artifacts) for types in (_INPUT, _OUTPUT))
    made = {
        number: [artifact for own in named.values() for artifact in own]
        for number, named in outputs.items()
    }
    # Each artifact's maker: the first execution that ran and has it.
    makers: dict[int, int] = {}
    for number in sorted(made):
        if executions[number].last_known_state == metadata_store_pb2.Execution.COMPLETE:
            for artifact in made[number]:
                makers.setdefault(artifact.id, number)
    steps = {
        number: Step(
            id=number,
            component=components[number].rpartition(".")[2],
            state=_STATES.get(execution.last_known_state, "unfinished"),
            started_ms=execution.create_time_since_epoch,
            ended_ms=execution.last_update_time_since_epoch,
            parameters=_plain(execution.custom_properties),
            inputs=inputs.get(number, {}),
            outputs=outputs.get(number, {}),
            made_by=next((makers.get(each.id, number) for each in made.get(number, ())), number),
        )
        for number, execution in executions.items()
        if number in components
    }
    found: list[PastRun] = []
    for run in sorted(store.get_contexts_by_type("pipeline_run"), key=lambda run: run.id):
        own = [each.id for each in store.get_executions_by_context(run.id) if each.id in steps]
        if own:
            pipeline = components[own[0]].rpartition(".")[0]
            of_run = tuple(steps[each] for each in sorted(own))
            found.append(PastRun(len(found) + 1, pipeline, of_run))
    return found


def _group(
    events: Sequence[Any], types: Sequence[int], artifacts: Mapping[int, Artifact]
) -> dict[int, dict[str, tuple[Artifact, ...]]]:
    """The artifacts of events of these types, by execution and name."""
    found: dict[int, dict[str, list[Artifact]]] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for event in events:
        if event.type in types and event.artifact_id in artifacts:
            found[event.execution_id][event.path.steps[0].key].append(artifacts[event.artifact_id])
    return {
        number: {name: tuple(sorted(own, key=lambda a: a.id)) for name, own in named.items()}
        for number, named in found.items()
    }


def _plain(values: Mapping[str, metadata_store_pb2.Value]) -> dict[str, Any]:
    """Values as Python has them; TFX's own structures are left out."""
    kinds = {name: value.WhichOneof("value") for name, value in values.items()}
    plain = ("int_value", "double_value", "string_value")
    return {name: getattr(values[name], kind) for name, kind in kinds.items() if kind in plain}
