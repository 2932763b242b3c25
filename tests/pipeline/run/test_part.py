"""Parts of the pipeline: what is refused, and how it is said."""

import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.run.part import Part, check_any_ran, check_part, explain_part

pytestmark = pytest.mark.unit

COMPONENTS = ("ImageExampleGen", "ImageTransform", "Trainer")


@pytest.mark.parametrize("part", [Part(), Part("Trainer"), Part(None, "Trainer")], ids=str)
def test_ends_that_exist_pass(part):
    check_part(part, COMPONENTS)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Part("trainer"), "--from names a component, got 'trainer'; did you mean Trainer"),
        (Part(None, "Transform"), "--to names a component, got 'Transform'; did you mean ImageTr"),
        (Part("xyz"), "got 'xyz'; known: ImageExampleGen, ImageTransform, Trainer"),
    ],
    ids=str,
)
def test_an_unknown_component_is_one_message_with_close_names(part, message):
    with pytest.raises(UserError, match=message):
        check_part(part, COMPONENTS)


def test_only_both_ends_missing_is_the_whole():
    assert Part().is_whole
    assert not Part("Trainer").is_whole and not Part(None, "Trainer").is_whole


def test_tfxs_lack_of_an_earlier_run_is_explained():
    explained = explain_part(LookupError("No previous run"), Part("Trainer"), started=False)
    assert "--from Trainer takes what comes before it from the latest run" in str(explained)
    assert explain_part(ValueError("other"), Part("Trainer"), started=False) is None
    assert explain_part(LookupError("other"), Part(None, "Trainer"), started=False) is None
    assert explain_part(KeyError("a user's"), Part("Trainer"), started=True) is None


def test_a_part_without_a_component_is_an_error():
    check_any_ran(Part("Trainer"), 1)
    with pytest.raises(
        UserError, match="between --from Trainer and --to ImageTransform: no data goes"
    ):
        check_any_ran(Part("Trainer", "ImageTransform"), 0)
