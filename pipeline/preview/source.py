"""What there is to preview in a folder: a data set, or a run with its own data set and options."""

import dataclasses
import json
from collections.abc import Sequence

from image_pipeline.components import files
from image_pipeline.components.dataset.manifest import (
    has_manifest,
    hash_manifest,
    read_whole_manifest,
)
from image_pipeline.components.dataset.paths import MANIFEST, in_split
from image_pipeline.components.errors import UserError
from image_pipeline.config import PipelineConfig, load_config
from image_pipeline.run_folder import DATA_SETS, METADATA, RunFolder
from image_pipeline.show.graph import find_graph, read_graph

_TRAINER = "tfx.components.trainer.component.Trainer"
# Groups of the configuration that the pipeline hands to the Trainer, and so to the metadata.
_STORED_GROUPS = ("view", "feeding", "training")


@dataclasses.dataclass(frozen=True)
class PreviewSource:
    """Where records come from.

    Attributes:
      data_dir: the data set's folder.
      graph_dir: the transform graph's folder; None where none belongs to it.
      run_dir: the output folder of the run; None for a data set alone.
    """

    data_dir: str
    graph_dir: str | None = None
    run_dir: str | None = None


def refuse_run(folder: str, command: str) -> None:
    """Of commands that take a data set: a run's folder may hold several, so none is chosen.

    Args:
      folder: that a person named.
      command: what to call with the data set's own folder.

    Raises:
      UserError: if it is the output folder of a run; the message names the latest data set in it.
    """
    if has_manifest(folder) or not files.exists(folder):
        return
    if found := RunFolder(folder).list_data_sets():
        raise UserError(
            f"{folder!r} is the folder of a run, not of a data set; for its latest data set write: "
            f"image-pipeline {command} {found[-1]}"
        )


def find_source(folder: str) -> PreviewSource:
    """Finds out whether a folder is a data set or a run, whose latest transform graph is taken.

    Raises:
      UserError: if it is neither.
    """
    if has_manifest(folder):
        return PreviewSource(folder.rstrip("/"))
    if not files.exists(folder):
        raise UserError(f"{folder!r} does not exist; give the --output of ingest or run.")
    data_sets = RunFolder(folder).list_data_sets()
    if not data_sets:
        raise UserError(
            f"{folder!r} holds neither a whole data set ({MANIFEST}) nor a run "
            f"({DATA_SETS}/<number>/{MANIFEST}); give the --output of ingest or run."
        )
    graph_dir = find_graph(folder).path
    analysed = read_graph(graph_dir)["manifests"]
    matching = [each for each in data_sets if hash_manifest(each) in analysed]
    if not matching:
        raise UserError(
            f"{graph_dir!r} must have been made of a data set in {folder}/{DATA_SETS}, but that "
            "is gone or was changed; run the pipeline again."
        )
    return PreviewSource(matching[-1], graph_dir, folder)


def read_config(
    source: PreviewSource, path: str | None, overrides: Sequence[str]
) -> PipelineConfig:
    """Reads the options: of a file, else those that a run was made with, else the defaults.

    Args:
      source: a data set, or a run.
      path: a YAML file or None.
      overrides: `key.key=value`; they win over all of these.

    Raises:
      UserError: if they are not valid, or do not fit the run's transform graph.
    """
    stored = [] if path or source.run_dir is None else _read_stored(source.run_dir)
    try:
        config = load_config(path, [*stored, *overrides])
    except UserError as error:
        if not stored:
            raise
        raise UserError(
            f"{error}\n(With the options that the run {source.run_dir} was made with: if another "
            "version of image-pipeline made it, give --config.)"
        ) from error
    if source.graph_dir is not None:
        _check_view(config, source.graph_dir)
    return config


def list_split(data_dir: str, split: str) -> str:
    """The pattern that matches a split's shards.

    Raises:
      UserError: if the data set has no such split.
    """
    splits = list(read_whole_manifest(data_dir).splits)
    if split not in splits:
        raise UserError(
            f"split must be one of {', '.join(splits)}, which {data_dir} has, got {split!r}."
        )
    return files.join(data_dir, in_split(split))


def _check_view(config: PipelineConfig, graph_dir: str) -> None:
    analysed = read_graph(graph_dir)["view"]
    asked = config.view.model_dump(mode="json")
    if asked != analysed:
        raise UserError(
            f"view must be what the run's transform graph was made for, {analysed}, got {asked}; "
            "leave view as it is, or give the data set's folder to look at other sizes."
        )


def _read_stored(run_dir: str) -> list[str]:
    """The options of a run as overrides, from what TFX's metadata says of its latest Trainer."""
    path = RunFolder(run_dir).metadata_path
    if not files.is_local(path) or not files.exists(path):
        raise UserError(
            f"{run_dir!r} must have {METADATA}, which says what the run's options were, but it is "
            "not there; give the options by --config."
        )
    configs = _read_trainer_configs(path)
    if not configs:
        raise UserError(
            f"{path!r} knows no Trainer, whose options would be previewed: the run ended before; "
            "give the options by --config."
        )
    stored = json.loads(configs[-1])
    return [f"{group}={json.dumps(stored[group])}" for group in _STORED_GROUPS]


def _read_trainer_configs(metadata_path: str) -> list[str]:
    """What each execution of the Trainer got as `custom_config`, in their order."""
    from ml_metadata.metadata_store import metadata_store
    from ml_metadata.proto import metadata_store_pb2

    connection = metadata_store_pb2.ConnectionConfig()
    connection.sqlite.filename_uri = metadata_path
    connection.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READONLY
    executions = metadata_store.MetadataStore(connection).get_executions_by_type(_TRAINER)
    executions = sorted(executions, key=lambda execution: execution.id)
    return [execution.custom_properties["custom_config"].string_value for execution in executions]
