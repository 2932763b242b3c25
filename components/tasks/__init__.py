"""What a model learns: what labels and outputs mean, how it is checked, served and judged."""
