"""Sweeps, told to a person; and the examination, told to machines."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from image_pipeline.components.feeding.memory import Stage as MemoryStage
from image_pipeline.doctor.clock import Rate
from image_pipeline.doctor.examine import Examination
from image_pipeline.doctor.race import Sweep
from image_pipeline.doctor.show import make_table, word_verdict


def print_sweep(sweep: Sweep, console: Console) -> None:
    """Prints one setting's values."""
    console.print(f"\n[bold]{escape(sweep.name)}[/bold]: {sweep.of}", soft_wrap=True)
    table = make_table(("images/s", "ratio", "of rounds", ""))
    for trial in sweep.trials:
        present = " (present)" if trial.is_present else ""
        rounds = "" if trial.is_present else f"{trial.least:.2f} to {trial.most:.2f}"
        rate = f"{trial.images_per_s:,.0f}"
        table.add_row(f"{trial.setting}{present}", rate, f"{trial.ratio:.2f}", rounds, trial.note)
    console.print(table)


def summarize(found: Examination, memory: Sequence[MemoryStage]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "line": word_verdict(found),
        "verdict": dataclasses.asdict(found.verdict),
        "changes": [dataclasses.asdict(change) for change in found.changes],
        "stages": {
            "read_cold": None if found.input.cold is None else _figures(found.input.cold),
            "every_image": {each.name: _figures(each.rate) for each in found.input.every_image},
            "held": {each.name: _figures(each.rate) for each in found.input.held},
            "step": _figures(found.step),
        },
        "others_share": found.others_share,
        "batch_size": found.figures.batch_size,
        "cores": found.figures.cores,
        "step_ms": found.figures.step_ms,
        "together_ms": found.figures.together_ms,
        "wait_ms": found.figures.wait_ms,
        "storage": dataclasses.asdict(found.storage),
        "memory": [dataclasses.asdict(stage) for stage in memory],
    }


def _figures(rate: Rate) -> dict[str, float]:
    return {
        "images": rate.images,
        "images_per_s": rate.images_per_s,
        "ms_an_image": rate.ms_an_image,
        "cpu_s_an_image": rate.cpu_ms_an_image / 1e3,
    }
