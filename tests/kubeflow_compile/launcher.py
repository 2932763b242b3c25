"""What Kubeflow's launcher does around a step's command with artifacts that are in a store.

Written after `downloadArtifacts`, `prepareOutputFolders`, `uploadOutputArtifacts` and
`LocalPathForURI` in kubeflow/pipelines' `backend/src/v2/component/launcher_v2.go`. Its folders are
at the disk's root; here, each step has a root of its own, as it has a pod of its own.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from image_pipeline.components import files
from tests.object_store.runs import read_tree

_RUN = "import sys; from image_pipeline.kubeflow.step import run_step; run_step(sys.argv[2:], {!r})"


class SharedDisk:
    """All steps see the same folders: nothing is copied."""

    environment: Mapping[str, str] = {}

    def begin(self, message: Mapping[str, Any], pod: pathlib.Path) -> None:
        """Before the step's command."""

    def change(self, command: Sequence[str], pod: pathlib.Path) -> list[str]:
        """The command."""
        return list(command)

    def end(self, message: Mapping[str, Any], pod: pathlib.Path) -> None:
        """After it."""


class ObjectStore(SharedDisk):
    """Artifacts are in an object store, which the environment names."""

    def __init__(self, environment: Mapping[str, str]):
        """Copies nothing yet: how many bytes of which step's inputs and outputs is in `copied`."""
        self.environment = environment
        self.copied: dict[tuple[str, str], int] = {}

    def begin(self, message: Mapping[str, Any], pod: pathlib.Path) -> None:
        """Copies inputs to the pod, and makes the folders that outputs' own folders are in."""
        for artifact, uri in _list_uris(message["inputs"]["artifacts"]):
            for name, content in read_tree(uri).items():
                path = _copy_of(uri, pod) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                self._count(artifact, pod, content)
        for _, uri in _list_uris(message["outputs"]["artifacts"]):
            _copy_of(uri, pod).parent.mkdir(parents=True, exist_ok=True)

    def change(self, command: Sequence[str], pod: pathlib.Path) -> list[str]:
        """The command with the pod's root in place of the disk's."""
        at = command.index("-m")
        assert command[at + 1] == "image_pipeline.kubeflow.step"
        return [*command[:at], "-c", _RUN.format(str(pod)), *command[at + 1 :]]

    def end(self, message: Mapping[str, Any], pod: pathlib.Path) -> None:
        """Copies what is in the outputs' folders to the store."""
        for artifact, uri in _list_uris(message["outputs"]["artifacts"]):
            copy = _copy_of(uri, pod)
            for path in (path for path in copy.rglob("*") if path.is_file()):
                content = path.read_bytes()
                files.write_file(files.join(uri, str(path.relative_to(copy))), content)
                self._count(artifact, pod, content)

    def _count(self, artifact: str, pod: pathlib.Path, content: bytes) -> None:
        key = (pod.parent.name, artifact)
        self.copied[key] = self.copied.get(key, 0) + len(content)


def _list_uris(artifacts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, listed in artifacts.items():
        yield from ((name, artifact["uri"]) for artifact in listed["artifacts"])


def _copy_of(uri: str, pod: pathlib.Path) -> pathlib.Path:
    scheme, _, path = uri.partition("://")
    return pod / scheme / path
