import pytest

from image_pipeline.doctor.clock import Rate
from image_pipeline.doctor.verdict import Figures, Storage, estimate_step_ms, judge, own_costs

pytestmark = pytest.mark.unit


def make_stages(*walls_and_cpus):
    names = ("read", "decode", "views", "augment", "transform")
    return {
        name: Rate(images=1000, wall_s=wall_ms, cpu_s=cpu_ms)
        for name, (wall_ms, cpu_ms) in zip(names, walls_and_cpus, strict=False)
    }


# Of 10 ms an image: reading 1, decoding 5, views 2, random steps 1.5, transform 0.5.
STAGES = make_stages((1, 0.2), (6, 10), (8, 14), (9.5, 17), (10, 18))


def make_figures(stages=STAGES, step_ms=40.0, **values):
    defaults = {
        "cold": None,
        "every_image": stages,
        "held": {},
        "step": Rate(images=10, wall_s=step_ms / 1e3, cpu_s=0.0),
        "together_ms": 100.0,
        "wait_ms": 60.0,
        "batch_size": 10,
        "cores": 2,
        "storage": Storage("jpeg", 50_000.0, 150_000.0, 150_000.0),
        "could_hold": False,
        "others_share": 0.0,
    }
    return Figures(**(defaults | values))


def test_most_epochs_take_images_from_memory_where_they_are_held():
    held = make_stages((3, 5), (4, 6))
    figures = make_figures(held=held)
    assert (figures.usual, figures.input_ms) == (held, 40)
    assert (make_figures().usual, make_figures().input_ms) == (STAGES, 100)


def test_a_stages_own_cost_is_what_it_adds():
    assert own_costs(STAGES, 2) == {
        "read": 1,
        "decode": 5,
        "views": 2,
        "augment": 1.5,
        "transform": 0.5,
    }


def test_a_stage_that_works_while_another_is_waited_for_costs_its_processor_time():
    # The disk takes 10 ms an image; random steps of 24 ms on 2 cores add only 2 to that.
    stages = make_stages((10, 0.1), (10, 0.1), (10, 0.1), (12, 24.1))
    costs = own_costs(stages, 2)
    assert costs == {"read": 10, "decode": 0, "views": 0, "augment": 12}
    assert judge(make_figures(stages)).limit == "augment"


def test_what_is_slower_than_a_later_stage_was_disturbed():
    stages = make_stages((1, 1), (5, 4), (14, 9), (9, 8), (8, 7))
    costs = own_costs(stages, 2)
    assert costs == {"read": 1, "decode": 4, "views": 3, "augment": 0, "transform": 0}
    assert own_costs(make_stages((2, 1), (1.5, 0.5)), 1) == {"read": 1.5, "decode": 0}


@pytest.mark.parametrize(
    ("stages", "limit"),
    [
        (STAGES, "decode"),
        (make_stages((9, 0.2), (9.5, 1), (9.6, 1.2), (9.9, 1.8), (10, 2)), "read"),
        (make_stages((1, 0.2), (2, 2), (9, 14), (9.5, 17), (10, 18)), "views"),
        (make_stages((1, 0.2), (2, 2), (3, 4), (9.5, 17), (10, 18)), "augment"),
        (make_stages((1, 0.2), (2, 2), (3, 4), (4, 6), (10, 18)), "transform"),
    ],
)
def test_the_costliest_stage_limits_where_the_model_waits(stages, limit):
    verdict = judge(make_figures(stages))
    assert (verdict.limit, verdict.wait_share) == (limit, 0.6)


def test_the_step_limits_where_the_model_hardly_waits():
    verdict = judge(make_figures(step_ms=250.0, together_ms=250.0, wait_ms=24.0))
    assert verdict.limit == "step"
    assert verdict.wait_share == 0.096
    assert verdict.headroom == 2.5  # 250 ms a step, 100 ms a batch


def test_waiting_for_a_tenth_of_a_step_is_where_the_input_begins_to_limit():
    assert judge(make_figures(together_ms=100.0, wait_ms=10.0)).limit == "decode"
    assert judge(make_figures(together_ms=100.0, wait_ms=9.9)).limit == "step"


def test_sharing_the_processor_is_told_from_waiting():
    verdict = judge(make_figures(step_ms=100.0, together_ms=160.0, wait_ms=8.0))
    assert verdict.limit == "step"
    assert verdict.shared_share == pytest.approx(52 / 160)
    faster = judge(make_figures(step_ms=100.0, together_ms=90.0, wait_ms=1.0))
    assert faster.shared_share == 0


@pytest.mark.parametrize(
    ("factors", "step_ms"),
    [
        ({}, 100),
        ({"decode": 0}, 50),
        ({"decode": 0.5}, 75),
        ({"read": 0, "decode": 0}, 40),  # the model's own step is the floor
        ({"decode": 0, "read": 4}, 80),  # 5 ms less and 3 ms more an image
        ({"read": 3}, 120),
    ],
)
def test_what_a_step_will_take(factors, step_ms):
    assert estimate_step_ms(make_figures(), factors) == step_ms


def test_a_step_never_gets_faster_than_the_costliest_stage():
    stages = make_stages((10, 0.1), (10, 0.1), (10, 0.1), (12, 24.1))
    figures = make_figures(stages, step_ms=5.0, together_ms=120.0)
    assert estimate_step_ms(figures, {"augment": 0}) == 100


def test_a_dearer_stage_is_hidden_behind_a_slow_step():
    figures = make_figures(step_ms=300.0, together_ms=300.0, wait_ms=0.0)
    assert estimate_step_ms(figures, {"read": 10}) == 300
    assert estimate_step_ms(figures, {"read": 31}) == 400
