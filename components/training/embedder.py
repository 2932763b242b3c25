"""What a classifier's last layer sees of images, which tells like ones from unlike ones."""

import keras


def find_embedder(model: keras.Model) -> keras.Model | None:
    """The part of a network that ends before its last dense layer.

    Args:
      model: a built classifier.

    Returns:
      A model from the same images to float [batch, any], with the same weights; None of a model
      whose layers are not joined in a graph of Keras's, or where that layer sees no vector.
    """
    dense = next((e for e in reversed(model.layers) if isinstance(e, keras.layers.Dense)), None)
    try:
        seen = dense.input  # type: ignore[union-attr]
        return keras.Model(model.inputs, seen) if len(seen.shape) == 2 else None
    except (AttributeError, ValueError):  # As Keras says that it knows no such graph.
        return None
