import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding import budget
from image_pipeline.components.feeding.budget import (
    Stage,
    check_budget,
    fits,
    plan_analysis,
    plan_indexed,
)
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions

pytestmark = pytest.mark.unit

VIEW = ViewOptions(height_px=10, width_px=20)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A machine of 3 cores and 16 GB of free memory."""
    monkeypatch.setattr(budget, "free_bytes", lambda: 16_000_000_000)
    monkeypatch.setattr(budget, "usable_cores", lambda: 3)


def sizes(stages):
    return {stage.name: stage.size_bytes for stage in stages}


def test_what_training_holds():
    feeding = FeedingOptions(batch_size=8, prefetch_batches=4)
    assert sizes(plan_indexed(feeding, VIEW, 1000, 5_000, "train")) == {
        "index": 5_000,
        "encoded batches": 3 * 8 * 1000,
        "views": (3 + 2) * 8 * 600,
        "steps in work": 0,
        "ready batches": 1.25 * (4 + 3 + 2) * 8 * 600 * 4,
    }


@pytest.mark.parametrize(
    ("dtype", "pixel_bytes"), [("float32", 4), ("float16", 2), ("bfloat16", 2), ("uint8", 1)]
)
def test_ready_batches_have_the_models_type(dtype, pixel_bytes):
    feeding = FeedingOptions(batch_size=8, dtype=dtype)
    found = sizes(plan_indexed(feeding, VIEW, 1000, 5_000, "train"))
    assert found["ready batches"] == 1.25 * (2 + 3 + 2) * 8 * 600 * pixel_bytes


@pytest.mark.parametrize(
    ("options", "step_bytes"),
    [
        ({}, 0),
        ({"compiled": False, "augment": ["flip_horizontal"]}, 3 * 16),
        ({"compiled": False}, 0),
        ({"dtype": "bfloat16"}, 4),
    ],
    ids=str,
)
def test_random_steps_hold_memory_unless_compiled(options, step_bytes):
    feeding = FeedingOptions(batch_size=8, **options)
    found = sizes(plan_indexed(feeding, VIEW, 1000, 5_000, "train"))
    assert found["steps in work"] == 8 * 600 * step_bytes


def test_many_cores_do_not_work_on_as_many_batches(monkeypatch):
    monkeypatch.setattr(budget, "usable_cores", lambda: 64)
    assert budget.batches_in_work() == 8


def test_a_plan_within_the_budget_is_told_by_stage():
    plan = check_budget(
        plan_indexed(FeedingOptions(), VIEW, 1000, 5_000_000, "train"), FeedingOptions()
    )
    assert plan.splitlines()[0] == "The input pipeline holds about 6.7 MB:"
    ready = "(2 prefetch_batches + 3 in work + 2 with the model) x 64 batch_size"
    assert "ready batches" in plan and ready in plan


@pytest.mark.parametrize(
    ("options", "index_bytes", "culprit"),
    [
        ({}, 9_000_000_000, "index"),
        # Batches of 20,000 behind a prefetch of 10.
        ({"batch_size": 20_000, "prefetch_batches": 10}, 0, "ready batches"),
    ],
    ids=["index", "prefetch"],
)
def test_a_plan_over_the_budget_is_refused_and_names_the_stage(options, index_bytes, culprit):
    feeding = FeedingOptions(**options)
    stages = plan_indexed(feeding, ViewOptions(), 20_000, index_bytes, "train")
    with pytest.raises(UserError, match=rf"8,000.0 MB; lower what makes the {culprit} large"):
        check_budget(stages, feeding)
    check_budget(stages[1:2], feeding)


def test_the_share_of_memory_is_an_option():
    stages = plan_indexed(FeedingOptions(), VIEW, 1000, 9_000_000_000, "train")
    check_budget(stages, FeedingOptions(memory_fraction=0.6))
    with pytest.raises(UserError, match=r"memory_fraction = 0.5 of the 16,000.0 MB available"):
        check_budget(stages, FeedingOptions(memory_fraction=0.5))


def test_evaluation_holds_no_random_steps():
    feeding = FeedingOptions(batch_size=8, compiled=False)
    found = sizes(plan_indexed(feeding, VIEW, 1000, 5_000, "eval"))
    assert found["steps in work"] == 0 and found["ready batches"] > 0


def test_an_analysis_holds_views_alone():
    feeding = FeedingOptions(batch_size=8, prefetch_batches=2)
    assert sizes(plan_analysis(feeding, VIEW)) == {"encoded batches": 0, "views": (2 + 2) * 8 * 600}


def test_an_analysis_is_advised_what_it_reads():
    feeding = FeedingOptions(batch_size=10**8)
    stages = plan_analysis(feeding, VIEW)
    with pytest.raises(UserError) as caught:
        check_budget(stages, feeding, "analysis")
    message = str(caught.value)
    assert message.endswith(
        "must stay within 0.5 of the 16,000.0 MB available, 8,000.0 MB; lower "
        "transform.batch_size, or the view's size."
    )
    assert "prefetch_batches" not in message and "feeding." not in message


def test_what_is_held_fits_if_two_of_it_do():
    assert fits([Stage("pixels", 4_000_000_000, "")], FeedingOptions())
    assert not fits([Stage("pixels", 4_000_000_001, "")], FeedingOptions())
