"""Prints what the doctor found."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from image_pipeline.components.feeding.budget import Stage as MemoryStage
from image_pipeline.doctor.advice import Change
from image_pipeline.doctor.clock import Rate
from image_pipeline.doctor.subject import Subject
from image_pipeline.doctor.verdict import LEAST_WAIT, STEP, Figures, Verdict, own_costs
from image_pipeline.show.rows import print_rows
from image_pipeline.show.words import format_count

# From this share of the processor on, other programs are worth a warning.
_MUCH = 0.15
_LIMITS = {
    "read": "Reading from the disk limits",
    "decode": "Decoding limits",
    "views": "Cropping and resizing (views) limit",
    "augment": "The random steps (augment) limit",
    "transform": "The transform graph (transform) limits",
}


def print_subject(subject: Subject, console: Console) -> None:
    """Prints what is examined."""
    graph = subject.graph_dir or "none: its stage is not measured, and the model gets raw pixels"
    shards = f"the train split, shards: {len(subject.paths):,}"
    if not subject.stays:
        shards += "; memory cannot hold them, so the disk is read in every measurement"
    print_rows([("measured on", shards), ("transform graph", graph)], console)


def print_examination(
    figures: Figures, verdict: Verdict, changes: Sequence[Change], console: Console
) -> None:
    """Prints the measured stages, and then the verdict."""
    console.print(_stage_table(figures))
    _print_circumstances(figures, console)
    _print_steps(figures, console)
    line = word_verdict(figures, verdict, changes)
    console.print(f"\n[bold]{line}[/bold]", soft_wrap=True)
    for change in changes if verdict.limit == STEP else changes[1:]:
        gain = _word_gain(change.gain, change.is_measured)
        console.print(f"Or {change.text}: {gain}.", soft_wrap=True)


def _print_circumstances(figures: Figures, console: Console) -> None:
    """Prints when results would differ: with a cold disk, in later epochs, or undisturbed."""
    cold = figures.cold
    if cold is None:
        console.print("The operating system cannot drop these files from memory: no cold reading.")
    elif cold.ms_an_image > figures.whole.ms_an_image:
        rate = f"at most {cold.images_per_s:,.0f} images/s"
        console.print(f"The first epoch reads a cold disk: {rate}.")
    if figures.held:
        console.print("Later epochs take images decoded from memory: they neither read nor decode.")
    if figures.others_share >= _MUCH:
        console.print(
            f"Other programs used {figures.others_share:.0%} of the processor meanwhile: these "
            "figures are for what was left, and vary.",
            style="yellow",
            soft_wrap=True,
        )


def _print_steps(figures: Figures, console: Console) -> None:
    images = format_count(figures.batch_size, "image")
    together = f"{figures.together_ms:,.1f} ms a step, {figures.wait_ms:,.1f} of them waiting"
    rows = [
        ("model's step alone", f"{figures.step_ms:,.1f} ms for {images}"),
        ("input and step", f"{together} ({1e3 / figures.together_ms:,.2f} steps/s)"),
    ]
    if figures.calls:
        tried = ", ".join(f"{count}: {rate:,.0f}" for count, rate in figures.calls.items())
        rows.append(("steps in a call", f"images/s of the model alone by their number: {tried}"))
    print_rows(rows, console)


def word_verdict(figures: Figures, verdict: Verdict, changes: Sequence[Change]) -> str:
    """The verdict in one line: what limits, the share of waiting, what to change, the gain."""
    share = f"{verdict.wait_share:.0%} of each step"
    if verdict.limit == STEP:
        headroom = _word_headroom(figures, verdict)
        return f"The model's step limits: it waits {share} for input; {headroom}."
    waits = f"{figures.wait_ms:,.1f} of {figures.together_ms:,.1f} ms"
    limits = f"{_LIMITS[verdict.limit]}: the model waits {share} ({waits})"
    if not changes:
        return f"{limits}; no known change would gain 5 %."
    return f"{limits}; {changes[0].text}: {_word_gain(changes[0].gain)}."


def _word_headroom(figures: Figures, verdict: Verdict) -> str:
    if verdict.shared_share >= LEAST_WAIT:
        gain = _word_gain(figures.together_ms / figures.step_ms)
        return (
            f"sharing the processor with the input takes {verdict.shared_share:.0%} more, and "
            f"training on an accelerator, or a cheaper input, can save that: {gain} at most"
        )
    return (
        f"a faster model or accelerator would be fed up to {verdict.headroom:,.1f} times as many "
        "images/s (estimate)"
    )


def _word_gain(gain: float, is_measured: bool = False) -> str:
    return f"about {gain:.1f} times as many images/s ({'measured' if is_measured else 'estimate'})"


def print_memory(stages: Sequence[MemoryStage], console: Console) -> None:
    """Prints what each stage holds in memory at most."""
    console.print("\n[bold]held in memory[/bold], at most")
    table = _make_table(("MB", "made of"))
    table.columns[2].justify = "left"
    for stage in stages:
        table.add_row(stage.name, f"{stage.size_bytes / 1e6:,.1f}", stage.made_of)
    table.add_row("together", f"{sum(stage.size_bytes for stage in stages) / 1e6:,.1f}", "")
    console.print(table)


def _stage_table(figures: Figures) -> Table:
    table = _make_table(("images/s", "ms/image", "CPU s/image", "own ms"))
    if figures.cold is not None:
        table.add_row("read, cold disk", *_cells(figures.cold), "")
    for stages, where in ((figures.every_image, ""), (figures.held, ", in memory")):
        costs = own_costs(stages, figures.cores)
        for number, (name, rate) in enumerate(stages.items()):
            plus = "+ " if number else ""
            table.add_row(f"{plus}{name}{where}", *_cells(rate), f"{costs[name]:.3f}")
    table.add_row("model's step", *_cells(figures.step), "")
    return table


def _make_table(columns: Sequence[str]) -> Table:
    """A table without lines, whose first column has no title."""
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _cells(rate: Rate) -> tuple[str, str, str]:
    return (
        f"{rate.images_per_s:,.0f}",
        f"{rate.ms_an_image:.3f}",
        f"{rate.cpu_ms_an_image / 1e3:.6f}",
    )
