"""Checks a Dataflow job's flags before anything is sent to Google's cloud."""

import itertools
import os
import pathlib
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, TestOptions
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

from image_pipeline.components import files
from image_pipeline.components.beam.flags import find_given, parse_flags
from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import find_line
from image_pipeline.engine_options import DataflowOptions

# Any of these installs this project on the workers.
_CODE = ("sdk_container_image", "setup_file", "extra_packages")
_BUCKETS = ("temp_location", "staging_location")
_TEMPLATE = "template_location"
_SENT_FILES = ("setup_file", "requirements_file")
CONNECT_TIMEOUT_S = 5


def check_dataflow(beam_args: Sequence[str]) -> None:
    """Checks all that a job needs before it can be sent: flags, credentials and folders.

    Raises:
      UserError: naming what is wrong or missing.
    """
    check_dataflow_flags(beam_args)
    given = find_given(beam_args)
    check_credentials(given)
    check_places(given)


def add_dataflow_options(beam_args: Sequence[str], options: DataflowOptions) -> list[str]:
    """Adds the configuration's options to a Dataflow job's flags, which go before them.

    Raises:
      UserError: for a flag that Beam does not know, or a value of a wrong type.
    """
    given = find_given(beam_args)
    added = [flags for name, flags in options.flags().items() if name not in given]
    return [*beam_args, *itertools.chain.from_iterable(added)]


def check_dataflow_flags(beam_args: Sequence[str]) -> None:
    """Checks that the flags are enough for a job; contacts nothing.

    Raises:
      UserError: in Beam's words, or naming the flag that is missing.
    """
    given = find_given(beam_args)
    if not any(given.get(name) for name in _BUCKETS):
        raise UserError(
            "DataflowRunner needs --temp_location=gs://BUCKET/FOLDER (or --staging_location): "
            "without it Beam would create a bucket of its own."
        )
    if not any(given.get(name) for name in _CODE):
        raise UserError(
            "DataflowRunner needs --sdk_container_image=REGISTRY/WORKER:TAG: its workers have no "
            "other way to get this project's code and libraries; kubeflow/README.md builds it."
        )
    problems = _ask_beam(parse_flags(beam_args))
    if problems:
        raise UserError(
            f"Beam rejects the Dataflow job's options: {'; '.join(problems)}; they are set under "
            "dataflow: in the configuration, or by flags after a separate --."
        )


def _ask_beam(options: PipelineOptions) -> list[str]:
    """What Beam's own validator says."""
    validator = PipelineOptionsValidator(options, DataflowRunner())
    cloud = options.view_as(GoogleCloudOptions)
    problems = []
    if validator.is_service_runner():
        # Where one folder is wrong, `validate` takes the other one, and says nothing.
        for name in filter(lambda name: getattr(cloud, name), _BUCKETS):
            problems += validator.validate_gcs_path(cloud, name)
    if not problems:
        options.view_as(TestOptions).dry_run = True  # Otherwise it asks Google about the buckets.
        problems = validator.validate()
    return [problem.removesuffix(".") for problem in problems]


def check_places(given: Mapping[str, Any]) -> None:
    """Checks that what is sent exists, and the folders for the workers' files and a template.

    Beam would retry for ten minutes to write to a folder or a store that is not there.

    Raises:
      UserError: naming the flag whose path is missing, or the store that does not answer.
    """
    places = {name: given[name] for name in (*_BUCKETS, _TEMPLATE) if given.get(name)}
    for name, path in places.items():
        folder = os.path.dirname(path) or "." if name == _TEMPLATE else path
        if files.is_local(path) and not os.path.isdir(folder):
            raise UserError(f"--{name}={path}: there is no folder {folder!r}; make it.")
    if os.path.isdir(template := places.get(_TEMPLATE, "")):
        raise UserError(f"--{_TEMPLATE}={template} must be a file, not a folder; add a name.")
    for name in _SENT_FILES:
        if name in given and files.is_local(given[name]) and not os.path.isfile(given[name]):
            raise UserError(f"--{name}={given[name]}: there is no such file; check the path.")
    uris = [path for path in places.values() if not files.is_local(path)]
    if uris:
        _check_google_answers()
    for bucket in dict.fromkeys("/".join(uri.split("/")[:3]) for uri in uris):
        files.check_answers(bucket)


def _check_google_answers() -> None:
    """Fails within seconds, where Google's own client would keep trying."""
    url = os.environ.get("STORAGE_EMULATOR_HOST", "https://storage.googleapis.com")
    try:
        urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S).close()
    except urllib.error.HTTPError:  # Any answer will do.
        return
    except (OSError, ValueError) as error:
        raise UserError(
            f"Google's store does not answer at {url} within {CONNECT_TIMEOUT_S} s ({error}); the "
            "job's files are put there, so check the network."
        ) from error


def check_remote(**paths: str) -> None:
    """Refuses paths on this machine, which Dataflow's machines cannot see; names of code are none.

    Raises:
      UserError: naming the option.
    """
    for name, path in paths.items():
        if files.is_local(path) and not path.startswith(files.CODE_PREFIXES):
            raise UserError(
                f"--{name}={path}: Dataflow's machines cannot read this machine's folders; copy "
                "it to a bucket, and give its gs:// URI."
            )


def check_credentials(given: Mapping[str, Any]) -> None:
    """Checks for credentials: without them Beam would fail later, with an unclear error.

    Raises:
      UserError: if Google's libraries, which have their own time limits, find none.
    """
    if "no_auth" in given:
        return
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        google.auth.default()
    except (DefaultCredentialsError, OSError) as error:
        raise UserError(
            f"DataflowRunner finds no Google credentials ({find_line(str(error))}); run `gcloud "
            "auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a service "
            "account's key file."
        ) from error


def find_own_modules(images_dir: str | None, preprocessing_fn: str | None) -> dict[str, str]:
    """The top modules that are not this project's, by what names them.

    A job names them, and carries no code: Beam pickles a module's functions by their names.

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
    return {name: top for name, top in tops.items() if top != "image_pipeline"}


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
            f"{name}: its module {top!r} is not in any package that the workers get; add it "
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
