"""Checks on a traced `preprocessing_fn`: that the label's ids are lines of the class vocabulary."""

from collections.abc import Iterator

import tensorflow as tf
from tensorflow_transform import analyzer_nodes

from components import contract
from components.errors import UserError
from components.transform.trace import Traced

_WAY_OUT = "use components.transform.labels.label_ids(inputs['label'])"
_LOOKUPS = ("LookupTableFind", "LookupTableFindV2")


def check_vocabulary(traced: Traced, name: str) -> None:
    """Checks the vocabulary that numbers the labels, which the trainer and serving read by name.

    A look-up that is hidden in a branch or a loop is not seen, so only what is seen is refused.

    Args:
      traced: the function's trace.
      name: its dotted path, for messages.

    Raises:
      UserError: if there is no such vocabulary, if another one gives the label, or if an unknown
        label gets another id than -1.
    """
    named = _vocabulary_names(traced)
    if contract.LABEL_VOCABULARY not in named.values():
        found = f"{sorted(named.values())}" if named else "none"
        raise UserError(
            f"preprocessing_fn {name} must number the labels by a vocabulary with vocab_filename="
            f"{contract.LABEL_VOCABULARY!r}, which names the model's classes, got {found}; "
            f"{_WAY_OUT}, or tft.compute_and_apply_vocabulary(inputs['label'], default_value=-1, "
            f"vocab_filename={contract.LABEL_VOCABULARY!r})."
        )
    operations = list(_ancestors(traced.outputs[contract.LABEL_OUTPUT].op))
    if any(operation.type.startswith("StringToHashBucket") for operation in operations):
        raise UserError(
            f"preprocessing_fn {name} gives labels that are not in the vocabulary an id by their "
            "hash (num_oov_buckets), but the model has one output a name: an unknown label is -1; "
            f"{_WAY_OUT}, or default_value=-1 without num_oov_buckets."
        )
    for lookup in operations:
        if lookup.type in _LOOKUPS:
            _check_lookup(lookup, named, name)


def _check_lookup(lookup: tf.Operation, named: dict[str, str], name: str) -> None:
    wrong = sorted({named[key] for key in _asset_names(lookup) & named.keys()})
    if wrong and wrong != [contract.LABEL_VOCABULARY]:
        raise UserError(
            f"preprocessing_fn {name} numbers the labels by the vocabulary {wrong[0]!r}, but the "
            f"trainer reads the classes of {contract.LABEL_VOCABULARY!r}; give the label's "
            f"vocabulary vocab_filename={contract.LABEL_VOCABULARY!r}, or {_WAY_OUT}."
        )
    default = tf.get_static_value(lookup.inputs[2])
    if wrong and default is not None and default != -1:
        raise UserError(
            f"preprocessing_fn {name} gives labels that are not in the vocabulary the id {default}, "
            "which would be a class's; an unknown label is -1, which loss and metrics leave out: "
            "pass default_value=-1."
        )


def _vocabulary_names(traced: Traced) -> dict[str, str]:
    """File names of the vocabularies, by the operation that stands for the file in the trace."""
    replaced = traced.graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS)
    definitions = {
        each.tensor.op.name: each.future.parent_operation.operation_def for each in replaced
    }
    return {
        key: definition.vocab_filename
        for key, definition in definitions.items()
        if isinstance(definition, analyzer_nodes.VocabularyOrderAndWrite)
    }


def _asset_names(lookup: tf.Operation) -> set[str]:
    """The operations that a look-up waits for: tf.Transform ties its vocabulary's file to it so."""
    return {tensor.op.name for waited in lookup.control_inputs for tensor in waited.inputs} | {
        waited.name for waited in lookup.control_inputs
    }


def _ancestors(operation: tf.Operation) -> Iterator[tf.Operation]:
    """An operation and all whose values it is made of."""
    seen, waiting = {operation.name}, [operation]
    while waiting:
        current = waiting.pop()
        yield current
        for tensor in current.inputs:
            if tensor.op.name not in seen:
                seen.add(tensor.op.name)
                waiting.append(tensor.op)
