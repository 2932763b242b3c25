"""How the images of one data set differ from those of another, counted."""

from image_pipeline.components.dataset.index_file import scan_index
from image_pipeline.components.dataset.lists import Quarantined, read_list
from image_pipeline.components.dataset.manifest import has_manifest


def compare_images(old_dir: str | None, new_dir: str | None) -> str | None:
    """Counts what came, went and changed.

    Args:
      old_dir: folder of a data set; None if there was none.
      new_dir: of a later one.

    Returns:
      The counts in words; None if one of the data sets is gone.
    """
    if not (old_dir and new_dir and has_manifest(old_dir) and has_manifest(new_dir)):
        return None
    old, new = _read_ids(old_dir), _read_ids(new_dir)
    was_bad = {each.path for each in read_list(old_dir, Quarantined)}
    is_bad = {each.path for each in read_list(new_dir, Quarantined)}
    came = new.keys() - old.keys()
    counts = {
        "new": len(came - was_bad),
        "repaired": len(came & was_bad),
        "gone": len(old.keys() - new.keys() - is_bad),
        "now unusable": len(old.keys() & is_bad),
        "changed": sum(old[path] != new[path] for path in old.keys() & new.keys()),
        "more in quarantine": len(is_bad - was_bad - old.keys()),
        "fewer in quarantine": len(was_bad - is_bad - new.keys()),
    }
    told = [f"{count:,} {what}" for what, count in counts.items() if count]
    return ", ".join(told) or "only the times or the names of files that are not stored"


def _read_ids(data_dir: str) -> dict[str, str]:
    """The content of each image, by its path."""
    ids: dict[str, str] = {}
    for rows in scan_index(data_dir, ["source", "record_id"]):
        ids |= dict(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))
    return ids
