"""`image-pipeline browse`, as a person starts and ends it: a process, and requests to it."""

import json
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.pipeline.test_cli import call as call_process
from tests.pipeline.test_commands import call

pytestmark = pytest.mark.e2e

# Of a process that a script has begun in the background, the shell has Ctrl-C ignored.
_CODE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from image_pipeline.cli import main; main()"
)


def ask(url, body=None):
    headers = {"Content-Type": "application/json"} if body else {}
    content = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(urllib.request.Request(url, content, headers)) as answer:
        return json.load(answer)


@pytest.mark.parametrize(
    ("number", "line", "code"),
    [
        (signal.SIGINT, "Stopped by Ctrl-C", 130),
        (signal.SIGTERM, "Stopped by SIGTERM", 143),
    ],
)
def test_a_process_serves_until_it_is_stopped_and_says_what_was_marked(
    browsed, tmp_path, number, line, code
):
    command = [sys.executable, "-c", _CODE, "browse", str(browsed.data), "--no-open"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        first, second = process.stdout.readline(), process.stdout.readline()
        said, _, url = first.strip().rpartition(" ")
        assert said == "24 records:" and url.startswith("http://127.0.0.1:")
        found = ask(f"{url}search?state=stored")
        for count, entry in enumerate(found["entries"][:2], 1):
            body = {"number": entry["number"], "marked": True}
            assert ask(f"{url}mark", body) == {"marked": count}
        process.send_signal(number)
        out, err = process.communicate(timeout=500)
    finally:
        process.kill()
    assert (second, out) == ("Ctrl-C ends it.\n", "2 paths marked in marks.txt\n")
    assert process.returncode == code and err.startswith(line) and len(err.splitlines()) == 1
    paths = sorted(each["path"] for each in found["entries"][:2])
    assert (tmp_path / "marks.txt").read_text().splitlines() == paths


def test_what_is_wrong_is_one_line(browsed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call_process("browse", tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ") and len(done.stderr.splitlines()) == 1
    for options in (("--port", 70000), ("--epochs", 0), ("--model", "m", "--seed", 0)):
        assert call("browse", browsed.data, *options)[0].exit_code == 2
    _, output = call("browse", browsed.data, "--no-open", "--marks", tmp_path)
    assert "Is a directory" in output
