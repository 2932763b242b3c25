"""Environments: made once, made anew when they should be others, and a reason where they fail."""

import pytest

from benchmarks.bench.environments import (
    Environment,
    NotInstalledError,
    make_environment,
    read_requirements,
)

pytestmark = [pytest.mark.unit, pytest.mark.wide]


def test_one_that_is_there_is_not_made_again(tmp_path):
    environment = Environment(packages=("no-such-package==0",))
    (tmp_path / ".ready").write_text(repr(environment))
    assert make_environment(environment, tmp_path) == str(tmp_path / "bin" / "python")


@pytest.mark.e2e
def test_a_reason_where_it_cannot_be_made(tmp_path):
    environment = Environment(packages=(), base=str(tmp_path / "no-python"))
    with pytest.raises(NotInstalledError, match="no-python"):
        make_environment(environment, tmp_path / "env")


@pytest.mark.e2e
def test_one_of_other_packages_is_made_again(tmp_path):
    (tmp_path / ".ready").write_text(repr(Environment(packages=("old==1",))))
    other = Environment(packages=("new==1",), base=str(tmp_path / "no-python"))
    with pytest.raises(NotInstalledError):
        make_environment(other, tmp_path)


def test_requirements_without_comments(tmp_path):
    path = tmp_path / "some.txt"
    path.write_text("# why\none==1\n\ntwo[extra]==2  # why\n")
    assert read_requirements(path) == ("one==1", "two[extra]==2")
