"""Opens what the command line names, as a session."""

import dataclasses
from collections.abc import Sequence

from image_pipeline.browse.catalogue import Catalogue
from image_pipeline.browse.marks import Marks
from image_pipeline.browse.originals import Originals
from image_pipeline.browse.session import Session
from image_pipeline.browse.views import Views, ViewSettings
from image_pipeline.components.dataset.manifest import Manifest
from image_pipeline.components.feeding.analysis import read_graph
from image_pipeline.components.generators.own_rows import OWN_ROWS
from image_pipeline.components.labels.kinds import find_kind
from image_pipeline.components.sources.own_source import OWN_SOURCE
from image_pipeline.named_folder import Source, find_graph, find_whole_run
from image_pipeline.run.source_note import read_source
from image_pipeline.run_config import read_config
from image_pipeline.show.random_steps import describe_steps


@dataclasses.dataclass(frozen=True)
class Asked:
    """What was asked for on the command line.

    Attributes:
      data: the folder of a data set, or of a run.
      images: what it was ingested from; None for what ingest noted.
      graph: the folder of a transform graph, or of a run; None for the run's own.
      config_path: a YAML file.
      overrides: `key.key=value`.
      epochs: how many views of training are shown.
      seed: of training; None for that of the options.
      marks_path: the list of marks.
    """

    data: str
    images: str | None = None
    graph: str | None = None
    config_path: str | None = None
    overrides: Sequence[str] = ()
    epochs: int = 3
    seed: int | None = None
    marks_path: str = "marks.txt"


def open_session(asked: Asked) -> Session:
    """Opens a data set to look at.

    Raises:
      UserError: if there is none, it was changed, or an option does not fit it.
    """
    source = find_whole_run(asked.data)
    if source.graph_dir is None:
        source = dataclasses.replace(source, run=None)  # It has no options of training yet.
    settings = _choose_settings(asked, source)
    manifest = source.manifest
    catalogue = Catalogue(source.data_dir, manifest)
    images = asked.images or _find_noted(source.data_dir, manifest)
    return Session(
        title=asked.data,
        catalogue=catalogue,
        originals=Originals(source.data_dir, manifest, images),
        views=None if settings is None else Views(catalogue, settings),
        marks=Marks(asked.marks_path),
        steps=() if settings is None else tuple(describe_steps(settings.feeding.steps)),
        drawn=next(iter(find_kind(manifest.columns).moves), ""),
    )


def _find_noted(data_dir: str, manifest: Manifest) -> str | None:
    """What ingest noted as images, but no code: looking at others' data sets runs none."""
    noted = read_source(data_dir, manifest)
    runs_code = noted is not None and (OWN_SOURCE.matches(noted) or OWN_ROWS.matches(noted))
    return None if runs_code else noted


def _choose_settings(asked: Asked, source: Source) -> ViewSettings | None:
    """How views are made: by the run, the graph or the options; None if none of them is there."""
    overrides = list(asked.overrides)
    if asked.graph is not None:
        source = dataclasses.replace(source, graph_dir=find_graph(asked.graph)[0], run=None)
    if source.graph_dir is None and asked.config_path is None and not overrides:
        return None
    if source.graph_dir is not None and source.run is None and asked.config_path is None:
        overrides.insert(0, f"view={read_graph(source.graph_dir).view.model_dump_json()}")
    config = read_config(source, asked.config_path, overrides)
    seed = config.training.seed if asked.seed is None else asked.seed
    return ViewSettings(config.view, config.feeding, source.graph_dir, asked.epochs, seed)
