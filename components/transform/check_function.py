"""What a `preprocessing_fn` must be, rule by rule, as far as it shows before data are read.

It is traced once and then frozen into a graph, so nothing in it may be random. Three rules see to
that, since each misses something: the source names Python's and NumPy's generators with their
lines; the graph names TensorFlow's random operations wherever they were made; and a second trace
shows any other value that differs from run to run.

A rule is a generator of problems, each the rest of a sentence about the function. The first one
ends the check, so a rule may rely on what it has yielded nothing about.
"""

import ast
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry
from tensorflow_transform import analyzer_nodes

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.transform.labels import WriteVocabulary
from image_pipeline.components.transform.traced_function import (
    PreprocessingFn,
    Traced,
    find_ancestors,
    find_line,
    guard,
    list_analyzers,
    reach_inputs,
    trace,
)

_OWN_VIEWS = (
    "make random views in feeding (image_pipeline.components.augment), which draws them per record"
)
_LABEL_IDS = "use image_pipeline.components.transform.labels.label_ids(inputs['label'])"
# Calls whose value is frozen at the time of tracing.
_FROZEN = re.compile(
    r"(numpy\.random|random|secrets)\..+|os\.urandom|uuid\.uuid[14]|time\.(time|time_ns|monotonic)"
    r"|datetime\.datetime\.(now|utcnow)"
)
_GENERATOR = re.compile(r"(numpy\.random|random)\..+")  # a class's module and name
# Operations that TensorFlow calls stateful, and that only read what tf.Transform found.
_READERS = re.compile(
    r"\w*HashTable\w*|LookupTable(Find|Size|Export)\w*|InitializeTable\w*|VarHandleOp|ReadVariableOp"
    r"|ResourceGather\w*|VarIsInitializedOp|Stateful\w*Call|If|While|Case|Assert|Print\w*"
    r"|Placeholder\w*"
)
# The types of tf.train.Example, which tf.Transform's feature spec is made of.
_SCHEMA_TYPES = (tf.float32, tf.int64, tf.string)
_LOOKUPS = ("LookupTableFind", "LookupTableFindV2")
# Operations whose bodies are graphs of their own.
_HIDING = (
    *("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase"),
    *("PartitionedCall", "StatefulPartitionedCall"),
)


def check_function(
    function: PreprocessingFn, name: str, specs: Mapping[str, tf.TensorSpec]
) -> Traced:
    """Refuses what cannot be a transform graph, or would not be the same one everywhere.

    Args:
      function: the user's, as it was loaded.
      name: its dotted path, for messages.
      specs: its inputs, see `record_batches.input_specs`.

    Returns:
      The guarded function's trace.

    Raises:
      UserError: by the first rule that it breaks; it names what and, where it can, the line.
    """
    for problem in _find_in_source(function):
        raise UserError(f"preprocessing_fn {name} {problem}")
    traced = trace(guard(function, name), specs)
    rules = (
        _find_operations(traced, function),
        _compare_traces(traced, lambda: trace(guard(function, name), specs), function),
        _find_in_image(traced),
        _find_in_label(traced),
        _find_in_further(traced),
        _find_dependencies(traced),
        _find_in_vocabulary(traced),
    )
    for problem in itertools.chain.from_iterable(rules):
        raise UserError(f"preprocessing_fn {name} {problem}")
    return traced


