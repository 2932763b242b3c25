"""Checks on a traced `preprocessing_fn`: that the label's ids are lines of the class vocabulary."""

from collections.abc import Iterator, Mapping

import tensorflow as tf
from tensorflow_transform import analyzer_nodes

from image_pipeline.components import contract
from image_pipeline.components.dataset import record
from image_pipeline.components.errors import UserError
from image_pipeline.components.transform.name_vocabulary import WriteVocabulary
from image_pipeline.components.transform.traced_function import Traced

_WAY_OUT = "use image_pipeline.components.transform.labels.label_ids(inputs['label'])"
_LOOKUPS = ("LookupTableFind", "LookupTableFindV2")
# Operations whose bodies are graphs of their own.
_HIDING = (
    *("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase"),
    *("PartitionedCall", "StatefulPartitionedCall"),
)
Vocabulary = analyzer_nodes.VocabularyOrderAndWrite | WriteVocabulary


def check_vocabulary(traced: Traced, name: str) -> None:
    """Checks the vocabulary that numbers the labels, which the trainer and serving read by name.

    A look-up that is hidden in a branch or a loop is not seen, so nothing is refused for those.

    Args:
      traced: the function's trace.
      name: its dotted path, for messages.

    Raises:
      UserError: if there is no such vocabulary, if something else gives the label, or if an
        unknown label gets another id than -1.
    """
    if record.VALUE in traced.inputs:
        return  # A number needs none.
    vocabularies = _find_vocabularies(traced)
    _check_file(vocabularies, name)
    label = traced.outputs[contract.LABEL_OUTPUT]
    ids = label.flat_values if isinstance(label, tf.RaggedTensor) else label
    operations = list(_ancestors(ids.op))
    if any(operation.type.startswith("StringToHashBucket") for operation in operations):
        raise UserError(
            f"preprocessing_fn {name} gives labels that are not in the vocabulary an id by their "
            "hash (num_oov_buckets), but the model has one output a name: an unknown label is -1; "
            f"{_WAY_OUT}, or default_value=-1 without num_oov_buckets."
        )
    lookups = [operation for operation in operations if operation.type in _LOOKUPS]
    used = [_check_lookup(lookup, vocabularies, name) for lookup in lookups]
    if not any(used) and not any(operation.type in _HIDING for operation in operations):
        raise UserError(
            f"preprocessing_fn {name} makes the label output without the vocabulary "
            f"{contract.LABEL_VOCABULARY!r}, whose lines are the model's classes; {_WAY_OUT}."
        )


def _check_file(vocabularies: Mapping[str, Vocabulary], name: str) -> None:
    """Checks that one vocabulary has the name and the form that the trainer reads."""
    named = {definition.vocab_filename: definition for definition in vocabularies.values()}
    if contract.LABEL_VOCABULARY not in named:
        raise UserError(
            f"preprocessing_fn {name} must number the labels by a vocabulary with vocab_filename="
            f"{contract.LABEL_VOCABULARY!r}, which names the model's classes, got "
            f"{sorted(named) or 'none'}; {_WAY_OUT}, or tft.compute_and_apply_vocabulary("
            f"inputs['label'], default_value=-1, vocab_filename={contract.LABEL_VOCABULARY!r})."
        )
    definition = named[contract.LABEL_VOCABULARY]
    alike = [
        each for each in vocabularies.values() if each.vocab_filename == definition.vocab_filename
    ]
    # Those of tf.Transform's own are one file.
    if len(alike) > 1 and any(isinstance(each, WriteVocabulary) for each in alike):
        raise UserError(
            f"preprocessing_fn {name} must have one vocabulary {contract.LABEL_VOCABULARY!r}, got "
            f"{len(alike)}, of which one would be taken for the other: number the labels once; a "
            "function of this package that gives the image, such as standardize, numbers them too, "
            "so return its label, or make the image with "
            "image_pipeline.components.transform.moments.channel_mean_and_std."
        )
    if definition.store_frequency or definition.file_format != "text":
        raise UserError(
            f"preprocessing_fn {name} must write the vocabulary {contract.LABEL_VOCABULARY!r} as a "
            "plain list of names, got "
            f"store_frequency={definition.store_frequency}, "
            f"file_format={definition.file_format!r}; leave out store_frequency and file_format."
        )


def _check_lookup(lookup: tf.Operation, vocabularies: Mapping[str, Vocabulary], name: str) -> bool:
    """Checks a look-up that the label is made of; tells whether it is one of the vocabulary's."""
    keys = _asset_names(lookup) & vocabularies.keys()
    named = {vocabularies[key].vocab_filename for key in keys}
    if not named:
        return False
    if named != {contract.LABEL_VOCABULARY}:
        raise UserError(
            f"preprocessing_fn {name} numbers the labels by the vocabulary {min(named)!r}, but the "
            f"trainer reads the classes of {contract.LABEL_VOCABULARY!r}; give the label's "
            f"vocabulary vocab_filename={contract.LABEL_VOCABULARY!r}, or {_WAY_OUT}."
        )
    default = tf.get_static_value(lookup.inputs[2])
    if default is not None and default != -1:
        raise UserError(
            f"preprocessing_fn {name} gives labels that are not in the vocabulary the id "
            f"{default}; an unknown label is -1, which loss and metrics leave out, and every other "
            "id a class's: pass default_value=-1."
        )
    return True


def _find_vocabularies(traced: Traced) -> dict[str, Vocabulary]:
    """The vocabularies by the operation that stands for their file in the trace."""
    replaced = traced.graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS)
    found = {each.tensor.op.name: each.future.parent_operation.operation_def for each in replaced}
    definitions = {key: getattr(each, "ptransform", each) for key, each in found.items()}
    return {
        key: definition
        for key, definition in definitions.items()
        if isinstance(definition, Vocabulary)
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
