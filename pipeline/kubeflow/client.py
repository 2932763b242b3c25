"""A connection to Kubeflow Pipelines, made by kfp's own client; its errors in a sentence.

Who asks, and where, is found as kfp finds it: its environment variables, `~/.config/kfp`, a pod's
service account and `kubeconfig`.
"""

import contextlib
import io
import json
import os
import socket
import urllib.parse
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import find_line

if TYPE_CHECKING:
    import kfp

HOST_VARIABLES = ("KF_PIPELINES_ENDPOINT", "KFP_ENDPOINT", "KFP_API_URL")
"""Where the address may be: kfp's client reads the first, its command line the second."""
TOKEN_VARIABLE = "KFP_EXISTING_TOKEN"
"""As kfp's command line has it. A token on a command line would be seen by others."""
_CONNECT_S, _ANSWER_S = 10, 60
_REFUSALS = (400, 401, 403, 404)


def find_host(host: str | None) -> str | None:
    """The API's address; None if kfp is to look for it in a pod or in `kubeconfig`.

    Raises:
      UserError: if it would find nothing there.
    """
    given = [host, *map(os.environ.get, HOST_VARIABLES)]
    if found := next(filter(None, given), None):
        return (found if "://" in found else f"https://{found}").rstrip("/")
    config = os.environ.get("KUBECONFIG", os.path.expanduser("~/.kube/config"))
    if "KUBERNETES_SERVICE_HOST" in os.environ or os.path.exists(config.split(os.pathsep)[0]):
        return None
    raise UserError(
        f"submit needs the address of Kubeflow's API; give --host, or set {HOST_VARIABLES[0]}."
    )


def connect(host: str | None, namespace: str | None) -> "kfp.Client":
    """Connects, and asks for a sign of life.

    Args:
      host: as `find_host` gives it.
      namespace: of the person's own, where Kubeflow has many users.

    Raises:
      UserError: if there is no answer, or access is refused.
    """
    if host is not None:
        _check_listens(host)
    import kfp
    import urllib3

    class Client(kfp.Client):
        """Asks once: kfp's own asks five times, and each time urllib3 waits for four answers."""

        def _load_config(self, *args, **kwargs):
            config = super()._load_config(*args, **kwargs)
            config.retries = urllib3.Retry(connect=2, read=0)
            return config

        def get_kfp_healthz(self, sleep_duration: int = 0):
            return self.healthzs.healthz_service_get_healthz()

    token = os.environ.get(TOKEN_VARIABLE)
    authority = os.environ.get("SSL_CERT_FILE")
    with explain_errors(host, "connect", _CONNECT_S), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = Client(
            host,
            namespace=namespace or "kubeflow",
            existing_token=token,
            ssl_ca_cert=authority,
        )
        answer = client.healthzs.healthz_service_get_healthz(_preload_content=False)
        if "json" not in answer.headers.get("content-type", ""):
            raise UserError(
                f"{host} answers, but not as Kubeflow's API does: perhaps with a login page; give "
                f"a token in {TOKEN_VARIABLE}, or check --host."
            )
    return client


def _check_listens(host: str) -> None:
    """Tries the port: kfp's client would try four times, each until the system gives up."""
    try:
        address = urllib.parse.urlsplit(host)
        port = address.port or {"http": 80}.get(address.scheme, 443)
        socket.create_connection((address.hostname or "", port), _CONNECT_S).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"Kubeflow's API at {host} cannot be reached: {reason}; check --host, or whether a "
            "port-forward is still open."
        ) from error


class RefusedError(UserError):
    """The server refuses what it is asked, and would again: nobody needs to wait."""


@contextlib.contextmanager
def explain_errors(
    host: str | None, task: str, longest_wait_s: float = _ANSWER_S
) -> Iterator[None]:
    """Says in a sentence what kfp's client raises, keeps it from printing, and limits its waits.

    Args:
      host: as `find_host` gives it.
      task: what is tried, a verb and its object.
      longest_wait_s: seconds for the beginning of each answer.

    Raises:
      RefusedError: if the server refuses.
      UserError: if it fails, or does not answer.
    """
    import kfp_server_api
    import urllib3.exceptions

    server = host or "the cluster"
    try:
        with contextlib.redirect_stdout(io.StringIO()), _limit_waits(longest_wait_s):
            yield
    except kfp_server_api.ApiException as error:
        kind = RefusedError if error.status in _REFUSALS else UserError
        raise kind(_describe(error.status, _read_message(error), server, task)) from error
    except urllib3.exceptions.HTTPError as error:
        reason = find_line(str(getattr(error, "reason", error)))
        raise UserError(f"Cannot {task}: {server} did not answer: {reason}; try again.") from error
    except (ValueError, TimeoutError) as error:  # What kfp's client itself raises.
        raise UserError(f"Cannot {task} at {server}: {find_line(str(error))}") from error


@contextlib.contextmanager
def _limit_waits(longest_wait_s: float) -> Iterator[None]:
    """Gives a time-out to what kfp asks: it gives none, which urllib3 takes for no end at all."""
    from kfp_server_api.rest import RESTClientObject

    request = RESTClientObject.request

    def request_in_time(*args: Any, **kwargs: Any) -> Any:
        limit = kwargs.pop("_request_timeout", None) or longest_wait_s
        return request(*args, _request_timeout=limit, **kwargs)

    RESTClientObject.request = request_in_time
    try:
        yield
    finally:
        RESTClientObject.request = request


def _describe(status: int, message: str, server: str, task: str) -> str:
    """What an answer means that is not a success."""
    if status in (401, 403):
        return (
            f"Cannot {task}: {server} refuses access (HTTP {status}: {message}); give a token in "
            f"{TOKEN_VARIABLE}, and your namespace with --namespace."
        )
    if status == 404 and task == "connect":
        return f"{server} has no Kubeflow Pipelines API (v2beta1) there; check --host."
    return f"Cannot {task}: {server} answers HTTP {status}: {message}"


def _read_message(error: Exception) -> str:
    """The server's own words, which are in JSON if they are Kubeflow's."""
    body = getattr(error, "body", None) or ""
    try:
        reply = json.loads(body)
    except ValueError:
        return str(getattr(error, "reason", "")) or "no reason given"
    if not isinstance(reply, dict):
        return str(getattr(error, "reason", ""))
    return find_line(str(reply.get("error_message") or reply.get("message") or reply.get("error")))
