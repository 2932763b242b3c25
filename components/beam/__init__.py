"""Beam jobs from start to end: engines, limits, counters."""
