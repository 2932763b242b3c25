"""Checks a Dataflow job's flags before anything is sent to Google's cloud."""

import os
import urllib.error
import urllib.request
from collections.abc import Mapping

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

# Without these, the job fails after minutes, or Beam creates a bucket of its own.
_NEEDED = {
    "project": "--project=ID, the Google Cloud project that runs and pays",
    "region": "--region=NAME, where the machines run, for example europe-west4",
}
# Any of these installs this project on the workers.
_CODE = ("sdk_container_image", "setup_file", "extra_package")
_BUCKETS = ("temp_location", "staging_location")
_TEMPLATE = "template_location"
_AUTOSCALING = ("NONE", "THROUGHPUT_BASED")
CONNECT_TIMEOUT_S = 5


def check_dataflow_flags(given: Mapping[str, str]) -> None:
    """Checks that the flags are enough for a job; contacts nothing.

    Args:
      given: Beam flags and their values, without the leading dashes.

    Raises:
      UserError: naming the flag that is missing or wrong.
    """
    for name, meaning in _NEEDED.items():
        if not given.get(name):
            raise UserError(f"DataflowRunner needs {meaning}.")
    _check_buckets(given)
    if not any(given.get(name) for name in _CODE):
        raise UserError(
            "DataflowRunner needs --sdk_container_image=REGISTRY/WORKER:TAG: its workers have no "
            "other way to get this project's code and libraries; kubeflow/README.md builds it."
        )
    _check_scaling(given)


def _check_buckets(given: Mapping[str, str]) -> None:
    """Checks where Beam puts the workers' files; a template for tests may stay on this machine."""
    named = {name: given[name] for name in _BUCKETS if given.get(name)}
    if not named:
        raise UserError(
            "DataflowRunner needs --temp_location=gs://BUCKET/FOLDER (or --staging_location): "
            "without it Beam would create a bucket of its own."
        )
    if "://" not in given.get(_TEMPLATE, "://"):
        return
    for name, uri in named.items():
        if not uri.startswith("gs://"):
            raise UserError(
                f"--{name}={uri}: Dataflow's machines read gs:// only; give gs://BUCKET/FOLDER."
            )


def _check_scaling(given: Mapping[str, str]) -> None:
    """Checks the number of machines."""
    counts = {}
    for name in ("num_workers", "max_num_workers"):
        value = given.get(name, "1")
        if not value.isdecimal() or int(value) < 1:
            raise UserError(f"--{name} must be a positive whole number, got {value!r}.")
        if name in given:
            counts[name] = int(value)
    if len(counts) == 2 and counts["num_workers"] > counts["max_num_workers"]:
        raise UserError(
            f"--num_workers={counts['num_workers']} must not exceed "
            f"--max_num_workers={counts['max_num_workers']}; raise the latter."
        )
    algorithm = given.get("autoscaling_algorithm", "NONE")
    if algorithm not in _AUTOSCALING:
        raise UserError(
            f"--autoscaling_algorithm must be one of {', '.join(_AUTOSCALING)}, got {algorithm!r}."
        )


def check_places(given: Mapping[str, str]) -> None:
    """Checks that the folders for the workers' files and for a template exist.

    Beam would retry for ten minutes to write to a folder or a store that is not there.

    Args:
      given: Beam flags and their values, without the leading dashes.

    Raises:
      UserError: naming the flag whose folder is missing, or the store that does not answer.
    """
    places = {name: given[name] for name in (*_BUCKETS, _TEMPLATE) if given.get(name)}
    for name, place in places.items():
        folder = os.path.dirname(place) or "." if name == _TEMPLATE else place
        if files.is_local(place) and not os.path.isdir(folder):
            raise UserError(f"--{name}={place}: there is no folder {folder!r}; make it.")
    uris = [place for place in places.values() if not files.is_local(place)]
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
    """Refuses paths on this machine, which Dataflow's machines cannot see.

    Raises:
      UserError: naming the option.
    """
    for name, path in paths.items():
        if files.is_local(path):
            raise UserError(
                f"--{name}={path}: Dataflow's machines cannot read this machine's folders; copy "
                "it to a bucket, and give its gs:// URI."
            )


def check_credentials(given: Mapping[str, str]) -> None:
    """Checks for credentials: without them Beam would fail later, with an unclear error.

    Args:
      given: Beam flags and their values, without the leading dashes.

    Raises:
      UserError: if Google's libraries, which have their own time limits, find none.
    """
    if "no_auth" in given:
        return
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        google.auth.default()
    except DefaultCredentialsError as error:
        raise UserError(
            "DataflowRunner finds no Google credentials; run `gcloud auth application-default "
            "login`, or set GOOGLE_APPLICATION_CREDENTIALS to a service account's key file."
        ) from error
