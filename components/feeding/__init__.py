"""Shards and graph to training batches."""
