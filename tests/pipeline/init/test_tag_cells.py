import pytest

from image_pipeline.init.tag_cells import find_separator

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
