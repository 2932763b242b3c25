"""What `init --yes` and `run` reach, beside twenty lines of Keras."""
