"""Formats whose framework runs the whole job: it lists, spreads and writes as its pages show."""

import json
import pathlib
from typing import Any

from writers.convert import (
    QUALITY,
    SIZE_PX,
    convert,
    convert_bytes,
    list_photos,
    load_resized,
    name_photo,
)
from writers.pooled import cores


def write_ffcv(photos: str, target: str) -> None:
    """https://docs.ffcv.io/writing_datasets.html: JPEG always, a process a core."""
    from ffcv.fields import RGBImageField
    from ffcv.writer import DatasetWriter

    field = RGBImageField(write_mode="jpg", jpeg_quality=QUALITY)
    writer = DatasetWriter(f"{target}/images.beton", {"image": field}, num_workers=cores())
    writer.from_indexed_dataset(_Resized(list_photos(photos)))


class _Resized:
    """Photos by number, resized: (uint8 [height, width, 3], RGB)."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> tuple[Any]:
        return (load_resized(self._paths[number])[..., ::-1].copy(),)


def count_ffcv(target: str) -> int:
    """Samples of the file."""
    from ffcv.reader import Reader

    return int(Reader(f"{target}/images.beton").num_samples)


def write_litdata(photos: str, target: str) -> None:
    """`litdata.optimize`: https://github.com/Lightning-AI/litData."""
    import litdata

    paths = list_photos(photos)
    litdata.optimize(_make_item, paths, target, chunk_bytes="64MB", num_workers=cores())


def _make_item(path: str) -> dict[str, Any]:
    return {"name": name_photo(path), "image": convert(path)}


def count_litdata(target: str) -> int:
    """Items of all chunks."""
    index = json.loads(pathlib.Path(target, "index.json").read_text())
    return sum(chunk["chunk_size"] for chunk in index["chunks"])


def write_img2dataset(photos: str, target: str) -> None:
    """https://github.com/rom1504/img2dataset over file:// addresses: its own decoder and resize."""
    from img2dataset import download

    listed = pathlib.Path(target, "list.txt")
    listed.write_text("\n".join(pathlib.Path(path).as_uri() for path in list_photos(photos)))
    download(
        url_list=str(listed),
        output_folder=f"{target}/out",
        image_size=SIZE_PX,
        resize_mode="keep_ratio",
        resize_only_if_bigger=True,
        encode_quality=QUALITY,
        output_format="webdataset",
        processes_count=cores(),
        thread_count=16,
        number_sample_per_shard=256,
    )


def write_daft(photos: str, target: str) -> None:
    """Daft: files listed and read by it, a row-wise function, Parquet written by it.

    Daft's own `resize` takes one size for all images and its `encode_image` no quality, so a
    function does both: https://docs.daft.ai/en/stable/custom-code/func/.
    """
    import daft

    shrink = daft.func(convert_bytes, return_dtype=daft.DataType.binary(), use_process=True)
    frame = daft.from_glob_path(f"{photos}/*")
    frame = frame.select(frame["path"], shrink(frame["path"].download()).alias("image"))
    frame.write_parquet(target)


def write_ray(photos: str, target: str) -> None:
    """Ray Data: https://docs.ray.io/en/latest/data/working-with-images.html, to Parquet."""
    import ray

    ray.init(num_cpus=cores(), include_dashboard=False, log_to_driver=False)
    rows = ray.data.read_binary_files(photos, include_paths=True)
    rows.map(_shrink_row).write_parquet(target)


def _shrink_row(row: dict[str, Any]) -> dict[str, Any]:
    return {"path": row["path"], "image": convert_bytes(row["bytes"])}


def count_parquet(target: str) -> int:
    """Rows of all files."""
    import pyarrow.parquet

    paths = pathlib.Path(target).rglob("*.parquet")
    return sum(pyarrow.parquet.read_metadata(path).num_rows for path in paths)


def write_tfds(photos: str, target: str) -> None:
    """A TFDS builder, in one process: https://www.tensorflow.org/datasets/add_dataset."""
    import tensorflow_datasets as tfds

    features = tfds.features.FeaturesDict(
        {"image": tfds.features.Image(), "name": tfds.features.Text()}
    )

    class Photos(tfds.core.GeneratorBasedBuilder):
        """Resized photos."""

        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> tfds.core.DatasetInfo:
            return self.dataset_info_from_configs(features=features)

        def _split_generators(self, manager: Any) -> dict[str, Any]:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Any:
            for path in list_photos(photos):
                yield name_photo(path), {"image": convert(path), "name": name_photo(path)}

    Photos(data_dir=target).download_and_prepare()


def count_tfds(target: str) -> int:
    """Examples of the split, by TFDS's own description."""
    (described,) = pathlib.Path(target).rglob("dataset_info.json")
    splits = json.loads(described.read_text())["splits"]
    return sum(int(length) for split in splits for length in split["shardLengths"])
