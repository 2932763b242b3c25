"""The environments of other frameworks, each made once by uv, of pinned releases."""

import dataclasses
import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).parents[2]
# What `random_access` imports: no TensorFlow, no Beam, no TFX.
_LIGHT = (
    *("numpy==2.2.6", "pyarrow==18.1.0", "pydantic==2.14.3", "pyyaml", "google-crc32c==1.9.0"),
    *("opencv-python-headless==4.14.0.94", "pillow==12.3.0", "simplejpeg"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Environment:
    """How an environment is made.

    Attributes:
      imported: the modules that only it has.
      packages: what is installed in it.
      has_ours: whether this project is, too, without what it requires.
      is_beside: whether it sees the packages of the environment that runs this.
    """

    imported: tuple[str, ...]
    packages: tuple[str, ...]
    has_ours: bool = False
    is_beside: bool = False


ENVIRONMENTS = {
    "plain": Environment(
        imported=("torch", "grain"),
        packages=("torch==2.15.0", "grain==0.2.18", *_LIGHT),
        has_ours=True,
    ),
    "tfds": Environment(
        imported=("tensorflow_datasets",),
        packages=("tensorflow-datasets==4.9.10", "tensorflow==2.21.0"),
    ),
    "garden": Environment(imported=("official",), packages=("tf-models-official==2.20.0",)),
    "jax": Environment(
        imported=("jax",), packages=("jax==0.10.2", "jaxlib==0.10.2"), is_beside=True
    ),
}


def find_environment(text: str) -> str | None:
    """The environment that a block of Python needs; None for this project's own."""
    if 'KERAS_BACKEND"] = "jax"' in text:
        return "jax"
    for name, environment in ENVIRONMENTS.items():
        for module in environment.imported:
            if f"\nimport {module}" in f"\n{text}" or f"\nfrom {module}" in f"\n{text}":
                return name
    return None


def make_environment(name: str, build_dir: pathlib.Path) -> str:
    """Makes an environment, unless it is there.

    Args:
      name: one of `ENVIRONMENTS`.
      build_dir: a folder for all of them.

    Returns:
      The path of its Python.
    """
    environment, folder = ENVIRONMENTS[name], build_dir / name
    python, ready = folder / "bin" / "python", folder / ".ready"
    wanted = repr(environment)
    if ready.exists() and ready.read_text() == wanted:
        return str(python)
    print(f"making the environment {name} …", flush=True)
    uv = str(pathlib.Path(sys.prefix, "bin", "uv"))
    _run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
    install = [uv, "pip", "install", "--quiet", "--python", str(folder)]
    if environment.is_beside:
        (site,) = folder.glob("lib/python*/site-packages")
        own = next(path for path in sys.path if path.endswith("site-packages"))
        (site / "beside.pth").write_text(f"import site; site.addsitedir({own!r})\n")
        install.append("--no-deps")
    _run(*install, *environment.packages)
    if environment.has_ours:
        _run(*install, "--no-deps", "--editable", str(_ROOT))
    ready.write_text(wanted)
    return str(python)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
