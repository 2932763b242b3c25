"""The parts of the pipeline, in the order in which data travels through them."""
