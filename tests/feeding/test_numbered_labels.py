"""Labels by a table of the known classes are those of the whole graph."""

import numpy as np
import pytest
import tensorflow as tf

from image_pipeline.components import contract
from image_pipeline.components.feeding.graph import TransformGraph, read_class_names
from image_pipeline.components.transform.labels import label_ids
from tests import graphs

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """With what the analysis says of it, as those of this project have it."""
    folder = tmp_path_factory.mktemp("graph")
    graphs.write_graph(folder)
    graphs.write_analysis(folder)
    return TransformGraph(str(folder))


def number(graph, names, labels):
    (specs,), _ = graph.input_signature
    images = tf.zeros([len(labels), *specs[contract.IMAGE_INPUT].shape[1:]], tf.uint8)
    batch = {contract.IMAGE_INPUT: images, contract.LABEL_INPUT: tf.constant(labels)}
    data = tf.data.Dataset.from_tensors(batch).map(graph.number_labels(names))
    return next(data.as_numpy_iterator()), graph(batch)[1].numpy()


@pytest.mark.parametrize("are_known", [True, False])
def test_they_are_those_of_the_graph(graph, are_known):
    labels = [*graph.class_names, "no class", "", graph.class_names[0]]
    found, expected = number(graph, sorted(set(labels)) if are_known else None, labels)
    assert found.dtype == np.int64 and found.tolist() == expected.tolist()
    assert found.tolist()[:2] == [0, 1] and found[-3] == -1


def test_with_known_names_a_data_set_holds_no_graph(graph):
    def count_nodes(names):
        function = graph.number_labels(names)
        label = tf.TensorSpec([None], tf.string)
        image = graph.input_signature[0][0][contract.IMAGE_INPUT]
        specs = {contract.IMAGE_INPUT: image, contract.LABEL_INPUT: label}
        traced = tf.function(function).get_concrete_function(specs)
        return len(traced.graph.as_graph_def().library.function)

    assert count_nodes(graph.class_names) == 0 < count_nodes(None)


def test_a_graph_of_somebody_else_s_is_asked_itself(tmp_path):
    def look_at_images(inputs):
        images = tf.cast(inputs[contract.IMAGE_INPUT], tf.float32)
        ids = label_ids(inputs[contract.LABEL_INPUT])
        is_black = tf.reduce_max(images, axis=(1, 2, 3)) == 0
        labels = tf.where(is_black, ids + 5, ids)
        return {contract.IMAGE_OUTPUT: images, contract.LABEL_OUTPUT: labels}

    graph = TransformGraph(graphs.write_graph(tmp_path, preprocessing_fn=look_at_images))
    found, expected = number(graph, graph.class_names, graph.class_names)
    assert found.tolist() == expected.tolist() == [5, 6]


def test_a_name_may_hold_what_ends_a_line_elsewhere(tmp_path):
    assets = tmp_path / "transform_fn" / "assets"
    assets.mkdir(parents=True)
    names = ["one\u2028line", "two\x85", "three\x0b"]
    (assets / "label").write_bytes("".join(f"{name}\n" for name in names).encode())
    assert read_class_names(str(tmp_path)) == names
    (assets / "label").write_bytes(b"")
    assert read_class_names(str(tmp_path)) == []
