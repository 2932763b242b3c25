import numpy as np
import pytest
from click.testing import CliRunner

from image_pipeline.cli import cli
from image_pipeline.config import check_run, load_config

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("dtype", "shape", "stored", "channels", "seen"),
    [
        ("uint16", (9, 12, 13), "uint16", 13, "float32"),
        ("float64", (9, 12), "float32", 1, "float32"),
        ("int16", (9, 12, 1), "float32", 1, "float32"),
        ("uint8", (9, 12, 4), "uint8", 4, "uint8"),
    ],
)
def test_the_type_and_channels_of_arrays_are_written(
    tmp_path, dtype, shape, stored, channels, seen
):
    for number in range(6):
        folder = tmp_path / "images" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{number}.npy", np.full(shape, number, dtype))
    path = tmp_path / "config.yaml"
    arguments = ["init", str(tmp_path / "images"), "--output", str(path), "--yes"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    config = load_config(str(path))
    prepare, view = config.ingest.prepare, config.view
    assert (prepare.dtype, prepare.channels, prepare.encoding) == (stored, channels, "raw")
    assert (view.dtype, view.channels, view.height_px, view.width_px) == (seen, channels, 36, 48)
    check_run(config)
