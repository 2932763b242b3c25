"""The same images ingested from a folder, archives, arrays and other people's files, in turns.

    python -m benchmarks.sources --images FOLDER [--most 5000] [--repeats 5] [--only tar zip]

FOLDER holds folders of classes. Each source is made of its images in a temporary folder. Then all
are ingested in turns, so that a drift of the machine's speed meets them all: those of files with
`encoding: original`, beside the folder; those of pixels (of images of one size, the first one's)
with `encoding: raw`, beside a folder of `.npy` files. All of a group must store the same images
under the same names, which is checked. Figures are medians; a source's ratio is the median of
those of the repetitions, how many times as fast as the folder it is: of the wall clock, and of
processor time.
"""

import argparse
import collections
import functools
import gzip
import io
import pathlib
import shutil
import statistics
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks.ingest import measure
from image_pipeline.components.beam.args import LOCAL_BEAM_ARGS
from image_pipeline.components.dataset import record, tfrecord
from image_pipeline.components.dataset.index_file import scan_index
from image_pipeline.components.images.decode import decode_image
from image_pipeline.components.images.options import PrepareOptions
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.folder import list_images

Files = Mapping[str, bytes]
"""Whole files by their paths, which begin with their classes."""
Maker = Callable[[Files, pathlib.Path], str]
"""Makes a source of them in a folder; gives what `--images` gets."""


class Group(NamedTuple):
    """Sources of the same images.

    Attributes:
      makers: of each source; the first one is the folder that they are compared with.
      options: of ingest.
    """

    makers: Mapping[str, Maker]
    options: Mapping[str, Any]


def make_folder(files: Files, target: pathlib.Path) -> str:
    """Each a file."""
    for name, data in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(target)


