import dataclasses
import io
import json

import pytest
from rich.console import Console

from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.budget import Stage
from image_pipeline.components.json_text import to_json
from image_pipeline.doctor.figures import Rate
from image_pipeline.doctor.show import print_examination, say_when, word_verdict
from image_pipeline.doctor.verdict import (
    Change,
    Examination,
    judge,
    read_examination,
    write_examination,
)
from tests.pipeline.doctor.test_judged import make_figures, make_stages

pytestmark = pytest.mark.unit

OPTIONS = {"view": {"height_px": 8}, "feeding": {"batch_size": 4, "augment": []}}
CHANGES = [Change("do this", 2.0), Change("do that", 1.25)]


def examine(figures, changes=()):
    verdict = judge(figures)
    line = word_verdict(figures, verdict, changes)
    return Examination(
        **{"measured_at": "2026-11-28T17:05:00+00:00", "seconds": 3.0, "given_step_ms": None},
        **{"options": OPTIONS, "line": line, "verdict": verdict, "changes": changes},
        **vars(figures),
    )


def show(figures, changes=()):
    file = io.StringIO()
    print_examination(examine(figures, changes), Console(file=file, width=100))
    return [" ".join(line.split()) for line in file.getvalue().splitlines()]


def test_the_table_has_each_figure_once():
    cold = Rate(images=8, images_per_s=50.0, cpu_s_an_image=0.001)
    memory = [Stage("index", 54_000_000, "54 bytes a record"), Stage("views", 1_500_000, "a view")]
    figures = make_figures(cold=cold, memory=memory, others_share=0.3)
    assert show(figures, CHANGES) == [
        "stage, with all before it images/s CPU s/image own ms/image",
        "read, cold disk 50 0.001000",
        "read 1,000 0.000200 1.000",
        "+ decode 167 0.010000 5.000",
        "+ views 125 0.014000 2.000",
        "+ augment 105 0.017000 1.500",
        "+ transform 100 0.018000 0.500",
        "model's step 250 0.000000",
        "The first epoch reads a cold disk: at most 50 images/s.",
        "Other programs used 30% of the processor meanwhile: these figures are for what was left, "
        "and vary.",
        "model's step alone 40.0 ms for 10 images",
        "input and step 100.0 ms a step, 60.0 of them waiting (10.00 steps/s)",
        "",
        "Decoding limits: the model waits 60% of each step (60.0 of 100.0 ms); do this: about 2.0 "
        "times as many images/s (estimate).",
        "Or do that: about 1.2 times as many images/s (estimate).",
        "",
        "held in memory at most made of",
        "index 54.0 MB 54 bytes a record",
        "views 1.5 MB a view",
        "together 55.5 MB",
    ]


def test_a_warning_of_other_programs_is_yellow_and_no_other_note_is():
    file = io.StringIO()
    cold = Rate(images=8, images_per_s=50.0, cpu_s_an_image=0.001)
    console = Console(file=file, width=100, force_terminal=True, highlight=False)
    print_examination(examine(make_figures(cold=cold, others_share=0.3)), console)
    yellow = [line for line in file.getvalue().splitlines() if "\x1b[33m" in line]
    assert len(yellow) == 1 and "Other programs used 30% of the processor" in yellow[0]


def test_what_is_held_and_several_steps_in_a_call_have_lines_of_their_own():
    held = make_stages((0.5, 0.1), (1, 0.2))
    figures = make_figures(
        held=held, together_ms=45.0, wait_ms=0.0, calls={1: 200.0, 4: 300.0}, steps_a_call=1
    )
    shown = show(figures, [Change("make 4 steps", 1.5, is_measured=True)])
    assert "The operating system cannot drop these files from memory: no cold reading." in shown
    assert "Later epochs take images decoded from memory: they neither read nor decode." in shown
    assert "+ decode, in memory 1,000 0.000200 0.500" in shown
    assert "steps in a call images/s of the model alone by their number: 1: 200, 4: 300" in shown
    place = shown.index("") + 1
    assert shown[place : place + 2] == [
        "The model's step limits: it waits 0% of each step for input; sharing the processor with "
        "the input takes 11% more, and training on an accelerator, or a cheaper input, can save "
        "that: about 1.1 times as many images/s (estimate) at most.",
        "Or make 4 steps: about 1.5 times as many images/s (measured).",
    ]


def test_what_was_found_is_kept_whole(tmp_path):
    figures = make_figures(calls={1: 200.0, 4: 300.0}, memory=[Stage("index", 54, "bytes")])
    found = examine(figures, CHANGES)
    path = str(tmp_path / "doctor.json")
    assert read_examination(path) is None
    write_examination(path, found)
    assert read_examination(path) == found
    content = json.loads((tmp_path / "doctor.json").read_text())
    assert content["version"] == 1
    for changed, said in (
        ({"version": 2}, "must be of version 1, got 2"),
        ({"together_ms": 0.0}, r"its together_ms: Input should be greater than 0\); run"),
        ({"together_ms": float("nan")}, "its together_ms: Input should be a valid number"),
        ({"stages": content["stages"] | {"every_image": {}}}, "stages.every_image: .* at least 1"),
    ):
        (tmp_path / "doctor.json").write_text(to_json(content | changed))
        with pytest.raises(UserError, match=said):
            read_examination(path)
    content["stages"]["every_image"]["decode"]["images_per_s"] = 0.0
    (tmp_path / "doctor.json").write_text(to_json(content))
    with pytest.raises(
        UserError, match=r"decode.images_per_s: .*; run `image-pipeline doctor` aga"
    ):
        read_examination(path)


def test_it_says_when_and_with_which_options_it_was_measured():
    found = examine(make_figures())
    when = "Measured 2026-11-28 17:05 UTC, 3 s each"
    assert say_when(found, OPTIONS) == f"{when}, with the options of the run."
    own = {"view": {"height_px": 8}, "feeding": {"batch_size": 64, "augment": []}}
    assert say_when(found, own) == f"{when}, with feeding.batch_size 4 (the run's: 64)."
    later = {"view": {"height_px": 8, "own": 1}, "feeding": OPTIONS["feeding"]}
    assert say_when(found, later) == f"{when}, with the options of the run."
    assert say_when(found, None).startswith(f"{when}; whether the run has the same options")
    given = dataclasses.replace(found, given_step_ms=5.0)
    assert say_when(given, OPTIONS).startswith(f"{when}, with a step of 5 ms that was given, ")
