"""The readers that `benchmarks/read.py` compares, each run by the Python of its environment."""
