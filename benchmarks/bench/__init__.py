"""What the benchmarks share: raw results, environments, and the page of all results."""
