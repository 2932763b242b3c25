"""An evaluation that tests show."""

from image_pipeline.components.evaluation.facts import (
    Bound,
    ClassFacts,
    Constant,
    Evaluation,
    Mislabelled,
    Slice,
)
from image_pipeline.components.evaluation.metrics import Estimate

HALF = Estimate(0.5, 0.25, 0.75)
FOUND = Evaluation(
    **{"task": "classification", "measure": "accuracy", "records": 8, "blessed": True},
    metrics={"accuracy": Estimate(0.75, 0.41, 0.93), "loss": Estimate(1.5, 1.25, 2.0)},
    method="Wilson",
    bound=Bound(option="evaluation.min_accuracy", threshold=0.25),
    classes=[ClassFacts(name="cat", records=4, figure=HALF)],
    constant=Constant(answer="dog", value=0.5),
    slices={
        "camera": [
            Slice(value="x", records=3, figure=Estimate(1.0, 0.5, 1.0), constant=1.0),
            Slice(value="y", records=5, figure=HALF, constant=0.6),
            Slice(value="z", records=1, figure=Estimate(None)),
        ]
    },
    mislabelled=Mislabelled(judged=20, of=20, agreed=0.9, suspected=2),
)
