"""Flink and Beam's runner for it, as jars from Maven Central, with checksums verified.

They come into a build folder (`kubeflow/flink/pom.xml` names them) and become one runnable job
server, which is also the class path of a cluster: Flink's own start scripts are not needed.
"""

import hashlib
import pathlib
import shutil
import subprocess
import zipfile

CONFIG_DIR = pathlib.Path(__file__).parents[2] / "kubeflow" / "flink"
FLINK_VERSION = "1.19"
# Over the names and contents of all jars; it changes with the versions in pom.xml.
JARS_SHA256 = "5d2d9ff9c031447d4fc80492694cd1a361db7f01564cc945da0ee22a5a2a898b"
_MAIN = "org.apache.beam.runners.flink.FlinkJobServerDriver"


class NotAvailable(Exception):
    """Flink cannot be had on this machine; the message says why."""


def fetch_flink(build_dir: pathlib.Path, timeout_s: float = 300) -> pathlib.Path:
    """Fetches the jars, unless they are there, and makes them one runnable job server.

    Args:
      build_dir: where to; nothing else should lie there.
      timeout_s: most seconds that Maven may take.

    Returns:
      What Beam's `--flink_job_server_jar` takes.

    Raises:
      NotAvailable: if Java or Maven is missing, or the jars cannot be fetched or are not the ones.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise NotAvailable(f"Flink needs {program}, which is not on the PATH; install it.")
    jars_dir, job_server = build_dir / "jars", build_dir / "job-server.jar"
    if not job_server.exists():
        shutil.rmtree(jars_dir, ignore_errors=True)
        _run_maven(jars_dir, timeout_s)
        _check_jars(jars_dir)
        _write_job_server(jars_dir, job_server)
    return job_server


def _run_maven(jars_dir: pathlib.Path, timeout_s: float) -> None:
    # -C fails on a checksum that does not match.
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command = ["mvn", "-B", "-q", "-C", "-f", str(CONFIG_DIR / "pom.xml"), *goal]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={jars_dir.resolve()}"],
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise NotAvailable(f"Maven did not fetch Flink's jars within {timeout_s:g} s.") from error
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
        raise NotAvailable(f"Maven cannot fetch Flink's jars: {(lines or ['?'])[0]}")


def _check_jars(jars_dir: pathlib.Path) -> None:
    digest = hashlib.sha256()
    for jar in sorted(jars_dir.glob("*.jar")):
        digest.update(f"{jar.name} {hashlib.sha256(jar.read_bytes()).hexdigest()}\n".encode())
    if digest.hexdigest() != JARS_SHA256:
        raise NotAvailable(
            f"The jars in {jars_dir} have the checksum {digest.hexdigest()}, not {JARS_SHA256}; "
            "fetch them again, or, after a change of pom.xml, set JARS_SHA256."
        )


def _write_job_server(jars_dir: pathlib.Path, job_server: pathlib.Path) -> None:
    """Writes a jar that only names the others; Beam releases one that holds them."""
    names = " ".join(f"{jars_dir.name}/{jar.name}" for jar in sorted(jars_dir.glob("*.jar")))
    lines = ["Manifest-Version: 1.0", f"Main-Class: {_MAIN}", f"Class-Path: {names}"]
    # Lines of a manifest have at most 72 bytes and go on after a line break and a space.
    folded = [line[:70] + _fold(line[70:]) for line in lines]
    with zipfile.ZipFile(job_server, "w") as file:
        file.writestr("META-INF/MANIFEST.MF", "\r\n".join([*folded, "", ""]))


def _fold(rest: str) -> str:
    return "".join(f"\r\n {rest[start : start + 69]}" for start in range(0, len(rest), 69))
