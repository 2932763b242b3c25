"""Which records come in which order: a permutation for each epoch, balanced or selected."""
