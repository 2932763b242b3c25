"""The words for options, notes and reasons, and how results are printed."""

import ast
import io
import math
import pathlib
import re

import pytest
from rich.console import Console

from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.images.bad_image import REASONS as OF_IMAGES
from image_pipeline.show.terminal import Table, print_line, print_rows, print_table
from image_pipeline.show.words import (
    NOTES,
    REASONS,
    describe_steps,
    explain_key,
    explain_note,
    explain_reason,
    format_bytes,
    format_change,
    format_classes,
    format_constant_channels,
    format_count,
    format_fact,
    format_numbers,
    format_range,
    format_seconds,
    format_share,
    format_value,
    make_breakable,
)

pytestmark = pytest.mark.unit


def test_numbers_as_people_read_them():
    assert [format_value(value) for value in (0, 3.0, 0.12345, 12.345, 123456.7)] == [
        *("0", "3", "0.123", "12.3", "123,457")
    ]
    assert format_value(375, "px") == "375 px" and format_value(1500, "B") == "1.5 kB"
    assert [format_bytes(size) for size in (0, 999, 1500, 12e6, 3e9, 4e15)] == [
        *("0 B", "999 B", "1.5 kB", "12.0 MB", "3.0 GB", "4,000.0 TB")
    ]
    assert format_share(0.12345) == "12.3 %"
    assert [format_seconds(seconds) for seconds in (2.34, 125, 3725)] == [
        *("2.3 s", "2 min 5 s", "1 h 2 min")
    ]
    assert format_range("1", "1") == "1" and format_range("1", "2") == "1 to 2"
    assert [format_value(value) for value in (None, math.nan, -math.inf)] == ["—", "nan", "-inf"]
    facts = [format_fact(fact) for fact in (None, True, False, 1200, 0.123456, [1], "a")]
    assert facts == ["—", "yes", "no", "1,200", "0.12346", "[1]", "a"]
    assert (format_change(5), format_change(-0.25)) == ("+5", "-0.25")


def test_one_is_no_plural():
    assert [format_count(count, "epoch") for count in (0, 1, 1200)] == [
        *("0 epochs", "1 epoch", "1,200 epochs")
    ]
    assert format_count(1, "more class") == "1 more class"
    assert format_count(2, "more class") == "2 more classes"


def test_names_break_after_their_marks_and_are_escaped():
    assert make_breakable("a_b/<i>") == "a_<wbr>b/<wbr>&lt;i&gt;"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234, "1,234"),
        (0.12345, "0.1235"),
        ([1.5, 2], "1.5000, 2.0000"),
        (list(range(9)), "9 values"),
        ([[1.0], [2.0]], "2 values"),
    ],
)
def test_a_statistic_takes_a_few_words(value, text):
    assert format_numbers(value) == text


def test_classes_are_told_by_the_ends_of_their_list():
    classes = [{"name": f"c{n}", "records": 3000 - n} for n in range(1000)]
    assert format_classes(classes) == "1,000, most c0 (3,000), fewest c999 (2,001)"


def test_constant_channels_come_with_their_rule():
    text = "0, 2: one value everywhere, so divided by 1 (std 1)"
    assert format_constant_channels([0, 2]) == text


def test_steps_are_described_by_their_options():
    steps = ["flip_horizontal", {"op": "gaussian_blur", "probability": 1.0}]
    own = {"op": "mine.steps.fade", "arguments": {"by": 3}}
    feeding = FeedingOptions(augment=[*steps, own])
    assert describe_steps(feeding.augment) == [
        "flip_horizontal probability 0.5",
        "gaussian_blur sigma_px 0.1 to 2, probability 1",
        "mine.steps.fade by 3",
    ]
    assert describe_steps(()) == ["no random steps"]


# Which argument of these names the reason.
_GIVES = {"BadImage": 0, "_bad_row": 0, "SkippedFile": 0, "ImageRef": 3}
_COMPONENTS = [ast.parse(path.read_text()) for path in pathlib.Path("components").rglob("*.py")]


