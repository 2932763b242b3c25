"""How results are printed: names, texts and tables, whatever is in them."""

import ast
import io
import pathlib

import pytest
from rich.console import Console

from image_pipeline.show.terminal import Table, print_line, print_rows, print_table

pytestmark = pytest.mark.unit


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
