"""Which columns are the licence and the attribution of images."""

import pytest

from image_pipeline.components.dataset.licences import find_attribution, find_licence
from image_pipeline.components.dataset.record import further_columns

pytestmark = pytest.mark.unit


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
