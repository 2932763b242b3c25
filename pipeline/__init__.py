"""Composes the components into one pipeline, runs it, and tells a person what happened."""
