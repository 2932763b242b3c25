"""What feeding cannot do: with pixels of some kind, with labels of some kind, without a graph.

Known are `stored`, which says `dtype` and `channels` of stored images (`ingest.prepare`, or a
manifest), and `images`, how messages call these; the `labels`, a `LabelKind`; the options of `view`
and `feeding`, and its random `steps`; `has_graph`, whether there is a transform graph.
"""

from image_pipeline.components.augment import options
from image_pipeline.components.augment.array_steps import OF_ARRAYS
from image_pipeline.components.feeding.found_columns import Manifests
from image_pipeline.components.rules import Rule, check
from image_pipeline.components.views.options import ViewOptions


def read_as(stored: str) -> str:
    """The type as which stored values are read."""
    return "uint8" if stored == "uint8" else "float32"


PIXELS = (
    Rule(
        lambda stored, images, view: view.dtype != read_as(stored.dtype) and read_as(stored.dtype),
        "{images} are stored as {stored.dtype} (ingest.prepare.dtype), which is read as {found}, "
        "but view.dtype={view.dtype}; set view.dtype={found}.",
    ),
    Rule(
        lambda stored, images, view: stored.channels is None and view.channels not in (1, 3),
        "{images} are gray or RGB, but view.channels={view.channels}; set it to 1 or 3, or ingest "
        "with ingest.prepare.channels.",
    ),
    Rule(
        lambda stored, images, view: stored.channels not in (None, view.channels),
        "{images} have {stored.channels} channels (ingest.prepare.channels), but "
        "view.channels={view.channels}; set view.channels={stored.channels}.",
    ),
)
"""Whether stored images can be read as a view asks for them."""

LABELS = (
    Rule(
        lambda labels, feeding: feeding.has(*labels.unmixed[0]) and labels.unmixed[1],
        "feeding.augment has {found}",
    ),
    Rule(
        lambda labels, feeding: feeding.labels == "one_hot" and not labels.is_one_class,
        "feeding.labels=one_hot gives images of one class each a share for every class, but these "
        "have {labels.name}; leave it at ids.",
    ),
    Rule(
        lambda labels, feeding, has_graph: (
            not has_graph and labels.is_one_class and feeding.labels == "one_hot"
        ),
        "feeding.labels=one_hot needs the transform graph, which numbers the classes; give "
        "transform_graph_dir, or leave it at ids.",
    ),
    Rule(
        lambda labels, feeding, has_graph: not (has_graph or labels.moves) and feeding.mixes_labels,
        "mixup and cutmix need the transform graph, which numbers the classes; give "
        "transform_graph_dir, or leave them out of feeding.augment.",
    ),
)
"""Whether labels can become what feeding is asked for."""

VIEW = (
    Rule(
        lambda analysed, view, graph_dir: (
            view != analysed and (analysed.model_dump(), view.model_dump())
        ),
        "view must be what the transform graph in {graph_dir!r} was made for, {found[0]}, got "
        "{found[1]}; set view to that, or leave it out, or analyze again.",
    ),
)
"""Whether a transform graph takes a view: `analysed`, in the folder `graph_dir`, is its own."""

BATCHES = (
    OF_ARRAYS,
    Rule(
        lambda feeding: feeding.labels == "one_hot",
        "batches give a class as its id, but feeding.labels is one_hot; leave it at ids, and make "
        "the rows of your framework's function.",
    ),
    Rule(
        lambda feeding, mode: mode != "train" and feeding.mixes_labels,
        "batches give a class as its id, but feeding.augment has mixup or cutmix, which give it a "
        "share; leave them out.",
    ),
    *VIEW,
)
"""What `batches` cannot do without TensorFlow, in a `mode`."""

FEEDING = (*LABELS, *options.RULES)


def check_pixels(manifests: Manifests, view: ViewOptions) -> None:
    """Checks what manifests say of images; those of other shards are checked when they are read.

    Raises:
      UserError: if the view asks for another type, or for channels that there are not.
    """
    for root, manifest in manifests.items():
        check(PIXELS, stored=manifest, images=f"the images of {root!r}", view=view)
