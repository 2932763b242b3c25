"""Finds the exported model in a folder that the user names."""

from image_pipeline.components import files
from image_pipeline.components.dataset.other_records import explain_version_name
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.certificate import (
    CERTIFICATE,
    Certificate,
    read_certificate,
)
from image_pipeline.components.order.batches import POSITION_FILE
from image_pipeline.components.tasks.signatures import EXTRA_FOLDER, MODEL_FILE
from image_pipeline.run_folder import SERVED_MODEL, RunFolder, list_versions


def find_model(folder: str) -> str:
    """Finds out which model is meant by a folder.

    Args:
      folder: that of a SavedModel; or one of versions, as models are pushed, whose latest is meant;
        or a run's, whose latest pushed model is meant, or, if it pushed none, the latest that it
        trained; or a Trainer's output; or the URI of one of these.

    Returns:
      The SavedModel's own folder.

    Raises:
      UserError: if there is none.
    """
    folder = folder.rstrip("/") or folder
    if files.is_file(files.join(folder, MODEL_FILE)):
        return folder
    run = RunFolder(folder)
    found = list_versions(folder) or run.list_pushed() or run.list_models()
    if found:
        return found[-1]
    if files.is_file(files.join(folder, SERVED_MODEL, MODEL_FILE)):
        return files.join(folder, SERVED_MODEL)
    if files.is_file(folder):
        raise UserError(
            f"{folder!r} is a file, but the model must be an exported one's folder; write it with "
            "the transform graph that the model was trained behind: "
            f"image_pipeline.export_model(keras.models.load_model({folder!r}), graph, folder)."
        )
    what = "holds no model" if files.exists(folder) else "does not exist"
    raise UserError(
        explain_version_name(folder)
        or f"{folder!r} {what}: there must be {MODEL_FILE} in it or in a version's folder below "
        "it; give an exported model's folder, that of --push, or the --output of `image-pipeline "
        "run`."
    )


def find_certificate(folder: str) -> Certificate:
    """What a model was fed, by the folder of a checkpoint, or one that `find_model` knows.

    Raises:
      UserError: if there is no model, or nothing says what it was fed.
    """
    place = folder
    if (found := read_certificate(folder)) is None:
        if not files.is_file(files.join(folder, POSITION_FILE)):
            place = files.join(find_model(folder), EXTRA_FOLDER)
            found = read_certificate(place)
        if found is None:
            raise UserError(
                f"{place!r} has no {CERTIFICATE}: it was trained by an earlier version, on files "
                "without a manifest, on some of a split's shards only, or outside of this Trainer; "
                "for an order by itself, image_pipeline.batches(…).where(image) says when an image "
                "is fed."
            )
    return found
