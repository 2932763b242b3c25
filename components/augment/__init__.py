"""Random views of images, for training: stateless, batched, compiled by XLA."""
