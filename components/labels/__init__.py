"""What images are said to be: a kind of label a file, and which kind a data set has."""