def _find_in_source(function: Callable) -> Iterator[str]:
    """Python's and NumPy's randomness in a function and in what it calls in its module."""
    function = inspect.unwrap(function)
    try:
        with open(inspect.getsourcefile(function) or "", encoding="utf-8") as source:
            module = ast.parse(source.read())
    except (OSError, TypeError, SyntaxError):
        return
    # Each name that the module imports, wherever it does, and what it stands for.
    imported: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                imported[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
    known = getattr(function, "__globals__", {})
    bodies = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    waiting, seen = [function.__name__], set()
    while waiting:
        called = waiting.pop()
        if called in seen or called not in bodies:
            continue
        seen.add(called)
        nodes = list(ast.walk(bodies[called]))
        own = {node.arg for node in nodes if isinstance(node, ast.arg)}  # These hide imports.
        own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for node in nodes:
            if not isinstance(node, ast.Name | ast.Attribute):
                continue
            path = _write_dotted(node)
            top, dot, rest = path.partition(".")
            waiting.append(path)
            full = f"{imported[top]}{dot}{rest}" if top in imported and top not in own else ""
            kind = type(known.get(top))
            if full and _FROZEN.fullmatch(full):
                mentioned = full
            elif not full and _GENERATOR.fullmatch(f"{kind.__module__}.{kind.__qualname__}"):
                mentioned = f"the random generator {top}"
            else:
                continue
            yield (
                f"uses {mentioned} (line {node.lineno}): a preprocessing_fn is traced once, so its "
                f"value would be frozen; {_OWN_VIEWS}."
            )


def _write_dotted(node: ast.AST) -> str:
    """`a.b.c` of nested attributes; nothing if they start from anything but a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := _write_dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""


def _find_operations(traced: Traced, function: Callable) -> Iterator[str]:
    """Operations that are random, keep state, or call back into Python.

    Random operations without state (`tf.random.stateless_*`) are functions of their seed, so they
    may stay: a random projection is as fixed as any other matrix. Where they give an image another
    value for its place in the batch, `finish.check_graph` finds it.
    """
    operations = {each.name: each for each in traced.graph.get_operations()}
    definition = traced.graph.as_graph_def()
    nested = [node for body in definition.library.function for node in body.node_def]
    for node in [*definition.node, *nested]:
        known = op_def_registry.get(node.op)
        is_python = "PyFunc" in node.op
        if not is_python and not (known and known.is_stateful and not _READERS.fullmatch(node.op)):
            continue
        operation = operations.get(node.name)
        where = find_line(function, operation.traceback or ()) if operation is not None else ""
        if is_python:
            yield (
                f"calls back into Python ({node.op}{where}): that code would not be in the saved "
                "graph; write it with TensorFlow's operations."
            )
        yield (
            f"uses the operation {node.op}{where}, which is random or keeps state: training, "
            f"evaluation and serving would see different images; {_OWN_VIEWS}."
        )


def _compare_traces(
    first: Traced, trace_again: Callable[[], Traced], function: Callable
) -> Iterator[str]:
    """Constants that differ when the function is traced again."""
    ones, others = (list(_constants(each, function)) for each in (first, trace_again()))
    for (one, where), (other, _) in zip(ones, others, strict=False):
        if one != other:
            yield (
                f"gives another constant each time it is traced{where}: its value would be frozen; "
                f"{_OWN_VIEWS}."
            )
    if len(ones) != len(others):
        yield f"gives another graph each time it is traced; {_OWN_VIEWS}."


def _constants(traced: Traced, function: Callable) -> Iterator[tuple[bytes, str]]:
    """Serialized constants with their lines: the graph's in order, then its functions', sorted."""

    def serialize(node: Any) -> bytes:
        return node.attr["value"].SerializeToString(deterministic=True)

    scratch = traced.scratch_dir.encode()
    for operation in traced.graph.get_operations():
        if operation.type == "Const" and scratch not in (value := serialize(operation.node_def)):
            yield value, find_line(function, operation.traceback or ())
    library = traced.graph.as_graph_def().library.function
    nodes = [node for body in library for node in body.node_def if node.op == "Const"]
    yield from ((value, "") for value in sorted(map(serialize, nodes)))


def _find_in_image(traced: Traced) -> Iterator[str]:
    """An image that the model, built for the view, could not take batch by batch."""
    image, shape = traced.outputs[contract.IMAGE_OUTPUT], traced.inputs[contract.IMAGE_INPUT].shape
    if image.dtype != tf.float32:
        yield _wrong("the image as float32", image, "cast it with tf.cast(image, tf.float32)")
    if image.shape.rank is None or image.shape.rank < 2 or None in image.shape[1:]:
        yield _wrong(
            "the image as [batch, ...] of known size",
            image,
            "keep the batch dimension first, and tell the size with tf.ensure_shape",
        )
    yield from _find_fixed_batch(image)
    if image.shape[1:] != shape[1:]:
        yield _wrong(
            f"the image in the view's size {_write_shape(shape)}",
            image,
            "the model is built for that: set view.height_px, view.width_px and view.channels, and "
            "keep the size",
        )


def _find_in_label(traced: Traced) -> Iterator[str]:
    """A label that is not what feeding and evaluation read of its kind."""
    label, inputs = traced.outputs[contract.LABEL_OUTPUT], traced.inputs
    dtype, rank, wanted, way_out = tf.int64, 1, "int64 [batch]", "label_ids(inputs['label'])"
    if record.TAGS in inputs:
        rank, wanted = 2, "a RaggedTensor of int64 [batch, ?], ids of tags"
        way_out = f"tag_ids(inputs[{record.TAGS!r}])"
    elif record.VALUE in inputs:
        dtype, wanted = tf.float32, "float32 [batch]"
        way_out = f"keep_values(inputs[{record.VALUE!r}])"
    is_kind = isinstance(label, tf.RaggedTensor) == (record.TAGS in inputs)
    if label.dtype != dtype or label.shape.rank != rank or not is_kind:
        use = f"use image_pipeline.components.transform.labels.{way_out}"
        yield _wrong(f"the label as {wanted}", label, use)
    yield from _find_fixed_batch(label)


def _find_in_further(traced: Traced) -> Iterator[str]:
    """Outputs that feeding does not read: tf.Transform's schema has three types for them."""
    for key, output in traced.outputs.items():
        if key in (contract.IMAGE_OUTPUT, contract.LABEL_OUTPUT):
            continue
        if output.dtype not in _SCHEMA_TYPES:
            yield (
                f"must return {key!r} as float32, int64 or string, which is all that tf.Transform "
                f"writes down, got {output.dtype.name} {_write_shape(output.shape)}; cast it with "
                "tf.cast."
            )
        if isinstance(output, tf.Tensor) and not output.shape.rank:
            yield _wrong(f"{key!r} as [batch, ...]", output, "keep the batch dimension first")


def _find_fixed_batch(output: tf.Tensor) -> Iterator[str]:
    if output.shape[0] is not None:
        yield _wrong(
            "one output for each image of a batch of any size",
            output,
            "work on the batch as a whole, and reduce over other axes than the first",
        )


def _wrong(wanted: str, got: tf.Tensor, way_out: str) -> str:
    return f"must return {wanted}, got {got.dtype.name} {_write_shape(got.shape)}; {way_out}."


def _write_shape(shape: tf.TensorShape) -> str:
    if shape.rank is None:
        return "of unknown shape"
    lengths: Iterable[int | None] = shape
    return "[" + ", ".join("?" if length is None else str(length) for length in lengths) + "]"


def _find_dependencies(traced: Traced) -> Iterator[str]:
    """An image output made of more than the image, or a label made of it."""
    if wrong := sorted(reach_inputs(traced, contract.IMAGE_OUTPUT) - {contract.IMAGE_INPUT}):
        yield (
            f"makes the image output from {wrong}: when a model is served, only the image is "
            "known; use them for statistics, the label or further outputs only."
        )
    if contract.IMAGE_INPUT in reach_inputs(traced, contract.LABEL_OUTPUT):
        yield (
            "makes the label output from the image: evaluation looks up labels without decoding "
            "images; make the label from the other inputs."
        )


def _find_in_vocabulary(traced: Traced) -> Iterator[str]:
    """A vocabulary that numbers the labels otherwise than the trainer and serving read it by name.

    A look-up that is hidden in a branch or a loop is not seen, so nothing is refused for those.
    """
    if record.VALUE in traced.inputs:
        return  # A number needs none.
    kinds = analyzer_nodes.VocabularyOrderAndWrite | WriteVocabulary
    known = {key: each for key, each in list_analyzers(traced).items() if isinstance(each, kinds)}
    names = {each.vocab_filename for each in known.values()}
    wanted = contract.LABEL_VOCABULARY
    if wanted not in names:
        yield (
            f"must number the labels by a vocabulary with vocab_filename={wanted!r}, which names "
            f"the model's classes, got {sorted(names) or 'none'}; {_LABEL_IDS}, or "
            "tft.compute_and_apply_vocabulary(inputs['label'], default_value=-1, "
            f"vocab_filename={wanted!r})."
        )
    alike = [each for each in known.values() if each.vocab_filename == wanted]
    # Those of tf.Transform's own are one file.
    if len(alike) > 1 and any(isinstance(each, WriteVocabulary) for each in alike):
        yield (
            f"must have one vocabulary {wanted!r}, got {len(alike)}, of which one would be taken "
            "for the other: number the labels once; a function of this package that gives the "
            "image, such as standardize, numbers them too, so return its label, or make the image "
            "with image_pipeline.components.transform.moments.channel_mean_and_std."
        )
    if alike[-1].store_frequency or alike[-1].file_format != "text":
        yield (
            f"must write the vocabulary {wanted!r} as a plain list of names, got store_frequency="
            f"{alike[-1].store_frequency}, file_format={alike[-1].file_format!r}; leave out "
            "store_frequency and file_format."
        )
    label = traced.outputs[contract.LABEL_OUTPUT]
    operations = find_ancestors(label.flat_values if isinstance(label, tf.RaggedTensor) else label)
    if any(operation.type.startswith("StringToHashBucket") for operation in operations):
        yield (
            "gives labels that are not in the vocabulary an id by their hash (num_oov_buckets), "
            f"but the model has one output a name: an unknown label is -1; {_LABEL_IDS}, or "
            "default_value=-1 without num_oov_buckets."
        )
    is_used = any(operation.type in _HIDING for operation in operations)
    for lookup in (operation for operation in operations if operation.type in _LOOKUPS):
        # tf.Transform has a look-up wait for its vocabulary's file.
        waited = {tensor.op.name for each in lookup.control_inputs for tensor in each.inputs}
        waited |= {each.name for each in lookup.control_inputs}
        if not (named := {known[key].vocab_filename for key in waited & known.keys()}):
            continue
        is_used = True
        if named != {wanted}:
            yield (
                f"numbers the labels by the vocabulary {min(named)!r}, but the trainer reads the "
                f"classes of {wanted!r}; give the label's vocabulary vocab_filename={wanted!r}, or "
                f"{_LABEL_IDS}."
            )
        default = tf.get_static_value(lookup.inputs[2])
        if default is not None and default != -1:
            yield (
                f"gives labels that are not in the vocabulary the id {default}; an unknown label "
                "is -1, which loss and metrics leave out, and every other id a class's: pass "
                "default_value=-1."
            )
    if not is_used:
        yield (
            f"makes the label output without the vocabulary {wanted!r}, whose lines are the "
            f"model's classes; {_LABEL_IDS}."
        )
