"""What several machines were fed together is what the certificate of their model names."""

import json

import numpy as np
import pytest

import image_pipeline
from image_pipeline.components.feeding.certificate import FedBatches
from image_pipeline.named_model import find_certificate
from tests.drawings import write_folder
from tests.ingest_runs import ingest
from tests.training.logged import VIEW, list_names, make_namer
from tests.training.machines import PATIENCE_S, end_machines, start_machines

pytestmark = [pytest.mark.e2e, pytest.mark.wide, pytest.mark.timeout(3 * PATIENCE_S)]

CASES = {
    "plain": {},
    "shards": {"shuffle": "shards", "shards_at_once": 2},
    "own": {"own_shards": True, "remainder": "pad", "many_views": {"mirror": True}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    write_folder(folder / "images", per_class=13)
    ingest(folder / "images", folder / "data", shards=4)
    image_pipeline.analyze(str(folder / "data"), str(folder / "graph"), view=VIEW)
    command = ["-m", "tests.training.log_on_machines", str(folder), json.dumps(CASES)]
    for code, _, err in end_machines(start_machines(2, command)):
        assert code == 0, err
    return folder


@pytest.mark.parametrize("case", CASES)
def test_their_parts_are_the_batch_that_is_named(folder, case):
    name_images = make_namer([folder / "data"], folder / "graph")
    machines = [np.load(folder / f"{case}-{number}.npz") for number in (0, 1)]
    parts = [[name_images(fed[step]) for step in fed.files] for fed in machines]
    logged = [first + second for first, second in zip(*parts, strict=True)]
    certificate = find_certificate(str(folder / f"{case}-0"))
    assert sum(part.steps for part in certificate.parts) == len(logged)
    named = list_names(FedBatches(certificate, [str(folder / "data")]), len(logged))
    if CASES[case].get("own_shards"):  # Each has the records of its shards, in their order.
        logged, named = ([sorted(batch) for batch in each] for each in (logged, named))
    assert logged == named
