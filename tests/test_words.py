"""One meaning a word: CONTRIBUTING.md's glossary, and phrases that no text of the package has."""

import pathlib
import re

import pytest

pytestmark = pytest.mark.unit

ROOT = pathlib.Path(__file__).parent.parent
TEXTS = [
    *(path for room in ("components", "pipeline") for path in (ROOT / room).rglob("*.py")),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
]
# Each phrase, and how a native engineer writes it.
BANNED = {
    r"\bsaid to be\b": "the annotations or the kind of labels",
    r"\bof which none\b": "none of which",
    r"\bof (its|their) \w+ a part\b": "incomplete",
    r"\b(goes|go|gone) on behind\b": "has grown, or resumes after",
    r"\bbehind (its|the) end\b": "after the end",
    r"\bcalled as (those|they|labels|masks|images|boxes|paths|classes|pixels)\b": "a usual name",
    r"\btrue labels?\b": "targets",
    r"\btold apart\b": "distinguished",
    r"\bput right\b": "correct",
    r"\bto all that is\b": "every record, class or file that is",
    r"\bfrom the dead\b": "late",
    r"\bthere cannot be\b": "larger, more or other than it can be",
    r"\bholds? (it|them)sel(f|ves)\b": "embedded",
    r"\banew\b": "again, or re-",
    r"(?<!here )(?<!not )\bis no ([A-Z]\w+|image|number|text|list|row|box|file)\b": "is not a",
    r"\bput that right\b": "fix that",
}
MOST_WORDS = 30


def _find_banned(text):
    text = " ".join(text.split())
    return [found[0] for phrase in BANNED for found in re.finditer(phrase, text)]


def _read_glossary():
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Words\n")[2]
    return re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", section.partition("\n## ")[0], re.M)


def test_no_text_has_a_phrase_that_is_banned():
    assert len(TEXTS) > 300
    found = {str(path.relative_to(ROOT)): _find_banned(path.read_text()) for path in TEXTS}
    assert {path: phrases for path, phrases in found.items() if phrases} == {}


@pytest.mark.parametrize(
    ("sentence", "phrases"),
    [
        ("what images are said\n    to be", ["said to be"]),
        ("of its credentials a part is missing", ["of its credentials a part"]),
        (
            "no column is called as labels are, and it goes on behind",
            ["goes on behind", "called as labels"],
        ),
        ("of three columns, of which none has numbers", ["of which none"]),
        ("said by a person, called as `make(shard)`, none of which is told", []),
    ],
)
def test_phrases_are_found_across_lines(sentence, phrases):
    assert _find_banned(sentence) == phrases


def test_the_glossary_is_short_and_in_order_and_names_no_word_twice():
    words = [word for word, _ in _read_glossary()]
    assert 20 <= len(words) <= MOST_WORDS
    assert words == sorted({*words})