def _find_constants():
    """The texts that modules of `components/` give names to."""
    for tree in _COMPONENTS:
        for node in (each for each in tree.body if isinstance(each, ast.Assign)):
            several = isinstance(node.targets[0], ast.Tuple)
            names = node.targets[0].elts if several else node.targets
            values = getattr(node.value, "elts", []) if several else [node.value]
            for name, value in zip(names, values, strict=False):
                if isinstance(name, ast.Name) and isinstance(getattr(value, "value", None), str):
                    yield name.id, value.value


def _find_reasons():
    """The reasons that code gives by a literal or by a name."""
    constants = dict(_find_constants())
    calls = (node for tree in _COMPONENTS for node in ast.walk(tree) if isinstance(node, ast.Call))
    for call in calls:
        at = _GIVES.get(getattr(call.func, "attr", getattr(call.func, "id", None)))
        reason = call.args[at] if at is not None and len(call.args) > at else None
        if isinstance(reason, ast.Constant) and reason.value is not None:
            yield reason.value
        elif isinstance(reason, ast.Name) and reason.id in constants:
            yield constants[reason.id]


def test_every_note_of_an_image_has_words():
    source = pathlib.Path("components/images/prepare.py").read_text()
    told = source.partition("class PreparedImage")[2].partition("def prepare_image")[0]
    told = told.partition("notes: tuple")[2]
    noted = {name.partition(":")[0] for name in re.findall(r"`([a-z0-9_:<>]+)`", told)}
    assert len(noted) > 20 and noted - {"duration_s"} <= NOTES.keys()


def test_every_reason_that_code_gives_has_words():
    given = set(_find_reasons())
    assert {"no_label", "wrong_type", "vanished", "mask_size", "outside", "left_out"} <= given
    assert given | {*OF_IMAGES} <= REASONS.keys()


@pytest.mark.parametrize(("head", "words"), [("note", NOTES), ("reason", REASONS)])
def test_the_page_lists_all_with_their_words_and_what_to_do(head, words):
    page = pathlib.Path("docs/damage.md").read_text()
    table = page.partition(f"| {head} | what it says |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert {row[0].strip("`"): row[1] for row in rows} == words
    assert all(len(row) == 4 and all(row) for row in rows)


def test_keys_are_said_in_words_even_if_they_are_not_known():
    assert explain_note("icc") == "colour profile, converted to sRGB"
    assert explain_note("some_day") == "some day"
    assert explain_reason("truncated") == "Files that end too early"
    assert explain_reason("some_day") == "Some day"
    keys = ("icc", "truncated", "left_out")
    assert [explain_key(key) for key in keys] == [
        NOTES["icc"],
        REASONS["truncated"],
        "Left out by a list",
    ]


def test_names_in_rows_cannot_move_the_terminal():
    console = Console(file=io.StringIO())
    print_rows([("class \x1b[2J", "[red]\x1b]0;title\x07 \udcff")], console)
    name, text = console.file.getvalue().split(" [red]")
    assert name.rstrip() == r"class \x1b[2J"
    assert text == "\\x1b]0;title\\x07 \\xff\n"


def test_commands_print_for_people_in_one_way():
    """`say` escapes names; beside it only JSON is printed, which escapes them itself."""
    root = pathlib.Path(__file__).parents[3]
    sources = [*(root / "pipeline").rglob("*.py"), root / "kubeflow" / "compile.py"]
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node) if isinstance(node, ast.Call) else ""
            if called.startswith(("click.echo(", "click.secho(")) and path.name != "shared.py":
                assert called.startswith("click.echo(to_json("), f"{path}:{node.lineno}"


def test_columns_are_as_wide_as_their_cells_and_numbers_stand_to_the_right():
    console = Console(file=io.StringIO(), width=10)
    table = Table(("", "images", "what"), [("cat", "7", "a [b] and more"), ("\x1b", "1,200", "")])
    print_table(table._replace(texts=(2,)), console)
    print_table(Table((), [("a", "1")]), console)
    print_line("[bold]\x1b", console)
    assert console.file.getvalue().splitlines() == [
        "      images  what",
        "cat        7  a [b] and more",
        "\\x1b   1,200",
        "a  1",
        "[bold]\\x1b",
    ]
