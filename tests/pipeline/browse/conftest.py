import pytest


@pytest.fixture(scope="session")
def browsed(tmp_path_factory):
    from tests.pipeline.browse.browsed import make_browsed  # Here, since it imports Beam.

    return make_browsed(tmp_path_factory.mktemp("browsed"))


@pytest.fixture(scope="session")
def graph_dir(browsed, tmp_path_factory):
    from image_pipeline import analyze

    folder = str(tmp_path_factory.mktemp("graph") / "graph")
    analyze(str(browsed.data), folder, view={"height_px": 8, "width_px": 8})
    return folder
