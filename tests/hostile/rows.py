"""What must happen to each hostile input: `python -m tests.hostile.rows` prints the table."""

import dataclasses
import pathlib
import re
import tempfile

from tests.hostile.inputs import write_inputs
from tests.hostile.measured import Outcome, run_measured


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A command on a hostile input.

    Attributes:
      arguments: of the command line, in words; `{out}` is a folder that is not there yet.
      code: the exit code that it must end with.
      says: a regular expression that must match somewhere in what it prints.
      good: the arguments of the same command on an input that does no harm.
      cwd: the folder to start in, below that of the inputs.
    """

    arguments: str
    code: int
    says: str
    good: str = "ingest --images good --output {out}"
    cwd: str = "."

    def run(self, inputs: pathlib.Path, out: pathlib.Path) -> Outcome:
        """Runs it."""
        return run_measured(self.arguments.format(out=out).split(), inputs / self.cwd)


BAD_ALLOWED = " --set ingest.max_bad_fraction=0.5"

ROWS = {
    # Modules of the current folder.
    "code: ingest": Row(
        cwd="code", arguments="ingest --images photos --output {out}", code=0, says="written +16"
    ),
    "shadow: ingest": Row(
        cwd="shadow", arguments="ingest --images photos --output {out}", code=0, says="written +16"
    ),
    # Configurations.
    "twice.yaml": Row(
        arguments="ingest --images good --output {out} --config twice.yaml",
        code=1,
        says="line 5, column 1: the key 'ingest' is given twice, first in line 1",
    ),
    "deep.yaml": Row(
        arguments="ingest --images good --output {out} --config deep.yaml",
        code=1,
        says="line 1, column 58: values are nested more than 50 deep",
    ),
    "long_number.yaml": Row(
        arguments="ingest --images good --output {out} --config long_number.yaml",
        code=1,
        says="a number of more than 100 digits",
    ),
    "aliases.yaml": Row(
        arguments="ingest --images good --output {out} --config aliases.yaml",
        code=1,
        says="1,000,000 values, those of aliases",
    ),
    # Files that cannot be written.
    "init to /proc": Row(
        arguments="init good --yes --output /proc/config.yaml",
        code=1,
        says="Cannot write '/proc/config.yaml': No such file or directory; choose another --output",
        good="init good --yes --output {out}",
    ),
    # Limits before work.
    "scans": Row(
        arguments="ingest --images scans --output {out}" + BAD_ALLOWED,
        code=0,
        says=r"rejected +1 \(unsupported 1\)",
    ),
    "many": Row(
        arguments="ingest --images many --output {out}" + BAD_ALLOWED,
        code=0,
        says=r"rejected +4 \(unsupported 4\)",
    ),
    "zeros_4MB.tfrecord.gz": Row(
        arguments="ingest --images zeros_4MB.tfrecord.gz --output {out}",
        code=1,
        says="If the 4,194,304 values of 'image' are an image, state its shape by ingest.pixel",
    ),
    "zeros_64MB.tfrecord.gz": Row(
        arguments="ingest --images zeros_64MB.tfrecord.gz --output {out}",
        code=1,
        says="If the 67,108,864 values of 'image' are an image, state its shape by ingest.pixel_sh",
    ),
    "numbers_64MB.tfrecord.gz": Row(
        arguments="ingest --images numbers_64MB.tfrecord.gz --output {out}",
        code=1,
        says="it is no tf.Example .it has too many fields or numbers",
    ),
    "rows_1e12.h5": Row(
        arguments="ingest --images rows_1e12.h5 --output {out}",
        code=1,
        says=r"'rows_1e12.h5' says that it has 1,000,000,000,000 rows, in [\d,]+ bytes",
    ),
    "rows_1e12.zarr": Row(
        arguments="ingest --images rows_1e12.zarr --output {out}",
        code=1,
        says=r"'rows_1e12.zarr' says that it has 1,000,000,000,000 rows, in [\d,]+ bytes",
    ),
    "huge_chunk.h5": Row(
        arguments="ingest --images huge_chunk.h5 --output {out}",
        code=1,
        says=r"X: in chunks of \[2, 20000, 20000, 3\], 2,400,000,000 bytes each",
    ),
    "huge_chunk.zarr": Row(
        arguments="ingest --images huge_chunk.zarr --output {out}",
        code=1,
        says=r"X: in chunks of \[4, 100000, 100000, 3\], 120,000,000,000 bytes each",
    ),
    "deep.h5": Row(
        arguments="ingest --images deep.h5 --output {out}",
        code=1,
        says="more than 100,000 groups and data sets, 100 deep",
    ),
    "unpacks.h5": Row(
        arguments="ingest --images unpacks.h5 --output {out}",
        code=1,
        says="a chunk of '/y' has 1,043,644 bytes, packed, where 10,000 are all its values",
    ),
    "unpacks.zarr": Row(
        arguments="ingest --images unpacks.zarr --output {out}",
        code=1,
        says="4 corrupt, .*'X/0.0.0.0' has more than 67,136 bytes",
    ),
    "wide_labels.h5": Row(
        arguments="ingest --images wide_labels.h5 --output {out}",
        code=1,
        says=r"the labels 'y' are uint8 \[4, 1000000000\], which name no class",
    ),
    "sides.npy": Row(
        arguments="ingest --images sides.npy --output {out}",
        code=1,
        says="holds no images .sides.npy: of sides that no file has",
    ),
    "bomb.npz": Row(
        arguments="ingest --images bomb.npz --output {out}",
        code=1,
        says="2 too_large_file, .*768000128 bytes; prepare.max_file_bytes=268435456",
    ),
    "runs.zarr": Row(
        arguments="ingest --images runs.zarr --output {out}",
        code=1,
        says="X: packed by 'pickle', which is not one of shuffle, ",
    ),
    "wide.csv": Row(
        arguments="ingest --images tables/wide.csv --output {out}",
        code=1,
        says="wide.csv:1: the first line names 100,002 columns; a table may have 10,000",
    ),
    # Files of others.
    "table/list.csv": Row(
        arguments="ingest --images table/list.csv --output {out}" + BAD_ALLOWED,
        code=0,
        says=r"rejected +2 \(outside 2\)",
    ),
    "linked.zarr": Row(
        arguments="ingest --images linked.zarr --output {out}" + BAD_ALLOWED,
        code=0,
        says=r"rejected +1 \(outside 1\)",
    ),
    # Rows of tables.
    "polygons.csv": Row(
        arguments="ingest --images tables/polygons.csv --output {out}", code=0, says="written +16"
    ),
    "one_url.csv": Row(
        arguments="ingest --images tables/one_url.csv --output {out}" + BAD_ALLOWED,
        code=0,
        says=r"rejected +1 \(outside 1\)",
    ),
    "key_twice.jsonl": Row(
        arguments="ingest --images tables/key_twice.jsonl --output {out}",
        code=1,
        says="key_twice.jsonl:1: .*the key 'label' is there twice",
    ),
}


def main() -> None:
    """Prints the table."""
    print("| input | exit | peak MiB | good | seconds | says |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        inputs = pathlib.Path(folder) / "inputs"
        write_inputs(inputs)
        good: dict[str, Outcome] = {}
        for number, (name, row) in enumerate(ROWS.items()):
            if row.good not in good:
                words = row.good.format(out=f"{folder}/good-{len(good)}").split()
                good[row.good] = run_measured(words, inputs)
            ran = row.run(inputs, pathlib.Path(folder) / str(number))
            lines = [line for line in ran.output.splitlines() if re.search(row.says, line)]
            print(
                f"| {name} | {ran.code} | {ran.peak_mb:.0f} | {good[row.good].peak_mb:.0f} "
                f"| {ran.seconds:.1f} | {(lines or [''])[0].strip()} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
