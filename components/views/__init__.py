"""The deterministic view of an image, twice: in TensorFlow's graph, and fast on the processor."""
