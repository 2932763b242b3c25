"""The nodes that look up results of earlier runs: earlier spans, and the latest good model."""

from tfx.components import Trainer
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import (
    LatestBlessedModelStrategy,
)
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts
from tfx.types.channel import Channel

from image_pipeline.components.errors import UserError
from image_pipeline.components.ingest.component import ImageExampleGen, LatestSpans
from image_pipeline.components.meaning.options import SpanOptions
from image_pipeline.components.models.options import TrainingOptions
from image_pipeline.components.tasks.options import EvaluationOptions
from image_pipeline.components.transform.component import ImageTransform

SPAN_RESOLVER = "SpanResolver"
BASELINE_RESOLVER = "BaselineResolver"
START_RESOLVER = "StartResolver"


def join_spans(
    example_gen: ImageExampleGen,
    options: SpanOptions,
    span: int | RuntimeParameter | None,
) -> tuple[Channel, list[Resolver]]:
    """The examples to train on, and the node that finds earlier ones, if they are wanted.

    Raises:
      UserError: if they are wanted, and the span is not known before the run.
    """
    if options.window == 1:
        return example_gen.outputs["examples"], []
    if not isinstance(span, int):
        raise UserError(
            f"spans.window={options.window} needs TFX's metadata, in which this machine's runs "
            "find earlier spans, and spans to choose from: give --images a pattern such as "
            "day-{SPAN}, or leave spans.window at 1."
        )
    resolver = Resolver(
        strategy_class=LatestSpans,
        config={"newest": span, "count": 0 if options.window == "all" else options.window},
        # From all runs; `outputs` would be only this run's.
        examples=Channel(
            type=standard_artifacts.Examples,
            producer_component_id=example_gen.id,
            output_key="examples",
        ),
    ).with_id(SPAN_RESOLVER)
    resolver.add_upstream_node(example_gen)
    return resolver.outputs["examples"], [resolver]


def find_baseline(
    trainer: Trainer, options: EvaluationOptions
) -> tuple[Channel | None, list[Resolver]]:
    """The model to compare with, and the node that finds it, if one is wanted."""
    if options.min_improvement is None:
        return None, []
    resolver = _find_latest_blessed(BASELINE_RESOLVER)
    # So that a run from the Trainer on looks it up again, and one from the Evaluator on does not.
    resolver.add_upstream_node(trainer)
    return resolver.outputs["model"], [resolver]


def find_start(
    transform: ImageTransform, options: TrainingOptions
) -> tuple[Channel | None, list[Resolver]]:
    """The model to train on from, and the node that finds it, if one is wanted."""
    if options.warm_start == "none":
        return None, []
    resolver = _find_latest_blessed(START_RESOLVER)
    # After what takes long, so that it finds what other runs have finished by then.
    resolver.add_upstream_node(transform)
    return resolver.outputs["model"], [resolver]


def _find_latest_blessed(name: str) -> Resolver:
    kinds = standard_artifacts
    return Resolver(
        strategy_class=LatestBlessedModelStrategy,
        model=Channel(type=kinds.Model),
        model_blessing=Channel(type=kinds.ModelBlessing),
    ).with_id(name)
