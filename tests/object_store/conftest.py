import pytest

from image_pipeline.components import files
from tests.drawings import write_folder
from tests.object_store.runs import analyze, ingest, train
from tests.object_store.store import run_store, use_store


@pytest.fixture(scope="package")
def store(tmp_path_factory):
    """A running store, which this package's tests share."""
    with run_store(tmp_path_factory.mktemp("store")) as store, use_store(store):
        yield store


@pytest.fixture(scope="package")
def places(store, tmp_path_factory):
    """The same images of 2 classes in a local folder and in the store, each ingested there."""
    local = tmp_path_factory.mktemp("local")
    images = write_folder(local / "images", per_class=15)
    (images / "cat" / "bad.png").write_bytes(b"not an image")
    (images / "dog" / "copy.png").write_bytes((images / "cat" / "000.png").read_bytes())
    for path in sorted(images.rglob("*.png")):
        with files.write_atomically(f"{store.uri}/images/{path.relative_to(images)}") as file:
            file.write(path.read_bytes())
    for root in (str(local), store.uri):
        ingest(f"{root}/images", f"{root}/data")
    return {"local": str(local), "store": store.uri}


@pytest.fixture(scope="package")
def graphs(places):
    """What `analysis.json` holds of each place; the graphs lie in its folder `graph`."""
    return {name: analyze(f"{root}/data", f"{root}/graph") for name, root in places.items()}


@pytest.fixture(scope="package")
def trained(places, graphs):
    """Metrics and answers of a model that was trained in the local folder."""
    return train(places["local"])
