"""Tar and zip files: their members, each read by its range of bytes."""
