import ast
import io
import pathlib

import pytest
from rich.console import Console

from image_pipeline.show.rows import (
    format_classes,
    format_constant_channels,
    format_numbers,
    print_rows,
)

pytestmark = pytest.mark.unit


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
