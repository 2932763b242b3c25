"""Which data sets the Resolver of spans chooses, over a metadata store in memory."""

import pytest
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2
from tfx.types import standard_artifacts

from image_pipeline.components.ingest.component import LatestSpans

pytestmark = pytest.mark.unit


class _Store:
    """Executions that give data sets, as TFX writes them down."""

    def __init__(self):
        config = metadata_store_pb2.ConnectionConfig()
        config.fake_database.SetInParent()
        self.store = metadata_store.MetadataStore(config)
        execution, kind = metadata_store_pb2.ExecutionType, metadata_store_pb2.ArtifactType
        self._execution_type = self.store.put_execution_type(execution(name="ingest"))
        self._artifact_type = self.store.put_artifact_type(kind(name="Examples"))
        self.artifacts = []

    def ingest(self, span, series="a"):
        """A new data set; returns it."""
        stored = metadata_store_pb2.Artifact(type_id=self._artifact_type)
        (number,) = self.store.put_artifacts([stored])
        examples = standard_artifacts.Examples()
        examples.id = number
        examples.set_int_custom_property("span", span)
        examples.set_string_custom_property("ingest_series", series)
        self.artifacts.append(examples)
        self.give(examples)
        return examples

    def give(self, examples, kind=metadata_store_pb2.Event.OUTPUT):
        """A further execution gives a data set, as the cache does."""
        execution = metadata_store_pb2.Execution(type_id=self._execution_type)
        (number,) = self.store.put_executions([execution])
        event = metadata_store_pb2.Event(artifact_id=examples.id, execution_id=number, type=kind)
        self.store.put_events([event])

    def resolve(self, newest, count):
        chosen = LatestSpans(newest, count).resolve_artifacts(
            self.store, {"examples": list(reversed(self.artifacts))}
        )
        return chosen and chosen["examples"]


@pytest.fixture
def store():
    return _Store()


def test_the_latest_spans_up_to_one_are_given_the_oldest_first(store):
    sets = {span: store.ingest(span) for span in (3, 1, 9, 5)}  # Not in the order of spans.
    assert store.resolve(newest=9, count=2) == [sets[5], sets[9]]
    assert store.resolve(newest=5, count=2) == [sets[3], sets[5]]
    assert store.resolve(newest=9, count=10) == [sets[span] for span in (1, 3, 5, 9)]
    assert store.resolve(newest=8, count=0) == [sets[span] for span in (1, 3, 5)]


def test_a_span_comes_once_as_ingest_gave_it_last(store):
    first, other = store.ingest(1), store.ingest(2)
    changed = store.ingest(1)
    assert store.resolve(newest=2, count=0) == [changed, other]
    store.give(first)  # The images are again what they were, and the cache knows them.
    assert store.resolve(newest=2, count=0) == [first, other]


def test_what_a_resolver_gave_does_not_count_as_ingested(store):
    first, changed = store.ingest(1), store.ingest(1)
    store.give(first, metadata_store_pb2.Event.INTERNAL_OUTPUT)
    assert store.resolve(newest=1, count=0) == [changed]


def test_data_sets_of_other_options_or_patterns_are_not_mixed_in(store):
    other = [store.ingest(span, series="small") for span in (0, 1, 3)]
    sets = [store.ingest(2, series="large"), store.ingest(3, series="large")]
    assert store.resolve(newest=3, count=3) == sets
    store.give(other[2])
    assert store.resolve(newest=3, count=3) == other


def test_no_data_set_is_no_answer(store):
    assert store.resolve(newest=3, count=1) is None
    store.ingest(4)
    assert store.resolve(newest=3, count=1) is None
