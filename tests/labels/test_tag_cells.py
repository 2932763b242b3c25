import pytest

from image_pipeline.components.meaning.column_values import find_separator

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (["a;b", "b;c", "a"], ";"),
        (["a, b", "b, c", "a, b, c", ""], ","),
        (["a|b", "b|a"], "|"),
        (["a,b;c", "c;a,b"], ";"),
        # Names of classes that have a comma, as ImageNet's.
        (["tench, Tinca tinca", "goldfish, Carassius auratus", "crane, bird", "crane"], None),
        (["cat", "dog"], None),
        (["a;b"], None),
        ([], None),
    ],
)
def test_what_stands_between_tags(cells, separator):
    assert find_separator(dict.fromkeys(cells, 3)) == separator


def test_blanks_are_between_tags_where_the_column_is_called_so():
    cells = {"haze primary": 2, "clear primary water": 3, "clear water": 1}
    assert find_separator(cells) is None
    assert find_separator(cells, "Tags") == " "
    assert find_separator({"a b;c": 1, "c;a b": 2}, "tags") == ";"
