"""Labels: one kind a file, and which kind a data set has."""
