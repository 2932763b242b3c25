"""What the doctor found, in words, and how it is printed."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from image_pipeline.doctor.figures import Figures, Rate, StageRate
from image_pipeline.doctor.verdict import LEAST_WAIT, STEP, Change, Examination, Verdict
from image_pipeline.show.terminal import Table, print_line, print_rows, print_table
from image_pipeline.show.words import format_bytes, format_count, format_fact

# From this share of the processor on, other programs are worth a warning.
_MUCH = 0.15
_LIMITS = {
    "read": "Reading from the disk limits",
    "decode": "Decoding limits",
    "views": "Cropping and resizing (views) limit",
    "augment": "The random steps (augment) limit",
    "transform": "The transform graph (transform) limits",
}


def list_stages(figures: Figures) -> Table:
    """What was timed, in its order, with its name: each stage together with all before it."""
    stages, cold = figures.stages, figures.stages.read_cold
    rates: list[tuple[str, Rate]] = [] if cold is None else [("read, cold disk", cold)]
    for named, where in ((stages.every_image, ""), (stages.held, ", in memory")):
        plus = (f"{'+ ' if number else ''}{name}{where}" for number, name in enumerate(named))
        rates += zip(plus, named.values(), strict=True)
    rows = [
        (
            name,
            f"{rate.images_per_s:,.0f}",
            f"{rate.cpu_s_an_image:.6f}",
            f"{rate.own_ms_an_image:.3f}" if isinstance(rate, StageRate) else "",
        )
        for name, rate in [*rates, ("model's step", stages.step)]
    ]
    return Table(("stage, with all before it", "images/s", "CPU s/image", "own ms/image"), rows)


def say_when(found: Examination, options: Mapping[str, Any] | None) -> str:
    """When this was measured, and with which options that a run has not, in a sentence.

    Args:
      found: the examination.
      options: the run's, as `dump_stored` has them; None if they are not known.
    """
    when = f"Measured {found.measured_at[:16].replace('T', ' ')} UTC, {found.seconds:g} s each"
    if found.given_step_ms is not None:
        when += f", with a step of {found.given_step_ms:g} ms that was given"
    if options is None:
        return f"{when}; whether the run has the same options is not known."
    differing = [
        f"{group}.{name} {format_fact(value)} (the run's: {format_fact(options[group][name])})"
        for group, own in found.options.items()
        for name, value in own.items()
        if name in options[group] and options[group][name] != value  # A later version has more.
    ]
    return f"{when}, with {'; '.join(differing) or 'the options of the run'}."


def list_memory(figures: Figures) -> Table:
    """What the input holds in memory at most, and all of it together."""
    rows = [(each.name, format_bytes(each.size_bytes), each.made_of) for each in figures.memory]
    total = format_bytes(sum(each.size_bytes for each in figures.memory))
    heads = ("held in memory", "at most", "made of")
    return Table(heads, [*rows, ("together", total, "")], texts=(2,))


def list_notes(figures: Figures) -> list[tuple[str, bool]]:
    """What is to be known of these figures: sentences, and whether each is a warning."""
    stages, cold = figures.stages, figures.stages.read_cold
    notes = []
    if cold is None:
        text = "The operating system cannot drop these files from memory: no cold reading."
        notes.append((text, False))
    elif cold.ms_an_image * figures.batch_size > figures.input_ms:
        text = f"The first epoch reads a cold disk: at most {cold.images_per_s:,.0f} images/s."
        notes.append((text, False))
    if stages.held:
        text = "Later epochs take images decoded from memory: they neither read nor decode."
        notes.append((text, False))
    if figures.others_share >= _MUCH:
        text = f"Other programs used {figures.others_share:.0%} of the processor meanwhile: these"
        notes.append((f"{text} figures are for what was left, and vary.", True))
    return notes


def list_times(figures: Figures) -> list[tuple[str, str]]:
    """The step alone, and both together, as a name and words each."""
    images = format_count(figures.batch_size, "image")
    together = f"{figures.together_ms:,.1f} ms a step, {figures.wait_ms:,.1f} of them waiting"
    lines = [
        ("model's step alone", f"{figures.step_ms:,.1f} ms for {images}"),
        ("input and step", f"{together} ({1e3 / figures.together_ms:,.2f} steps/s)"),
    ]
    if figures.calls:
        tried = ", ".join(f"{count}: {rate:,.0f}" for count, rate in figures.calls.items())
        lines.append(("steps in a call", f"images/s of the model alone by their number: {tried}"))
    return lines


def list_other_changes(found: Examination) -> list[str]:
    """What else would help than the verdict's line says, a sentence each."""
    changes = found.changes if found.verdict.limit == STEP else found.changes[1:]
    return [f"Or {each.text}: {_word_gain(each.gain, each.is_measured)}." for each in changes]


def print_examination(found: Examination, console: Console) -> None:
    """Prints the measured stages, when they would differ, the verdict, and what memory holds."""
    print_table(list_stages(found), console)
    for note, is_warning in list_notes(found):
        print_line(note, console, "yellow" if is_warning else "")
    print_rows(list_times(found), console)
    console.print()
    print_line(found.line, console, "bold")
    for change in list_other_changes(found):
        print_line(change, console)
    console.print()
    print_table(list_memory(found), console)


def word_verdict(figures: Figures, verdict: Verdict, changes: Sequence[Change]) -> str:
    """The verdict in one line: what limits, the share of waiting, what to change, the gain."""
    share = f"{verdict.wait_share:.0%} of each step"
    if verdict.limit != STEP:
        waits = f"{figures.wait_ms:,.1f} of {figures.together_ms:,.1f} ms"
        limits = f"{_LIMITS[verdict.limit]}: the model waits {share} ({waits})"
        if not changes:
            return f"{limits}; no known change would gain 5 %."
        return f"{limits}; {changes[0].text}: {_word_gain(changes[0].gain)}."
    if verdict.shared_share >= LEAST_WAIT:
        headroom = (
            f"sharing the processor with the input takes {verdict.shared_share:.0%} more, and "
            "training on an accelerator, or a cheaper input, can save that: "
            f"{_word_gain(figures.together_ms / figures.step_ms)} at most"
        )
    else:
        headroom = (
            f"a faster model or accelerator would be fed up to {verdict.headroom:,.1f} times as "
            "many images/s (estimate)"
        )
    return f"The model's step limits: it waits {share} for input; {headroom}."


def _word_gain(gain: float, is_measured: bool = False) -> str:
    return f"about {gain:.1f} times as many images/s ({'measured' if is_measured else 'estimate'})"
