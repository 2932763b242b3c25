"""A user's module that fails while it is imported."""

fn = undefined  # noqa: F821
