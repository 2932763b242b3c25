"""Flink, Spark and Beam's runners for them, as jars from Maven Central, with checksums verified.

They come into a build folder (a `pom.xml` names them) and become one runnable job server. Flink's
is also the class path of a cluster: Flink's own start scripts are not needed.
"""

import dataclasses
import hashlib
import pathlib
import shutil
import subprocess
import zipfile

_KUBEFLOW_DIR = pathlib.Path(__file__).parents[1] / "kubeflow"


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobServer:
    """What an engine's job server is made of.

    Attributes:
      engine: its name.
      version: of the engine.
      config_dir: has the `pom.xml`.
      main_class: starts the job server.
      jars_sha256: over the names and contents of all jars; it changes with the versions in pom.xml.
    """

    engine: str
    version: str
    config_dir: pathlib.Path
    main_class: str
    jars_sha256: str


FLINK = JobServer(
    engine="Flink",
    version="1.19",
    config_dir=_KUBEFLOW_DIR / "flink",
    main_class="org.apache.beam.runners.flink.FlinkJobServerDriver",
    jars_sha256="5d2d9ff9c031447d4fc80492694cd1a361db7f01564cc945da0ee22a5a2a898b",
)
SPARK = JobServer(
    engine="Spark",
    version="3.2.2",
    config_dir=_KUBEFLOW_DIR / "spark",
    main_class="org.apache.beam.runners.spark.SparkJobServerDriver",
    jars_sha256="6c374e62f433cec70361508ba6be3941788e6e8b3ed89c9542b1d76ec9823634",
)


class NotAvailable(Exception):
    """An engine cannot be had on this machine; the message says why."""


def fetch_job_server(
    server: JobServer, build_dir: pathlib.Path, timeout_s: float = 300
) -> pathlib.Path:
    """Fetches the jars, unless they are there, and makes them one runnable job server.

    Args:
      server: of which engine.
      build_dir: where to; nothing else should lie there.
      timeout_s: most seconds that Maven may take.

    Returns:
      What Beam's `--flink_job_server_jar` or `--spark_job_server_jar` takes.

    Raises:
      NotAvailable: if Java or Maven is missing, or the jars cannot be fetched or are not the ones.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise NotAvailable(
                f"{server.engine} needs {program}, which is not on the PATH; install it."
            )
    jars_dir, job_server = build_dir / "jars", build_dir / "job-server.jar"
    if not job_server.exists():
        shutil.rmtree(jars_dir, ignore_errors=True)
        _run_maven(server, jars_dir, timeout_s)
        _check_jars(server, jars_dir)
        _write_job_server(server, jars_dir, job_server)
    return job_server


def _run_maven(server: JobServer, jars_dir: pathlib.Path, timeout_s: float) -> None:
    # -C fails on a checksum that does not match.
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command = ["mvn", "-B", "-q", "-C", "-f", str(server.config_dir / "pom.xml"), *goal]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={jars_dir.resolve()}"],
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise NotAvailable(
            f"Maven did not fetch {server.engine}'s jars within {timeout_s:g} s."
        ) from error
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
        raise NotAvailable(f"Maven cannot fetch {server.engine}'s jars: {(lines or ['?'])[0]}")


def _check_jars(server: JobServer, jars_dir: pathlib.Path) -> None:
    digest = hashlib.sha256()
    for jar in sorted(jars_dir.glob("*.jar")):
        digest.update(f"{jar.name} {hashlib.sha256(jar.read_bytes()).hexdigest()}\n".encode())
    if digest.hexdigest() != server.jars_sha256:
        raise NotAvailable(
            f"The jars in {jars_dir} have the checksum {digest.hexdigest()}, not "
            f"{server.jars_sha256}; fetch them again, or, after a change of pom.xml, set "
            "jars_sha256."
        )


def _write_job_server(server: JobServer, jars_dir: pathlib.Path, job_server: pathlib.Path) -> None:
    """Writes a jar that only names the others; Beam releases one that holds them."""
    names = " ".join(f"{jars_dir.name}/{jar.name}" for jar in sorted(jars_dir.glob("*.jar")))
    main = f"Main-Class: {server.main_class}"
    lines = ["Manifest-Version: 1.0", main, f"Class-Path: {names}"]
    # Lines of a manifest have at most 72 bytes and go on after a line break and a space.
    folded = [line[:70] + _fold(line[70:]) for line in lines]
    with zipfile.ZipFile(job_server, "w") as file:
        file.writestr("META-INF/MANIFEST.MF", "\r\n".join([*folded, "", ""]))


def _fold(rest: str) -> str:
    return "".join(f"\r\n {rest[start : start + 69]}" for start in range(0, len(rest), 69))
