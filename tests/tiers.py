"""What `make test` leaves to `make test-all`: most examples of properties, and wide matrices."""

import hypothesis
import pytest

# Of a property of which one example takes long.
FEW = hypothesis.settings().max_examples // 3


def wide(*values: object) -> object:
    """A row of `parametrize` that only `make test-all` tries."""
    return pytest.param(*values, marks=pytest.mark.wide)
