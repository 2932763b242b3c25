"""The same bytes on every Beam runner that runs on one machine, and the same clear errors."""

import json

import pytest

from tests.drawings import write_folder
from tests.pipeline.test_cli import call
from tests.tiers import wide

pytestmark = pytest.mark.e2e

RUNNERS = {
    "multi_processing": ("--direct_running_mode=multi_processing", "--direct_num_workers=2"),
    "portable": ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"),
}
SETTINGS = (
    *("--set", "ingest.shards=3", "--set", "ingest.max_bad_fraction=0.5"),
    *("--set", "ingest.conflicting_labels=keep"),
)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    # More than one chunk of 4096 files, so that there is something to spread.
    images = write_folder(tmp_path_factory.mktemp("runners") / "images", per_class=2100)
    (images / "cat" / "bad.png").write_bytes(b"not an image")
    (images / "dog" / "copy.png").write_bytes((images / "cat" / "000.png").read_bytes())
    return images


def _ingest(images, output, *beam_flags):
    done = call("ingest", "--images", images, "--output", output, *SETTINGS, "--", *beam_flags)
    assert done.returncode == 0, done.stderr
    paths = [path for path in output.rglob("*") if path.is_file() and path.name != ".ingest.log"]
    return {str(path.relative_to(output)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def expected(images, tmp_path_factory):
    return _ingest(images, tmp_path_factory.mktemp("in_memory"))


def test_the_books_balance(expected):
    manifest = json.loads(expected["manifest.json"])
    books = [manifest[key] for key in ("found", "written", "duplicates", "quarantined")]
    # Cat 1000 is drawn as dog 0 is, and so on: 1,100 pictures are there twice, and copy.png.
    assert books == [4202, 3100, 1101, 1]


@pytest.mark.parametrize("runner", [wide("multi_processing"), "portable"])
def test_the_bytes_are_the_same_on_every_runner(images, expected, tmp_path, runner):
    assert _ingest(images, tmp_path, *RUNNERS[runner]) == expected


@pytest.mark.parametrize("runner", [wide("multi_processing"), "portable"])
def test_an_error_in_a_worker_is_as_clear_as_at_home(tmp_path, runner):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "1.png").write_bytes(b"text")
    arguments = ("--images", tmp_path / "images", "--output", tmp_path / "out")
    done = call("ingest", *arguments, "--", *RUNNERS[runner])
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("Error: None of the 1 files found is a usable image")
    assert "running" not in done.stderr and "Traceback" not in done.stderr
