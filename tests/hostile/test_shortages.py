"""Too little memory, too few threads, files or room: one sentence that says so, and an end."""

import errno
import importlib
import itertools
import os
import re

import pytest

from image_pipeline import analyze, ingest
from image_pipeline.cli import call
from image_pipeline.components.errors import UserError
from tests.drawings import write_folder
from tests.hostile.measured import run_measured

pytestmark = pytest.mark.e2e

_SMALL = ("--set", "view.height_px=8", "--set", "view.width_px=8")
INGEST = ("ingest", "--images", "images", "--output", "out")
ANALYZE = ("analyze", "data", "--output", "out", *_SMALL)
REPORT = ("report", "data", "--output", "out.html")
VERIFY = ("verify", "data")

SAYS = {
    "memory": (lambda: MemoryError("of 8 GB"), "There is too little memory; .*ingest.threads"),
    "thread": (
        lambda: RuntimeError("can't start new thread"),
        "No further thread or process can be started; .*`ulimit -u`.*ingest.threads=1",
    ),
    "files": (
        lambda: OSError(errno.EMFILE, os.strerror(errno.EMFILE), "x"),
        "Too many files are open; allow more .`ulimit -n 4096`",
    ),
    "disk": (
        lambda: OSError(errno.EIO, os.strerror(errno.EIO), "/data/x"),
        "Reading or writing /data/x failed: the disk, or the connection to it, is at fault",
    ),
    "access": (
        lambda: PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/data/x"),
        "'/data/x' cannot be read or written: Permission denied; check what it is and whose",
    ),
}
STAGES = [
    (INGEST, "image_pipeline.run.preflight:survey_images"),
    (INGEST, "image_pipeline.components.ingest.run:list_chunks"),
    (INGEST, "image_pipeline.components.ingest.prepare_chunk:prepare_image"),
    (INGEST, "image_pipeline.components.ingest.prepare_chunk:write_rows"),
    (INGEST, "image_pipeline.components.ingest.run:plan_shards"),
    (INGEST, "image_pipeline.components.ingest.run:write_shard"),
    (INGEST, "image_pipeline.components.ingest.run:write_manifest"),
    (ANALYZE, "image_pipeline.components.transform.run:read_spans"),
    (ANALYZE, "image_pipeline.components.transform.record_batches:read_views"),
    (ANALYZE, "image_pipeline.components.transform.record_batches:make_record_batch"),
    (ANALYZE, "image_pipeline.components.transform.finish:copy_tree"),
    (ANALYZE, "image_pipeline.components.transform.finish:write_summary"),
    (REPORT, "image_pipeline.report.page:gather_figures"),
    (REPORT, "image_pipeline.report.page:render_page"),
    (VERIFY, "image_pipeline.components.dataset.verify:check_shard"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shortages")
    write_folder(folder / "images", per_class=20)
    assert (
        call(["ingest", "--images", str(folder / "images"), "--output", str(folder / "data")]) == 0
    )
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    for name in ("images", "data"):
        (tmp_path / name).symlink_to(made / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Each stage meets one kind; what is made of each kind is in `tests/test_errors.py`.
@pytest.mark.parametrize(
    ("arguments", "place", "lacking"),
    [(*stage, kind) for stage, kind in zip(STAGES, itertools.cycle(SAYS), strict=False)],
)
def test_a_shortage_at_any_stage_is_said_in_a_sentence(
    folder, monkeypatch, capfd, arguments, place, lacking
):
    make, says = SAYS[lacking]

    def fail(*_, **__):
        raise make()

    module, _, name = place.partition(":")
    monkeypatch.setattr(importlib.import_module(module), name, fail)
    assert call(arguments) == 1
    said = capfd.readouterr().err
    assert re.search(f"^Error: {says}", said, re.MULTILINE) and "Traceback" not in said
    assert not (folder / "out" / "manifest.json").exists()


def test_the_functions_raise_it_too(folder, monkeypatch):
    make, says = SAYS["disk"]

    def fail(*_, **__):
        raise make()

    import image_pipeline.components.ingest.run as ingest_stages
    import image_pipeline.components.transform.record_batches as analysis_stages

    monkeypatch.setattr(ingest_stages, "write_shard", fail)
    monkeypatch.setattr(analysis_stages, "read_views", fail)
    with pytest.raises(UserError, match=says):
        ingest("images", "out")
    with pytest.raises(UserError, match=says):
        analyze("data", "graph", view={"height_px": 8, "width_px": 8})


MB = 2**20
LIMITED = [
    (INGEST, {"RLIMIT_AS": 200 * MB}, "needs 1,000 MB of address space.*`ulimit -v` allows 200 MB"),
    (INGEST, {"RLIMIT_AS": 1100 * MB}, "address space.*`ulimit -v` allows 1,100 MB"),
    (ANALYZE, {"RLIMIT_AS": 5000 * MB}, "address space.*`ulimit -v` allows 5,000 MB"),
    (REPORT, {"RLIMIT_AS": 900 * MB}, "address space.*`ulimit -v` allows 900 MB"),
    (VERIFY, {"RLIMIT_AS": 200 * MB}, "address space.*`ulimit -v` allows 200 MB"),
    (ANALYZE, {"RLIMIT_NOFILE": 14}, "[Tt]oo many (open )?files"),
    (INGEST, {"RLIMIT_NOFILE": 8}, "[Tt]oo many (open )?files"),
    (VERIFY, {"RLIMIT_NOFILE": 6}, "[Tt]oo many (open )?files"),
    (INGEST, {"RLIMIT_FSIZE": 2000}, "Cannot write .*File too large"),
    (ANALYZE, {"RLIMIT_FSIZE": 2000}, "Cannot write .*`ulimit -f`"),
    (REPORT, {"RLIMIT_FSIZE": 2000}, "Cannot write .*File too large"),
]


@pytest.mark.parametrize(("arguments", "limits", "says"), LIMITED)
def test_a_process_s_limit_is_named_and_nothing_hangs(folder, arguments, limits, says):
    ran = run_measured(arguments, folder, limits=limits)
    assert ran.code == 1, ran
    assert re.search(rf"^Error: .*{says}", ran.output, re.MULTILINE), ran.output
    assert "Traceback" not in ran.output


def test_help_needs_no_address_space(folder):
    assert run_measured(["--help"], folder, limits={"RLIMIT_AS": 100 * MB}).code == 0
