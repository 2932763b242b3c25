"""Which spans' examples are used together: a strategy for TFX's Resolver."""

from collections.abc import Sequence

from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2
from tfx import types
from tfx.components.example_gen import utils
from tfx.dsl.components.common import resolver

from image_pipeline.components.ingest.component import SERIES_PROPERTY

Artifacts = dict[str, list[types.Artifact]]


class LatestSpans(resolver.ResolverStrategy):
    """The latest spans up to a given one, each with the data set that ingest made last.

    TFX's own `SpanRangeStrategy` would take every data set that a span ever had: after a change of
    options or images, its records would come twice. Data sets from runs with other options or
    another pattern are left out.
    """

    def __init__(self, newest: int, count: int):
        """Takes the number of the newest span, and the most spans to use; 0 for all."""
        self._newest = newest
        self._count = count

    def resolve_artifacts(
        self, store: metadata_store.MetadataStore, input_dict: Artifacts
    ) -> Artifacts | None:
        """Chooses from all data sets by span, the oldest first.

        Returns:
          As `input_dict`; None, as TFX wants it, if there is no data set.
        """
        chosen = {name: self._choose(store, given) for name, given in input_dict.items()}
        return chosen if all(chosen.values()) else None

    def _choose(
        self, store: metadata_store.MetadataStore, artifacts: Sequence[types.Artifact]
    ) -> list[types.Artifact]:
        last_given = _find_last_executions(store, artifacts)
        by_span: dict[int, types.Artifact] = {}
        for artifact in sorted(artifacts, key=lambda each: last_given[each.id]):
            if (span := _span_of(artifact)) <= self._newest:
                by_span[span] = artifact
        if not by_span:
            return []
        spans = sorted(by_span)
        series = _series_of(by_span[spans[-1]])
        alike = [by_span[span] for span in spans if _series_of(by_span[span]) == series]
        return alike[-self._count :]


def _find_last_executions(
    store: metadata_store.MetadataStore, artifacts: Sequence[types.Artifact]
) -> dict[int, int]:
    """Each artifact's last execution, by number: TFX's cache may return old artifacts."""
    last = {artifact.id: 0 for artifact in artifacts}
    for event in store.get_events_by_artifact_ids(list(last)):
        if event.type == metadata_store_pb2.Event.OUTPUT:
            last[event.artifact_id] = max(last[event.artifact_id], event.execution_id)
    return last


def _span_of(artifact: types.Artifact) -> int:
    return artifact.get_int_custom_property(utils.SPAN_PROPERTY_NAME)


def _series_of(artifact: types.Artifact) -> str:
    return artifact.get_string_custom_property(SERIES_PROPERTY)
