"""Batches to a SavedModel."""
