"""The format on disk, for its writer and every reader."""
