import pytest

from tests.pipeline.browse.browsed import make_browsed


@pytest.fixture(scope="session")
def browsed(tmp_path_factory):
    return make_browsed(tmp_path_factory.mktemp("browsed"))
