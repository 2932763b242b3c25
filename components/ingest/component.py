"""ImageExampleGen: ingest's TFX contract, and which of its outputs are used together."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2
from tfx import types
from tfx.components.example_gen import utils
from tfx.components.util import examples_utils
from tfx.dsl.components.base import (
    base_beam_component,
    base_beam_executor,
    executor_spec,
)
from tfx.dsl.components.common import resolver
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, channel_utils, component_spec, standard_artifacts

from image_pipeline.components import files
from image_pipeline.components.beam.identifying_driver import IdentifyingDriver
from image_pipeline.components.dataset.complete import find_complete
from image_pipeline.components.dataset.paths import WORK
from image_pipeline.components.dataset.pointer import make_pointer, write_pointer
from image_pipeline.components.errors import UserError
from image_pipeline.components.function_version import SOURCES, code_version
from image_pipeline.components.ingest.earlier import find_latest
from image_pipeline.components.ingest.run import run_ingest
from image_pipeline.components.meaning.listing import check_listing, list_images, offer, take
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.options import read_options
from image_pipeline.components.sources.span_pattern import LATEST, SpanFolder, choose_span, has_span

# Names the images' folder or pattern and the options: spans of one name are used together.
_SERIES_PROPERTY = "ingest_series"


class ImageExampleGenExecutor(base_beam_executor.BaseBeamExecutor):
    """Ingests into the examples artifact."""

    def Do(self, input_dict: dict, output_dict: dict, exec_properties: dict[str, Any]) -> None:
        """Unpacks the artifact and the parameters and ingests."""
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        exec_properties = _identify_images(exec_properties)  # Where no driver has.
        options = IngestOptions.model_validate_json(exec_properties["options"])
        folder = _find_folder(exec_properties)
        resolved = exec_properties | {"images_dir": folder.path}
        data_dir = find_data_dir(examples.uri, resolved)
        work_dir = find_work_dir(examples.uri, resolved)
        # What has a place of its own, named by all that it depends on, need not be written again.
        manifest = find_complete(data_dir) if data_dir != examples.uri else None
        if manifest is None:
            listing = take(folder.path, options, exec_properties["fingerprint"])
            # Beside it are the data sets of earlier runs, whose images may be the same.
            manifest = run_ingest(
                *(folder.path, data_dir, work_dir, listing.options, self._make_beam_pipeline),
                listing=listing,
                earlier=find_latest(data_dir.rstrip("/").rpartition("/")[0]),
            )
        examples.split_names = artifact_utils.encode_split_names(list(manifest.splits))
        examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
        # What was ingested, as TFX's own ExampleGens describe it for its resolvers.
        series = _hash({name: exec_properties[name] for name in ("images_dir", "options")})
        described: dict[str, int | str | None] = {
            _SERIES_PROPERTY: series,
            utils.FINGERPRINT_PROPERTY_NAME: exec_properties["fingerprint"],
            utils.SPAN_PROPERTY_NAME: folder.span,
            utils.VERSION_PROPERTY_NAME: folder.version,
        }
        if data_dir != examples.uri:  # A pointer is left there, and its text where engines show it.
            pointer = make_pointer(data_dir, manifest, folder.span, folder.version)
            write_pointer(examples.uri, pointer)
            described |= pointer.properties()
        for name, value in described.items():
            if isinstance(value, int):
                examples.set_int_custom_property(name, value)
            elif value is not None:
                examples.set_string_custom_property(name, value)


class ImageExampleGenDriver(IdentifyingDriver):
    """Identifies the images before TFX looks into its cache, if the pipeline does not."""

    def identify(self, exec_properties: dict[str, Any]) -> dict[str, Any]:
        """The parameters of this run."""
        return _identify_images(exec_properties)


def _identify_images(exec_properties: dict[str, Any]) -> dict[str, Any]:
    """The parameters, with the fingerprint of the folder and the number of its span filled in."""
    if exec_properties["fingerprint"]:
        return exec_properties
    folder = _find_folder(exec_properties)
    options = IngestOptions.model_validate_json(exec_properties["options"])
    listing = check_listing(list_images(folder.path, options))
    offer(listing, options)
    found = {"fingerprint": listing.fingerprint}
    if has_span(exec_properties["images_dir"]):
        found["span"] = str(folder.span)  # The latest at present, whose fingerprint it is.
    return exec_properties | found


def _find_folder(exec_properties: dict[str, Any]) -> SpanFolder:
    """The folder of images; for a pattern, the span's, which may be the latest.

    Found here, not in a driver before the step: open-source Kubeflow runs no TFX driver.
    """
    images_dir = exec_properties["images_dir"]
    if not has_span(images_dir):
        if exec_properties["span"] != LATEST:
            raise UserError(
                f"The span {exec_properties['span']!r} is chosen from a pattern such as "
                f"day-{{SPAN}}, but the images {images_dir!r} are one folder; leave out the span, "
                "or give a pattern."
            )
        return SpanFolder(0, None, images_dir)
    return choose_span(images_dir, exec_properties["span"])


def find_data_dir(examples_uri: str, exec_properties: dict[str, Any]) -> str:
    """Where the data set is written: the output's folder, or a place of its own in a store.

    Args:
      examples_uri: the output's folder.
      exec_properties: the component's parameters.
    """
    data_root = exec_properties["data_root"]
    return files.join(data_root, _hash(exec_properties)) if data_root else examples_uri


def find_work_dir(examples_uri: str, exec_properties: dict[str, Any]) -> str:
    """The working folder: the same one for the same images and options, to go on after a failure.

    Args:
      examples_uri: the output's folder. Beside it are those of all executions, if the pipeline
        names no other place.
      exec_properties: the component's parameters.
    """
    folder, named = exec_properties["work_root"], _hash(exec_properties)
    if folder:
        return files.join(folder, named)
    return files.join(examples_uri.rstrip("/").rpartition("/")[0], f"{WORK}-{named}")


def _hash(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


class ImageExampleGenSpec(component_spec.ComponentSpec):
    """Parameters and outputs of ImageExampleGen."""

    PARAMETERS = {  # noqa: RUF012  (TFX's own way to declare them)
        "images_dir": component_spec.ExecutionParameter(type=str),
        "options": component_spec.ExecutionParameter(type=str),
        "fingerprint": component_spec.ExecutionParameter(type=str),
        "span": component_spec.ExecutionParameter(type=str),
        "work_root": component_spec.ExecutionParameter(type=str),
        "data_root": component_spec.ExecutionParameter(type=str),
        "code_version": component_spec.ExecutionParameter(type=str),
    }
    INPUTS: dict = {}  # noqa: RUF012
    OUTPUTS = {  # noqa: RUF012
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)
    }


class ImageExampleGen(base_beam_component.BaseBeamComponent):
    """Brings a folder of raw images into TFX as shuffled, sharded, uncompressed TFRecords."""

    SPEC_CLASS = ImageExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(ImageExampleGenExecutor)
    DRIVER_CLASS = ImageExampleGenDriver

    def __init__(
        self,
        images_dir: str | os.PathLike[str] | data_types.RuntimeParameter,
        options: IngestOptions | Mapping[str, Any] | None = None,
        fingerprint: str | data_types.RuntimeParameter = "",
        span: int | str | data_types.RuntimeParameter = LATEST,
        work_root: str | os.PathLike[str] = "",
        data_root: str | os.PathLike[str] = "",
    ):
        """Declares the component.

        Args:
          images_dir: the folder of images, or its URI; or a pattern of spans (`span_pattern`).
          options: of ingest, or some of them by their keys; None for its defaults.
          fingerprint: of the images (`sources.folder.fingerprint_refs`). TFX reuses the outputs of
            an earlier run with the same parameters, so a changed folder must change one of them. If
            it is empty, each run lists the folder and computes it: before TFX looks for such
            outputs, on engines that run TFX's drivers (LocalDagRunner does); on others, after.
          span: which of a pattern's spans is ingested: its number, its date or `LATEST`.
          work_root: the folder of working folders, where an execution goes on that failed in
            another run or on another machine; empty for beside the outputs.
          data_root: the folder of data sets, where engines copy the outputs' folders to and from
            their machines: these then hold a pointer only. Empty for in the outputs' folders.

        Raises:
          UserError: if an option is unknown or wrong.
        """
        super().__init__(
            ImageExampleGenSpec(
                images_dir=files.as_text(images_dir),
                options=read_options(IngestOptions, "ingest", options).to_json(),
                fingerprint=fingerprint,
                span=str(span) if isinstance(span, int) else span,
                work_root=files.as_text(work_root),
                data_root=files.as_text(data_root),
                code_version=code_version("images", "ingest", "meaning", *SOURCES),
                examples=channel_utils.as_channel([standard_artifacts.Examples()]),
            )
        )


class LatestSpans(resolver.ResolverStrategy):
    """The latest spans up to a given one, each with the data set that ingest made last.

    TFX's own `SpanRangeStrategy` would take every data set that a span ever had: after a change of
    options or images, its records would come twice. Data sets from runs with other options or
    another pattern are left out.
    """

    def __init__(self, newest: int, count: int):
        """Takes the number of the newest span, and the most spans to use; 0 for all."""
        self._newest = newest
        self._count = count

    def resolve_artifacts(
        self, store: metadata_store.MetadataStore, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]] | None:
        """Chooses from all data sets by span, the oldest first.

        Returns:
          As `input_dict`; None, as TFX wants it, if there is no data set.
        """
        chosen = {name: self._choose(store, given) for name, given in input_dict.items()}
        return chosen if all(chosen.values()) else None

    def _choose(
        self, store: metadata_store.MetadataStore, artifacts: Sequence[types.Artifact]
    ) -> list[types.Artifact]:
        # Each artifact's last execution, by number: TFX's cache may return old artifacts.
        last_given = {artifact.id: 0 for artifact in artifacts}
        for event in store.get_events_by_artifact_ids(list(last_given)):
            if event.type == metadata_store_pb2.Event.OUTPUT:
                known = last_given[event.artifact_id]
                last_given[event.artifact_id] = max(known, event.execution_id)
        by_span: dict[int, types.Artifact] = {}
        for artifact in sorted(artifacts, key=lambda each: last_given[each.id]):
            span = artifact.get_int_custom_property(utils.SPAN_PROPERTY_NAME)
            if span <= self._newest:
                by_span[span] = artifact
        if not by_span:
            return []
        spans = sorted(by_span)
        series = _series_of(by_span[spans[-1]])
        alike = [by_span[span] for span in spans if _series_of(by_span[span]) == series]
        return alike[-self._count :]


def _series_of(artifact: types.Artifact) -> str:
    return artifact.get_string_custom_property(_SERIES_PROPERTY)
