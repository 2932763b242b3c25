"""What users have of each kind of source and label is what it was.

If a change is meant: `python -m tests.golden.freeze`, and say why in the commit.
"""

import json

import pytest

from tests.golden.cases import CASES
from tests.golden.freeze import FOLDER, SAID, freeze, path_of
from tests.tiers import wide

pytestmark = pytest.mark.beam

NAMES = (*CASES, *SAID)


@pytest.mark.parametrize("name", [*NAMES[:-1], wide(NAMES[-1])])
def test_the_case_gives_what_it_gave(name, tmp_path):
    found = json.loads(json.dumps(freeze(name, tmp_path)))
    assert found == json.loads(path_of(name).read_text())


def test_each_golden_is_of_a_case():
    assert {path.name for path in FOLDER.iterdir()} == {path_of(name).name for name in NAMES}
