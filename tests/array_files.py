"""Files of arrays for tests: the same images and columns in every format that is read."""

import pathlib

import h5py
import numpy as np
import pytest
import zarr

IMAGES = np.random.default_rng(0).integers(0, 256, (50, 6, 5, 3), np.uint8)
NAMES = [f"{'cat' if row % 2 else 'dog'}/{row:02d}.npy" for row in range(len(IMAGES))]
CHUNK = (7, 4, 5, 2)


def write_hdf5(path: pathlib.Path, arrays: dict, **settings) -> pathlib.Path:
    """Writes data sets; arrays of 3 or more dimensions with the settings."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            is_picture = getattr(array, "ndim", 1) > 2
            file.create_dataset(name, data=array, **(settings if is_picture else {}))
    return path


def write_files(path: pathlib.Path, name: str, contents: list[bytes], **settings) -> pathlib.Path:
    """Writes a data set of files of varying length."""
    with h5py.File(path, "a") as file:
        rows = file.create_dataset(name, (len(contents),), h5py.vlen_dtype(np.uint8), **settings)
        for row, content in enumerate(contents):
            rows[row] = np.frombuffer(content, np.uint8)
    return path


def write_zarr(path: pathlib.Path, arrays: dict) -> pathlib.Path:
    """Writes a group, in a folder or, by the path's ending, in a zip file."""
    store = zarr.ZipStore(path, mode="w") if path.suffix == ".zip" else zarr.DirectoryStore(path)
    group = zarr.open_group(store, mode="w")
    for name, array in arrays.items():
        values = np.asarray(array)
        group.create_dataset(name, data=values, chunks=(CHUNK + values.shape)[: values.ndim])
    store.close()
    return path


def write_npz(path: pathlib.Path, arrays: dict, save=np.savez) -> pathlib.Path:
    """Writes an `.npz` file, packed if it is saved so."""
    save(path, **arrays)
    return path


def write_npy(path: pathlib.Path, arrays: dict) -> pathlib.Path:
    """Writes each array into a file of its own beside the first, whose path it gives back."""
    for name, array in arrays.items():
        np.save(path.parent / f"{name}.npy", array)
    return path.parent / f"{next(iter(arrays))}.npy"


PACKED = {"compression": "gzip", "shuffle": True}
WRITERS = {
    "contiguous.h5": write_hdf5,
    "chunked.hdf5": lambda path, arrays: write_hdf5(path, arrays, chunks=CHUNK, **PACKED),
    "checked.h5": lambda path, arrays: write_hdf5(path, arrays, chunks=CHUNK, fletcher32=True),
    "stored.npz": write_npz,
    "packed.npz": lambda path, arrays: write_npz(path, arrays, np.savez_compressed),
    "folder.zarr": write_zarr,
    "file.zarr.zip": write_zarr,
}
# As parameters of a test: those that a process of their own reads are not for plain functions.
FORMATS = [
    name if name.endswith(".npz") else pytest.param(name, marks=pytest.mark.e2e) for name in WRITERS
]
