"""Which columns are the licence and the attribution of images."""

import pytest

from image_pipeline.components.dataset.licences import find_attribution, find_licence
from image_pipeline.components.dataset.lists import (
    Duplicate,
    LookAlikes,
    Quarantined,
    Skipped,
    kept_copies,
    read_list,
    write_list,
)
from image_pipeline.components.dataset.record import further_columns
from image_pipeline.components.errors import UserError

pytestmark = pytest.mark.unit

LINES = [
    (
        Quarantined("dog/\udcff.png", "empty", "no bytes", 0, None),
        b'{"path": "dog/\\udcff.png", "reason": "empty", "message": "no bytes", "bytes": 0, '
        b'"sha256": null}\n',
    ),
    (
        Duplicate("b", "a", "12", "dog", "cat", written=True),
        b'{"path": "b", "original": "a", "sha256": "12", "label": "dog", "original_label": "cat", '
        b'"written": true}\n',
    ),
    (
        LookAlikes(2, ["a", "b"], ["cat", "dog"], ["train", "train"]),
        b'{"size": 2, "paths": ["a", "b"], "labels": ["cat", "dog"], '
        b'"splits": ["train", "train"]}\n',
    ),
    (
        Skipped("notes.txt", "text", "a text", 6),
        b'{"path": "notes.txt", "kind": "text", "message": "a text", "bytes": 6}\n',
    ),
]


@pytest.mark.parametrize(("line", "content"), LINES, ids=lambda part: type(part).__name__)
def test_a_line_has_these_bytes_and_is_read_again(line, content, tmp_path):
    write_list(str(tmp_path), type(line), [line, line])
    assert (tmp_path / line.FILE).read_bytes() == 2 * content
    assert read_list(str(tmp_path), type(line)) == [line, line]


def test_an_empty_list_is_a_file(tmp_path):
    write_list(str(tmp_path), Duplicate, [])
    assert (tmp_path / "duplicates.jsonl").read_bytes() == b""
    assert read_list(str(tmp_path), Duplicate) == []


def test_the_first_data_sets_wrote_no_duplicate(tmp_path):
    (tmp_path / "duplicates.jsonl").write_text(
        '{"path": "b", "original": "a", "sha256": "12", "label": "dog", "original_label": "cat"}\n'
    )
    assert read_list(str(tmp_path), Duplicate) == [Duplicate("b", "a", "12", "dog", "cat")]


def test_a_key_of_a_later_version_is_passed_over(tmp_path):
    (tmp_path / "skipped.jsonl").write_text(
        '{"path": "a.txt", "kind": "text", "message": "a text", "bytes": 6, "mime": "text/plain"}\n'
    )
    assert read_list(str(tmp_path), Skipped) == [Skipped("a.txt", "text", "a text", 6)]


def test_copies_are_kept_of_what_has_bytes_and_is_nowhere_else():
    lines = [
        Quarantined("1", "truncated", "", 7, "bb"),
        Quarantined("2", "empty", "", 0, "cc"),
        Quarantined("3", "unreadable", "", 9, None),
        Quarantined("4", "conflicting_label", "", 5, "dd"),
        Quarantined("5", "not_an_image", "", 3, "aa"),
        Quarantined("6", "truncated", "", 7, "bb"),
    ]
    assert list(kept_copies(lines).items()) == [("aa", 3), ("bb", 7)]


def test_a_list_that_is_gone_is_told(tmp_path):
    with pytest.raises(UserError, match=r"must hold quarantine.jsonl, .*image-pipeline verify"):
        read_list(str(tmp_path), Quarantined)


@pytest.mark.parametrize(
    ("types", "licence", "attribution"),
    [
        ({}, None, []),
        ({"weight": "float", "note": "string"}, None, []),
        ({"Licence": "string", "rights": "string"}, "Licence", []),
        ({"rights": "string", "license": "string"}, "license", []),
        # A number is the id of what another table says, and a list says several things.
        ({"license": "int", "url": "strings", "copyright": "string"}, "copyright", []),
        (
            {"author": "string", "table_source": "string", "source_url": "string"},
            None,
            ["table_source", "source_url", "author"],
        ),
    ],
)
def test_columns_of_usual_names_are_found(types, licence, attribution):
    further = further_columns(types)
    assert find_licence(further) == licence
    assert find_attribution(further) == attribution
