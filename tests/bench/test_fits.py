"""The fitted line: exact where the sizes lie on one, by relative errors where they do not."""

import pytest

from benchmarks.bench.fits import Line, fit_line

pytestmark = [pytest.mark.unit, pytest.mark.wide]


def test_finds_the_line_that_was_drawn():
    rounds = [{"images": n, "wall_s": 2.5 + 0.01 * n} for n in (10, 30, 100, 300)]
    line = fit_line(rounds, "wall_s")
    assert line.slope == pytest.approx(0.01) and line.fixed == pytest.approx(2.5)
    assert line.worst == pytest.approx(0, abs=1e-9)


def test_small_sizes_count_as_much_as_large_ones():
    # The largest is 10 % off, which is 10 s: the fixed second is still found.
    seconds = {1: 1.01, 10: 1.1, 100: 2.0, 1_000: 11.0, 9_900: 110.0}
    line = fit_line([{"images": n, "cpu_s": s} for n, s in seconds.items()], "cpu_s")
    assert line.fixed == pytest.approx(1.0, abs=0.05)
    assert 0 < line.worst < 0.1


def test_workers_share_the_images_and_not_the_fixed_cost():
    assert Line(slope=0.5, fixed=3, worst=0).at(100) == 53
    assert Line(slope=0.5, fixed=3, worst=0).at(100, workers=5) == 13
