"""Lines that a worker prints come whole, with who printed them; a bar is its last state."""

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.e2e


def _print(script):
    """What a process writes to stdout, and to stderr, that runs this."""
    begin = "from image_pipeline.components.generators.generator_worker import Output\n"
    begin += "import sys\noutput = Output('shard 3')\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + textwrap.dedent(script)], capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.decode()


def test_each_line_says_who_printed_it():
    assert _print("""
        print("one", end=" ")
        print("error", file=sys.stderr)
        print("line\\n\\nand é\\udcff")
        output.printing = "shard 4"
        sys.stdout.buffer.write(b"bytes")
        output.end()
    """) == (
        b"",
        "shard 3: error\nshard 3: one line\nshard 3: \nshard 3: and é\\udcff\nshard 4: bytes\n",
    )


def test_of_a_bar_the_last_state_is_written():
    script = """
        import tqdm
        for _ in tqdm.tqdm(range(200), mininterval=0, ncols=40):
            pass
        for number in range(1000):
            sys.stderr.write(f"{number}\\r")
            sys.stderr.flush()
        output.end()
    """
    _, errors = _print(script)
    bar, last = errors.splitlines()
    assert bar.startswith("shard 3: 100%|") and last == "shard 3: 999"


def test_a_line_without_an_end_is_not_held():
    _, errors = _print("print('x' * 200_000, end=''); sys.stdout.flush()")
    assert errors.startswith("shard 3: xxx") and len(errors) > 150_000


def test_programs_that_it_starts_write_to_the_same_place():
    script = "import subprocess\nsubprocess.run(['echo', 'told'], stdout=sys.stdout)\noutput.end()"
    assert _print(script) == (b"", "told\n")


def test_streams_that_were_closed_or_replaced_do_no_harm():
    assert _print("sys.stdout.close()\nsys.stderr = None\noutput.end()") == (b"", "")
