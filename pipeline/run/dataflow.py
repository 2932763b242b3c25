"""What a Dataflow job must be told: checked before anything is sent to Google's cloud."""

import os
import urllib.error
import urllib.request
from collections.abc import Mapping

from image_pipeline.components import files
from image_pipeline.components.errors import UserError

# Each of these, or the job fails after minutes, or Beam makes a bucket of its own.
_NEEDED = {
    "project": "--project=ID, the Google Cloud project that runs and pays",
    "region": "--region=NAME, where the machines stand, for example europe-west4",
}
# Any of these brings this project to the workers.
_CODE = ("sdk_container_image", "setup_file", "extra_package")
_BUCKETS = ("temp_location", "staging_location")
_TEMPLATE = "template_location"
_AUTOSCALING = ("NONE", "THROUGHPUT_BASED")
CONNECT_TIMEOUT_S = 5


def check_dataflow_flags(given: Mapping[str, str]) -> None:
    """What the flags say must be enough for a job; nothing is contacted.

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
            "other way to this project's code and libraries; kubeflow/README.md makes the image."
        )
    _check_scaling(given)


def _check_buckets(given: Mapping[str, str]) -> None:
    """Where Beam puts what the workers fetch; a template for tests may stay on this machine."""
    named = {name: given[name] for name in _BUCKETS if given.get(name)}
    if not named:
        raise UserError(
            "DataflowRunner needs --temp_location=gs://BUCKET/FOLDER (or --staging_location): "
            "without one Beam would make a bucket of its own."
        )
    if "://" not in given.get(_TEMPLATE, "://"):
        return
    for name, uri in named.items():
        if not uri.startswith("gs://"):
            raise UserError(
                f"--{name}={uri}: Dataflow's machines read gs:// only; give gs://BUCKET/FOLDER."
            )


def _check_scaling(given: Mapping[str, str]) -> None:
    """The number of machines."""
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
    """Where Beam puts what the workers fetch, and a template, must be there.

    Beam tries again and again to write to a folder or a store that is not there, for ten minutes.

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
    """Found out within seconds; Google's own client would go on asking."""
    url = os.environ.get("STORAGE_EMULATOR_HOST", "https://storage.googleapis.com")
    try:
        urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S).close()
    except urllib.error.HTTPError:  # It has answered.
        return
    except (OSError, ValueError) as error:
        raise UserError(
            f"Google's store does not answer at {url} within {CONNECT_TIMEOUT_S} s ({error}); the "
            "job's files are put there, so check the network."
        ) from error


def check_remote(**paths: str) -> None:
    """Dataflow's machines see none of this one's folders.

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
    """Someone must be logged in; Beam would go on anonymously, and fail later and unclearly.

    Args:
      given: Beam flags and their values, without the leading dashes.

    Raises:
      UserError: if Google's libraries, which have time limits of their own, find none.
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
