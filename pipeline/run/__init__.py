"""Runs the pipeline and its parts on this machine, or sends them to an engine."""
