"""Gathers every figure of a report, with a line for each that the data set or run lacks."""

from typing import Any

from image_pipeline.components.dataset.changes import find_changes
from image_pipeline.components.dataset.licences import USUAL
from image_pipeline.components.errors import UserError
from image_pipeline.components.extras import need
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.labels.kinds import find_kind
from image_pipeline.config import PipelineConfig
from image_pipeline.named_folder import NOT_A_RUN, Source
from image_pipeline.report.absent import Absent
from image_pipeline.report.classes import (
    choose_samples,
    describe_books,
    describe_classes,
    describe_shards,
)
from image_pipeline.report.data_set import DataSet
from image_pipeline.report.difference import compare, describe_versions, read_anomalies
from image_pipeline.report.evaluation import describe_evaluation, find_outliers
from image_pipeline.report.label_tables import describe_labels
from image_pipeline.report.notices import list_notices
from image_pipeline.report.pixels import describe_pixels, measure_images
from image_pipeline.report.problems import (
    check_leakage,
    describe_duplicates,
    describe_near_duplicates,
    describe_quarantine,
    find_look_alikes,
)
from image_pipeline.report.shapes import describe_licences, describe_shapes
from image_pipeline.report.shuffle import describe_shuffle


def gather_figures(
    source: Source,
    data: DataSet,
    options: PipelineConfig | UserError | None = None,
    other: Source | None = None,
) -> dict[str, Any]:
    """Computes everything that a report shows, except pictures.

    Returns:
      A dict for `to_json`: a figure for each section, None for one without data, and `absent`: why,
      by the section's name. Images are named by their `row` of the index.
    """
    absent = Absent()
    config = options if isinstance(options, PipelineConfig) else None
    if isinstance(options, UserError):
        absent["options"] = f"The run's options are not known: {options}"

    # The data set: from its manifest and lists, its index, and the pixels of a sample.
    manifest, data_dir = source.manifest, source.data_dir
    kind = find_kind(manifest.columns)
    tried = measure_images(data)
    measured = [each for each in tried if each is not None]
    if manifest.books.near_duplicates is not None:
        alike = describe_near_duplicates(data_dir, data)
    else:
        alike = find_look_alikes(measured, data)
    figures: dict[str, Any] = {
        "folder": source.folder,
        "kind": "data set" if source.run is None else "run",
        "understood": list(manifest.options.get("understood", ())),
        **{"label_kind": kind.name, "another": kind.another},
        "books": describe_books(manifest),
        "classes": describe_classes(manifest.books.classes),
        **describe_labels(manifest, data),
        "shapes": describe_shapes(data),
        "pixels": describe_pixels(data, tried),
        "samples": choose_samples(data),
        "quarantine": describe_quarantine(data_dir, manifest.books.quarantine_reasons),
        "duplicates": describe_duplicates(data_dir, data),
        "near_duplicates": alike,
        "outliers": find_outliers(measured, data),
        "leakage": check_leakage(data_dir, manifest, data, alike),
        "shards": describe_shards(manifest),
        "licences": describe_licences(manifest, data),
    }
    if figures["licences"] is None:
        absent["licences"] = (
            f"No column of the data has licences: none is called {USUAL}; name one by "
            "ingest.columns={license: …}."
        )
    feeding, seed = FeedingOptions(), 0
    if config is not None:
        feeding, seed = config.feeding, config.training.seed
    figures["shuffle"] = absent.ask(lambda: describe_shuffle(data, feeding, seed), "shuffle")
    if figures["shuffle"] is None:
        absent.setdefault("shuffle", "There are fewer than two records to train on.")

    # The run: what its components wrote, what the doctor found last, the runs before it.
    graph = absent.ask(source.read_graph, "views")
    figures |= {
        "anomalies": absent.ask(
            lambda: read_anomalies(source.find_artifact("anomalies")), "anomalies"
        ),
        "training": absent.ask(source.read_history, "training"),
        "statistics": graph and graph.statistics,
        **describe_evaluation(source, data, absent),
        **dict.fromkeys(("speed", "history")),
    }
    if source.run is None:
        absent |= dict.fromkeys(("speed", "history"), NOT_A_RUN)
    else:
        from image_pipeline.doctor.verdict import read_examination

        path = source.run.examination_path
        figures["speed"] = absent.ask(lambda: read_examination(path), "speed")
        if figures["speed"] is None:
            absent.setdefault(
                "speed",
                f"Not measured: image-pipeline doctor {source.folder} measures what limits "
                "training, and keeps it for this page.",
            )
        figures["history"] = absent.ask(lambda: _list_runs(source.folder), "history")

    figures |= {
        "versions": describe_versions(source, config),
        "difference": None if other is None else compare(source, config, other),
        "changes": None if other is None else find_changes(other.data_dir, data_dir),
        "absent": absent,
    }
    if other is None:
        absent["difference"] = "Nothing to compare with; give --against OTHER to see what changed."
    return figures | {"notices": list_notices(figures, manifest, source.trouble)}


def _list_runs(folder: str) -> list[dict[str, Any]]:
    need("tfx", "The list of a folder's runs")
    from image_pipeline.show.history import read_past

    return read_past(folder)
