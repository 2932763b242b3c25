"""The options that a run was made with, from TFX's metadata."""

import json
from collections.abc import Sequence
from typing import Any

from image_pipeline.components import files
from image_pipeline.components.errors import UserError
from image_pipeline.components.extras import need
from image_pipeline.components.feeding.analysis import read_graph
from image_pipeline.components.json_files import check_json
from image_pipeline.components.json_text import parse_own
from image_pipeline.config import PipelineConfig, load_config
from image_pipeline.init.choose_steps import complete_steps_for
from image_pipeline.named_folder import Source
from image_pipeline.run_folder import METADATA, RunFolder
from image_pipeline.tfx_metadata import read_metadata

_TRAINER = "tfx.components.trainer.component.Trainer"
# The groups that the pipeline passes to the Trainer, and so to the metadata.
_STORED_GROUPS = ("view", "feeding", "training")


def read_config(
    source: Source, path: str | None = None, overrides: Sequence[str] = ()
) -> PipelineConfig:
    """Reads the options: from a file, else those that a run was made with, else the defaults.

    Random steps that these do not name are those that a run would choose for the data set.

    Args:
      source: a data set, or a run.
      path: a YAML file or None.
      overrides: `key.key=value`; they win over all of these.

    Raises:
      UserError: if they are not valid, or do not fit the run's transform graph.
    """
    stored = (
        [] if path or source.run is None else _read_stored(source.run, source.artifact("model"))
    )
    if stored:
        _check_stored(stored, source.folder)
    config = load_config(path, [*stored, *overrides])
    if not stored:  # Of a run, what is not named was not taken.
        config, _ = complete_steps_for(config, source.data_dir, source.manifest)
    if source.graph_dir is not None:
        _check_view(config, source.graph_dir)
    return config


def find_options(source: Source) -> PipelineConfig | UserError | None:
    """The options of a run, or why they are not known; None of a data set alone."""
    try:
        return None if source.run is None else read_config(source)
    except UserError as error:
        return error


def _check_stored(stored: Sequence[str], folder: str) -> None:
    """Checks a run's own options by themselves: what the user adds has errors of its own."""
    try:
        load_config(None, stored)
    except UserError as error:
        raise UserError(
            f"{error}\n(These are the options that the run {folder} was made with; if another "
            "version of image-pipeline made it, give --config.)"
        ) from error


def dump_stored(config: PipelineConfig) -> dict[str, Any]:
    """The groups of options that a run keeps, for machines."""
    return config.model_dump(mode="json", include=set(_STORED_GROUPS))


def _check_view(config: PipelineConfig, graph_dir: str) -> None:
    analysed = read_graph(graph_dir).view
    if config.view != analysed:
        raise UserError(
            f"view must be what the run's transform graph was made for, {analysed.model_dump()}, "
            f"got {config.view.model_dump()}; "
            "leave view as it is, or give the data set's folder to look at other sizes."
        )


def _read_stored(run: RunFolder, model_dir: str | None) -> list[str]:
    """The options of a run as overrides, from what TFX's metadata says of its Trainer.

    Of the one that made `model_dir`, by its number; without one, of the latest.
    """
    path = run.metadata_path
    if not files.is_local(path) or not files.exists(path):
        raise UserError(
            f"{run.path!r} must have {METADATA}, which has the run's options, but it is "
            "missing; give the options with --config."
        )
    configs = _read_trainer_configs(path)
    if not configs:
        raise UserError(
            f"{path!r} has no Trainer, whose options would be used: the run ended before it; "
            "give the options with --config."
        )
    try:
        number = (model_dir or "").rpartition("/")[2]
        config = configs.get(number, list(configs.values())[-1])
        passed = check_json(parse_own(config.encode()), dict[str, Any])
        groups = {group: passed.get(group, {}) for group in _STORED_GROUPS}
        stored = check_json(groups, dict[str, dict[str, Any]])
    except ValueError as error:
        raise UserError(
            f"{path!r} is damaged: the options of its latest Trainer cannot be read ({error}); "
            "give the options with --config."
        ) from error
    return [f"{group}={json.dumps(options)}" for group, options in stored.items()]


def _read_trainer_configs(metadata_path: str) -> dict[str, str]:
    """The `custom_config` of each execution of the Trainer by its number, in order."""
    need("tfx", "Reading the options of a run")
    found = read_metadata(metadata_path, lambda store: store.get_executions_by_type(_TRAINER))
    executions = sorted(found, key=lambda execution: execution.id)
    return {
        str(each.id): each.custom_properties["custom_config"].string_value for each in executions
    }
