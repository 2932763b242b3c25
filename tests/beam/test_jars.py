"""What `make flink`, `make spark` and `make prism` do before any engine runs."""

import subprocess
import zipfile

import pytest

from benchmarks import engines, jars, prism
from benchmarks.jars import FLINK, SPARK, NotAvailable, fetch_job_server
from benchmarks.prism import fetch_prism

pytestmark = pytest.mark.unit


@pytest.fixture
def maven(monkeypatch):
    """Replaces Maven by what a test makes of it."""

    def answer(outcome):
        def run(command, **_):
            (target,) = [part for part in command if part.startswith("-DoutputDirectory=")]
            return outcome(target.partition("=")[2])

        monkeypatch.setattr(jars.subprocess, "run", run)
        monkeypatch.setattr(jars.shutil, "which", lambda name: f"/bin/{name}")

    return answer


def _write_jars(folder):
    (jars.pathlib.Path(folder)).mkdir(parents=True)
    for number in range(40):
        (jars.pathlib.Path(folder) / f"some-{number:02d}.jar").write_bytes(b"jar")
    return subprocess.CompletedProcess([], 0)


def test_a_missing_program_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(jars.shutil, "which", lambda name: None)
    for server in (FLINK, SPARK):
        message = f"{server.engine} needs java, which is not on the PATH"
        with pytest.raises(NotAvailable, match=message):
            fetch_job_server(server, tmp_path)


def test_what_maven_says_is_told(tmp_path, maven):
    maven(lambda _: subprocess.CompletedProcess([], 1, "x\n[ERROR] no such host\n"))
    with pytest.raises(NotAvailable, match=r"cannot fetch Flink's jars: .*no such host"):
        fetch_job_server(FLINK, tmp_path)


def test_maven_is_not_waited_for(tmp_path, maven):
    def never(_):
        raise subprocess.TimeoutExpired("mvn", 3)

    maven(never)
    with pytest.raises(NotAvailable, match="did not fetch Flink's jars within 3 s"):
        fetch_job_server(FLINK, tmp_path, timeout_s=3)


def test_other_jars_are_refused(tmp_path, maven):
    maven(_write_jars)
    with pytest.raises(NotAvailable, match=r"have the checksum [0-9a-f]{64}, not [0-9a-f]{64}"):
        fetch_job_server(FLINK, tmp_path)
    assert not (tmp_path / "job-server.jar").exists()


def test_the_job_server_names_every_jar_and_is_made_once(tmp_path, maven, monkeypatch):
    maven(_write_jars)
    monkeypatch.setattr(jars, "_check_jars", lambda server, folder: None)
    job_server = fetch_job_server(FLINK, tmp_path)
    manifest = zipfile.ZipFile(job_server).read("META-INF/MANIFEST.MF").decode()
    assert all(len(line.encode()) <= 70 for line in manifest.split("\r\n"))
    named = manifest.replace("\r\n ", "").split("Class-Path: ")[1].split()
    assert named == [f"jars/some-{number:02d}.jar" for number in range(40)]
    maven(lambda _: subprocess.CompletedProcess([], 1, "asked again"))
    assert fetch_job_server(FLINK, tmp_path) == job_server


def test_prism_is_built_by_go_and_once(tmp_path, monkeypatch):
    def install(command, env, **_):
        assert command[:2] == ["go", "install"] and "/cmd/prism@v2." in command[2]
        tmp_path.joinpath(env["GOBIN"], "prism").write_bytes(b"program")
        return subprocess.CompletedProcess([], 0)

    monkeypatch.setattr(prism.shutil, "which", lambda name: None)
    with pytest.raises(NotAvailable, match="Prism needs go, which is not on the PATH"):
        fetch_prism(tmp_path)
    monkeypatch.setattr(prism.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(prism.subprocess, "run", install)
    program = fetch_prism(tmp_path)
    assert program.read_bytes() == b"program"
    monkeypatch.setattr(prism.subprocess, "run", None)
    assert fetch_prism(tmp_path) == program


def test_what_go_says_is_told(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "go: downloading x\ngo: no such host\n")
    monkeypatch.setattr(prism.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(prism.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(NotAvailable, match=r"Go cannot build .*prism@v.*: go: no such host"):
        fetch_prism(tmp_path)


def test_images_are_looked_for_before_an_engine_is_fetched(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["engines", "prism", f"--images={tmp_path}/none"])
    with pytest.raises(SystemExit, match="2"):
        engines.main()
    assert f"--images={tmp_path}/none: there is no such folder" in capsys.readouterr().err
