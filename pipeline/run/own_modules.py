"""Whether a person's own modules reach Dataflow's machines, as far as it can be seen from here.

A job names them, and carries no code: Beam pickles a module's functions by their names.
"""

import pathlib
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

_OURS = "image_pipeline"


def find_own_modules(images_dir: str | None, preprocessing_fn: str | None) -> dict[str, str]:
    """The top modules that are not this project's, by what names them.

    Args:
      images_dir: perhaps names a person's code, as `source:MODULE:FUNCTION` does.
      preprocessing_fn: a dotted path; None where nothing is analysed.
    """
    named = {}
    if images_dir is not None and images_dir.startswith(files.CODE_PREFIXES):
        named[f"--images={images_dir}"] = images_dir.partition(":")[2]
    if preprocessing_fn is not None:
        named[f"transform.preprocessing_fn={preprocessing_fn}"] = preprocessing_fn
    tops = {name: path.partition(":")[0].partition(".")[0] for name, path in named.items()}
    return {name: top for name, top in tops.items() if top != _OURS}


def check_own_modules(named: Mapping[str, str], given: Mapping[str, Any]) -> list[str]:
    """Looks for the modules in the packages that the flags send to the workers.

    Args:
      named: of `find_own_modules`.
      given: what the job's flags set, by the names that Beam's options have.

    Returns:
      The modules that the workers' image must have: nobody can look into it from here.

    Raises:
      UserError: if no image is given that might have a module which no package has.
    """
    sent = {name for path in given.get("extra_packages") or [] for name in _list_archive(path)}
    if given.get("setup_file"):
        sent |= _list_folder(pathlib.Path(given["setup_file"]).parent)
    missing = {name: top for name, top in named.items() if top not in sent}
    if missing and not given.get("sdk_container_image"):
        name, top = next(iter(missing.items()))
        raise UserError(
            f"{name}: its module {top!r} is in none of the packages that the workers get; add it "
            "by --extra_package=PACKAGE.tar.gz, or give an image that has it, as "
            "--sdk_container_image."
        )
    return sorted(set(missing.values()))


def _list_archive(path: str) -> set[str]:
    """The names of the modules in a source distribution or a wheel."""
    try:
        with files.open_input(path) as file:
            if path.endswith((".whl", ".zip")):
                names = zipfile.ZipFile(file).namelist()
            else:
                with tarfile.open(fileobj=file) as archive:
                    names = archive.getnames()
    except (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as error:
        reason = str(error).partition("\n")[0].removesuffix(":")
        raise UserError(f"--extra_package={path} cannot be read: {reason}; check it.") from error
    return _name_modules([pathlib.PurePosixPath(name) for name in names])


def _list_folder(folder: pathlib.Path) -> set[str]:
    """The names of the modules beside a setup.py."""
    found = [*folder.glob("*.py"), *folder.glob("*/__init__.py"), *folder.glob("src/*.py")]
    found += folder.glob("src/*/__init__.py")
    return _name_modules([path.relative_to(folder) for path in found])


def _name_modules(paths: Sequence[pathlib.PurePath]) -> set[str]:
    """`photos` for NAME-1.0/src/photos/__init__.py or photos.py."""
    modules = [path for path in paths if path.suffix == ".py"]
    packages = {path.parent.name for path in modules if path.name == "__init__.py"}
    return packages | {path.stem for path in modules}
