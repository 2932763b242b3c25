import dataclasses
import json

import pytest

from image_pipeline.history.past_runs import Artifact, PastRun, Step
from image_pipeline.history.reasons import (
    FIRST,
    explain_step,
    format_time,
    join_reasons,
    list_changes,
)

pytestmark = pytest.mark.unit

OPTIONS = {"seed": 0, "prepare": {"size_px": 256, "color": "rgb"}, "masks": None}
INGEST = {
    "options": json.dumps(OPTIONS),
    "images_dir": "photos",
    "fingerprint": "a",
    "span": "latest",
    "code_version": "1",
}


def _step(number, component="ImageExampleGen", state="made", inputs=(), **parameters):
    base = INGEST if component == "ImageExampleGen" else {}
    artifacts = tuple(Artifact(each, f"/nowhere/{each}", {}) for each in inputs)
    return Step(
        number,
        component,
        state,
        *(0, 1000),
        base | parameters,
        {"examples": artifacts} if inputs else {},
        {},
        number,
    )


def _explain(*steps):
    """Why the last of these steps was made, each in a run of its own."""
    runs = [PastRun(number, "p", (step,)) for number, step in enumerate(steps, start=1)]
    return explain_step(runs, steps[-1])


def test_the_first_time_needs_no_other_reason():
    assert _explain(_step(1)) == [FIRST]
    assert _explain(_step(1, "Trainer"), _step(2)) == [FIRST]


def test_what_is_reused_was_not_made():
    assert _explain(_step(1), _step(2, state="reused")) == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"fingerprint": "b"}, "the images changed"),
        ({"images_dir": "others"}, "the images are others, not photos"),
        ({"span": "20260131"}, "span 20260131 is new"),
        ({"span": "soon"}, "span soon is new"),
        ({"code_version": "2"}, "the code changed"),
        ({"work_root": "there"}, "its work root changed"),
        ({"options": json.dumps(OPTIONS | {"seed": 3})}, "ingest.seed 0 → 3"),
        (
            {"options": json.dumps(OPTIONS | {"prepare": {"size_px": 64, "color": "rgb"}})},
            "ingest.prepare.size_px 256 → 64",
        ),
        ({"options": json.dumps(OPTIONS | {"classes": ["a" * 50]})}, "ingest.classes changed"),
    ],
)
def test_what_differs_is_the_reason(changed, reason):
    assert _explain(_step(1), _step(2, **changed)) == [reason]


def test_an_option_that_is_left_out_is_the_same_as_null():
    without = {key: value for key, value in OPTIONS.items() if key != "masks"}
    later = _step(3, options=json.dumps(without), fingerprint="b")
    assert _explain(_step(1), _step(2), later) == ["the images changed"]


def test_the_trainers_groups_and_code_are_told_apart():
    old = {"training": {"epochs": 5}, "feeding": {"layout": "NHWC"}, "code_version": "1"}
    new = {"training": {"epochs": 10}, "feeding": {"layout": "NHWC"}, "code_version": "2"}
    first, second = (
        _step(number, "Trainer", custom_config=json.dumps(each), inputs=inputs)
        for number, each, inputs in ((1, old, [7]), (2, new, [8]))
    )
    assert _explain(first, second) == [
        "training.epochs 5 → 10",
        "its examples changed",
        "the code changed",
    ]


def test_a_configuration_of_tfx_itself_may_be_null():
    first, second = (_step(each, "Pusher", custom_config="null", inputs=[each]) for each in (1, 2))
    assert _explain(first, second) == ["its examples changed"]


def test_what_failed_before_is_not_what_is_compared():
    failed = _step(2, state="failed", fingerprint="b")
    assert _explain(_step(1), failed, _step(3)) == ["it did not finish the last time"]
    assert _explain(_step(1), failed, _step(3, fingerprint="b")) == ["the images changed"]
    assert _explain(_step(1, state="failed"), _step(2)) == ["it has not finished before"]


def test_an_output_that_is_gone_is_made_again(tmp_path):
    def first(uri):
        outputs = {"examples": (Artifact(1, str(uri), {}),)}
        return dataclasses.replace(_step(1), outputs=outputs)

    assert _explain(first(tmp_path / "gone"), _step(2)) == ["its earlier output is gone"]
    assert _explain(first(tmp_path), _step(2)) == ["it was asked for"]
    always = dataclasses.replace(_step(2), component="SpanResolver")
    before = dataclasses.replace(first(tmp_path), component="SpanResolver")
    assert _explain(before, always) == ["each run looks for the latest spans"]


def test_a_span_is_compared_with_its_own_last_run():
    one, two = _step(1, span="1"), _step(2, span="2", fingerprint="b")
    again = _step(3, span="1", fingerprint="c")
    assert _explain(one, two) == ["span 2 is new"]
    assert _explain(one, two, again) == ["the images changed"]


def test_a_span_of_a_pattern_of_dates_is_its_date():
    one, two = (_step(n, images_dir="{YYYY}-{MM}-{DD}", span=f"2048{n}") for n in (3, 4))
    assert _explain(one, two) == ["span 2026-01-31 is new"]


def test_options_that_changed_are_listed_for_a_run():
    steps = [_step(1), _step(2, options=json.dumps(OPTIONS | {"seed": 3}), state="reused")]
    runs = [PastRun(step.id, "p", (step,)) for step in steps]
    assert list_changes(runs, runs[0]) == []
    assert list_changes(runs, runs[1]) == ["ingest.seed 0 → 3"]


def test_an_option_of_two_components_is_listed_once():
    runs = []
    for number, size in enumerate((224, 112)):
        view = {"height_px": size}
        transform = _step(2 * number, "ImageTransform", view=json.dumps(view))
        trainer = _step(2 * number + 1, "Trainer", custom_config=json.dumps({"view": view}))
        runs.append(PastRun(number + 1, "p", (transform, trainer)))
    assert list_changes(runs, runs[1]) == ["view.height_px 224 → 112"]


def test_many_reasons_are_cut():
    assert join_reasons(["a", "b", "c"]) == "a; b; c"
    assert join_reasons(["a", "b", "c", "d", "e"]) == "a; b; c; 2 more"


def test_times_are_local():
    assert len(format_time(1_795_536_916_818)) == len("2026-11-24 16:15")


def test_what_a_run_of_some_steps_took_over_changes_nothing():
    taken = dataclasses.replace(_step(2, state="reused"), parameters={})
    first, last = _step(1), _step(3, options=json.dumps(OPTIONS | {"seed": 3}))
    runs = [PastRun(number, "p", (each,)) for number, each in enumerate((first, taken, last), 1)]
    assert list_changes(runs, runs[1]) == []
    assert list_changes(runs, runs[2]) == explain_step(runs, last) == ["ingest.seed 0 → 3"]
