"""What a runner needs and does not find is said at once."""

import contextlib
import http.server
import json
import socket
import threading
import time

import pytest

from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.errors import UserError
from image_pipeline.run import engine
from image_pipeline.run.engine import check_engine, choose_engine, make_paths_absolute

pytestmark = pytest.mark.unit


@contextlib.contextmanager
def _flink(**overview):
    """A job manager's REST interface, as far as it is asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(overview if self.path == "/overview" else {}).encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def flink(tmp_path, monkeypatch):
    """The flags of a Flink job whose jar and Java are there."""
    (tmp_path / "job-server.jar").write_bytes(b"jar")
    monkeypatch.setattr(engine.shutil, "which", lambda name: f"/bin/{name}")
    return ["--runner=FlinkRunner", f"--flink_job_server_jar={tmp_path / 'job-server.jar'}"]


@pytest.fixture
def spark(tmp_path, monkeypatch):
    """The same of a Spark job."""
    (tmp_path / "spark.jar").write_bytes(b"jar")
    monkeypatch.setattr(engine.shutil, "which", lambda name: f"/bin/{name}")
    return ["--runner=SparkRunner", f"--spark_job_server_jar={tmp_path / 'spark.jar'}"]


@pytest.fixture
def closed_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_what_runs_here_needs_nothing(flink):
    check_engine(LOCAL_BEAM_ARGS)
    check_engine([*flink, "--flink_master=[local]", "--parallelism=9"])
    check_engine(["--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"])


def test_a_missing_jar_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match=r"needs --flink_job_server_jar=PATH.*`make flink`"):
        check_engine(["--runner=FlinkRunner", "--flink_master=[local]"])
    with pytest.raises(UserError, match=r"gone\.jar: there is no such file; run `make flink`"):
        check_engine(["--runner=FlinkRunner", f"--flink_job_server_jar={tmp_path}/gone.jar"])


def test_missing_java_is_the_users_error(flink, spark, monkeypatch):
    monkeypatch.setattr(engine.shutil, "which", lambda name: None)
    with pytest.raises(UserError, match=r"FlinkRunner .* with java, which is not on the PATH"):
        check_engine(flink)
    with pytest.raises(UserError, match=r"SparkRunner .* with java, which is not on the PATH"):
        check_engine(spark)


def test_sparks_jar_is_needed_too(tmp_path):
    with pytest.raises(
        UserError, match=r"^SparkRunner needs --spark_job_server_jar=.*`make spark`"
    ):
        check_engine(["--runner=SparkRunner"])
    with pytest.raises(UserError, match=r"gone\.jar: there is no such file; run `make spark`"):
        check_engine(["--runner=SparkRunner", f"--spark_job_server_jar={tmp_path}/gone.jar"])


def test_a_spark_master_must_listen(spark, closed_port):
    check_engine(spark)
    for master in ("local[2]", "yarn", "k8s://https://k:443", f"spark://{closed_port},b:7077"):
        check_engine([*spark, f"--spark_master_url={master}"])
    with pytest.raises(UserError, match=r"--spark_master_url=spark://.*: nothing answers there"):
        check_engine([*spark, f"--spark_master_url=spark://{closed_port}"])
    with socket.create_server(("127.0.0.1", 0)) as master:
        check_engine([*spark, f"--spark_master_url=spark://127.0.0.1:{master.getsockname()[1]}"])


def test_prism_is_never_downloaded(tmp_path):
    with pytest.raises(UserError, match=r"^PrismRunner needs --prism_location=PATH; `make prism`"):
        check_engine(["--runner=PrismRunner"])
    (tmp_path / "text").touch()
    wrong = (f"{tmp_path}/gone", str(tmp_path), f"{tmp_path}/text", "https://example.com/prism.zip")
    for gone in wrong:
        with pytest.raises(UserError, match=f"^--prism_location={gone} is not a program; `make pr"):
            check_engine(["--runner=PrismRunner", f"--prism_location={gone}"])
    (tmp_path / "prism").touch(mode=0o755)
    check_engine(["--runner=PrismRunner", f"--prism_location={tmp_path / 'prism'}"])


def test_a_flink_with_enough_slots_passes(flink):
    overview = {"taskmanagers": 2, "slots-total": 4}
    with _flink(**overview) as master:
        check_engine([*flink, f"--flink_master={master}", "--parallelism=4"])
        check_engine([*flink, f"--flink_master=http://{master}", "--parallelism=-1"])
        with pytest.raises(UserError, match=r"needs 5 slots, but its 2 task managers have 4"):
            check_engine([*flink, f"--flink_master={master}", "--parallelism=5"])


def test_a_flink_without_task_managers_is_the_users_error(flink):
    none = {"taskmanagers": 0, "slots-total": 0}
    with _flink(**none) as master, pytest.raises(UserError, match=r"needs 1 slots.* 0 task man"):
        check_engine([*flink, f"--flink_master={master}"])


def test_what_answers_but_is_no_flink_is_the_users_error(flink):
    with _flink() as master, pytest.raises(UserError, match="no Flink job manager answers"):
        check_engine([*flink, f"--flink_master={master}"])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--flink_master={}"], "no Flink job manager answers there within 5 s"),
        (["--job_endpoint={}"], "--job_endpoint=.*: nothing answers there within 5 s"),
        (
            ["--environment_type=EXTERNAL", "--environment_config={}"],
            "--environment_config=.*: nothing answers there",
        ),
    ],
)
def test_an_address_where_nobody_listens_is_the_users_error(flink, closed_port, flags, message):
    with pytest.raises(UserError, match=message):
        check_engine([*flink, *(flag.format(closed_port) for flag in flags)])


def test_one_that_never_answers_is_not_waited_for(flink, monkeypatch):
    monkeypatch.setattr(engine, "CONNECT_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # It accepts, and says nothing.
        started = time.monotonic()
        with pytest.raises(UserError, match=r"answers there within 0\.2 s"):
            check_engine([*flink, f"--flink_master=127.0.0.1:{silent.getsockname()[1]}"])
        assert time.monotonic() - started < 60


def test_a_pool_needs_an_address(flink):
    with pytest.raises(UserError, match=r"--environment_config=: nothing answers .*HOST:PORT"):
        check_engine([*flink, "--environment_type=EXTERNAL"])


def test_a_pool_beside_each_far_worker_cannot_be_asked_from_here(closed_port):
    pool = ["--environment_type=EXTERNAL", f"--environment_config={closed_port}"]
    assert engine._is_loopback(closed_port) and engine._is_loopback("http://localhost:1")
    far = engine._is_beside_far_workers
    assert far({"flink_master": "flink.example:8081", "environment_config": closed_port})
    assert far({"job_endpoint": "http://10.0.0.7:8099", "environment_config": "localhost:50000"})
    assert not far({"flink_master": "flink.example:8081", "environment_config": "10.0.0.7:50000"})
    assert far({"spark_master_url": "spark://10.0.0.7:7077", "environment_config": closed_port})
    assert not far({"flink_master": "[local]", "environment_config": closed_port})
    assert not far({"spark_master_url": "local[2]", "environment_config": closed_port})
    with pytest.raises(UserError, match="nothing answers there"):
        check_engine(["--runner=PortableRunner", "--job_endpoint=embed", *pool])


def test_workers_elsewhere_are_given_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = ["images/{SPAN}", "/data", "gs://bucket/out"]
    assert make_paths_absolute(LOCAL_BEAM_ARGS, *paths) == paths
    far = make_paths_absolute(["--runner=FlinkRunner"], *paths)
    assert far == [f"{tmp_path}/images/{{SPAN}}", "/data", "gs://bucket/out"]


def test_what_is_chosen_is_completed_and_checked():
    assert choose_engine([]) == list(LOCAL_BEAM_ARGS)
    with pytest.raises(UserError, match="needs --flink_job_server_jar=PATH"):
        choose_engine(["--runner=flink"])
