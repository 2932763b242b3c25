"""Answers of one network that was asked in batches of different sizes.

Its products are then summed in another order on some machines: the last bits of floats may differ.
"""

from typing import Any

import numpy as np
import pytest

_RELATIVE, _ABSOLUTE = 1e-5, 1e-6


def near(told: Any) -> Any:
    """What is equal to a prediction, or a list of them, but for the last bits of its floats."""
    if isinstance(told, dict):
        return {name: near(value) for name, value in told.items()}
    if isinstance(told, list):
        return [near(each) for each in told]
    return pytest.approx(told, rel=_RELATIVE, abs=_ABSOLUTE) if isinstance(told, float) else told


def assert_near(found: np.ndarray, expected: np.ndarray) -> None:
    """Fails unless two arrays are equal, but for the last bits of floats."""
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=_RELATIVE, atol=_ABSOLUTE, strict=True)
    else:
        np.testing.assert_array_equal(found, expected, strict=True)