def make_tar(files: Files, target: pathlib.Path) -> str:
    """A tar file."""
    with tarfile.open(target / "a.tar", "w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return str(target / "a.tar")


def make_tar_gz(files: Files, target: pathlib.Path) -> str:
    """A packed tar file."""
    content = pathlib.Path(make_tar(files, target)).read_bytes()
    (target / "a.tar.gz").write_bytes(gzip.compress(content, 6))
    return str(target / "a.tar.gz")


def make_zip(files: Files, target: pathlib.Path, packing: int) -> str:
    """A zip file."""
    with zipfile.ZipFile(target / "a.zip", "w", packing) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return str(target / "a.zip")


def make_tfrecord(files: Files, target: pathlib.Path, ending: str = "") -> str:
    """Records as TensorFlow's tutorials write them."""
    columns = (
        record.Column("image/class/text", "bytes"),
        record.Column("image/filename", "bytes"),
        record.Column("image/encoded", "bytes"),
    )
    path = target / f"a.tfrecord{ending}"
    with gzip.open(path, "wb", 6) if ending else path.open("wb") as file:
        for name, data in files.items():
            values = (name.partition("/")[0].encode(), name.encode(), data)
            keys = (column.key for column in columns)
            example = record.encode_example(dict(zip(keys, values, strict=True)), columns)
            file.write(tfrecord.frame(example))
    return str(path)


def make_parquet(files: Files, target: pathlib.Path) -> str:
    """A table of images as Hugging Face's data sets have them."""
    image = [{"bytes": data, "path": name} for name, data in files.items()]
    label = [name.partition("/")[0] for name in files]
    pq.write_table(pa.table({"image": image, "label": label}), target / "a.parquet", 100)
    return str(target / "a.parquet")


def make_hdf5_files(files: Files, target: pathlib.Path) -> str:
    """JPEGs in HDF5, as bytes of any length."""
    with h5py.File(target / "a.h5", "w") as file:
        images = file.create_dataset("image", len(files), h5py.vlen_dtype(np.uint8))
        for row, data in enumerate(files.values()):
            images[row] = np.frombuffer(data, np.uint8)
        _add_names(file, files)
    return str(target / "a.h5")


def make_hdf5(files: Files, target: pathlib.Path, **how: Any) -> str:
    """Pixels in HDF5."""
    with h5py.File(target / "a.h5", "w") as file:
        file.create_dataset("image", data=_pixels(files), **how)
        _add_names(file, files)
    return str(target / "a.h5")


def make_npz(files: Files, target: pathlib.Path) -> str:
    """Pixels in a `.npz` file that is not packed."""
    labels = [name.partition("/")[0] for name in files]
    np.savez(target / "a.npz", image=_pixels(files), label=labels, path=list(files))
    return str(target / "a.npz")


def make_zarr(files: Files, target: pathlib.Path) -> str:
    """Pixels in Zarr's chunks, packed as it does by default."""
    group = zarr.open_group(str(target / "a.zarr"), "w")
    pixels = _pixels(files)
    group.create_dataset("image", data=pixels, chunks=(100, *pixels.shape[1:]))
    group.create_dataset("label", data=np.array([name.partition("/")[0] for name in files]))
    group.create_dataset("path", data=np.array(list(files)))
    return str(target / "a.zarr")


def _add_names(file: h5py.File, files: Files) -> None:
    file["label"] = [name.partition("/")[0] for name in files]
    file["path"] = list(files)


def _pixels(files: Files) -> np.ndarray:
    return np.stack([np.load(io.BytesIO(data)) for data in files.values()])


GROUPS = {
    "files": Group(
        {
            "folder": make_folder,
            "tar": make_tar,
            "tar.gz": make_tar_gz,
            "zip": functools.partial(make_zip, packing=zipfile.ZIP_STORED),
            "zip, packed": functools.partial(make_zip, packing=zipfile.ZIP_DEFLATED),
            "TFRecord": make_tfrecord,
            "TFRecord, gzip": functools.partial(make_tfrecord, ending=".gz"),
            "Parquet": make_parquet,
            "HDF5, files": make_hdf5_files,
        },
        {"encoding": "original", "resize": "none"},
    ),
    "pixels": Group(
        {
            "folder of .npy": make_folder,
            "HDF5": make_hdf5,
            "HDF5, gzip": functools.partial(
                make_hdf5, chunks=True, compression="gzip", shuffle=True
            ),
            "npz": make_npz,
            "Zarr": make_zarr,
        },
        {"encoding": "raw", "resize": "none"},
    ),
}


def read_files(folder: str, most: int) -> dict[str, bytes]:
    """The files of a folder, spread evenly."""
    paths = [ref.path for ref in list_images(folder)]
    chosen = paths[:: max(1, len(paths) // most)][:most]
    return {path: (pathlib.Path(folder) / path).read_bytes() for path in chosen}


def to_pixels(files: Files) -> dict[str, bytes]:
    """Those of them that have the first one's size, as `.npy` files of their names."""
    decoded = {name: _decode(data) for name, data in files.items()}
    shape = next(iter(decoded.values())).shape
    arrays = {}
    for name, pixels in decoded.items():
        if pixels.shape == shape:
            np.save(file := io.BytesIO(), pixels)
            arrays[name] = file.getvalue()
    return arrays


def _decode(data: bytes) -> np.ndarray:
    return decode_image(data, PrepareOptions(max_pixels=2**30, resize="none")).pixels


def ingest(images: str, output: pathlib.Path, options: Mapping[str, Any]) -> None:
    """The shipped ingest, without the command line's imports."""
    given = IngestOptions.model_validate({"prepare": options, "max_bad_fraction": 0})
    run_ingest(
        images,
        str(output),
        f"{output}/.work",
        complete_options(images, given),
        lambda: beam.Pipeline(options=PipelineOptions(list(LOCAL_BEAM_ARGS))),
    )


def read_stored(output: pathlib.Path) -> list[tuple[Any, ...]]:
    """Each record's name, label, and size of the stored image."""
    columns = ("source", "label", "payload_length")
    rows = []
    for table in scan_index(str(output), columns):
        rows += zip(*(table[name].to_pylist() for name in columns), strict=True)
    return sorted(rows)


def compare(
    group: Group, files: Files, scratch: pathlib.Path, repeats: int, only: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    """Wall and processor seconds of each repetition, by source."""
    sources = {}
    for number, (name, make) in enumerate(group.makers.items()):
        if number == 0 or not only or name in only:
            target = scratch / str(number)
            target.mkdir(parents=True)
            sources[name] = make(files, target)
    expected, times = None, collections.defaultdict(list)
    for repeat in range(repeats + 1):
        for name, images in sources.items():
            output = scratch / "out"
            taken = measure(lambda i=images, o=output: ingest(i, o, group.options))
            if repeat:  # The first one pays for what is loaded once.
                times[name].append(taken)
            else:
                stored = read_stored(output)
                expected = expected or stored
                assert stored == expected, f"{name} gives other records"
            shutil.rmtree(output)
    return times


def report(times: Mapping[str, list[tuple[float, float]]], images: int) -> None:
    """Medians, and ratios to the first source."""
    base = next(iter(times.values()))
    for name, pairs in times.items():
        wall, cpu = (statistics.median(each) for each in zip(*pairs, strict=True))
        both = list(zip(base, pairs, strict=True))
        ratios = (statistics.median(b[i] / own[i] for b, own in both) for i in (0, 1))
        faster = "  ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"  {name:<16}{images / wall:8.0f} /s {1e3 * cpu / images:7.3f} CPU ms  {faster}")


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", required=True)
    parser.add_argument("--most", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    files = read_files(arguments.images, arguments.most)
    for kind, group in GROUPS.items():
        contents = files if kind == "files" else to_pixels(files)
        print(f"{len(contents):,} images, {kind}; times as fast as the folder: wall, CPU")
        with tempfile.TemporaryDirectory() as scratch:
            times = compare(
                group, contents, pathlib.Path(scratch), arguments.repeats, arguments.only
            )
        report(times, len(contents))


if __name__ == "__main__":
    main()
