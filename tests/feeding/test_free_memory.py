import psutil
import pytest

from image_pipeline.components.feeding import budget

pytestmark = pytest.mark.unit

MACHINE = 16_000_000_000


@pytest.fixture(autouse=True)
def group(monkeypatch, tmp_path):
    """A machine of 16 GB of free memory; the folder that tells its containers' limits."""
    found = psutil.virtual_memory()._replace(available=MACHINE)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: found)
    monkeypatch.setattr(budget, "_ROOT", tmp_path / "cgroup")
    monkeypatch.setattr(budget, "_OWN_GROUPS", tmp_path / "own")
    return tmp_path / "cgroup"


def write(folder, **contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name.replace("memory_", "memory.")).write_text(f"{content}\n")


def version_2(folder, limit, used, inactive=0):
    stat = f"anon 5\ninactive_file {inactive}\nactive_file 7"
    write(folder, memory_max=limit, memory_current=used, memory_stat=stat)


def version_1(folder, limit, used, inactive=0):
    stat = f"inactive_file 3\ntotal_inactive_file {inactive}\ntotal_active_file 7"
    contents = {"memory_limit_in_bytes": limit, "memory_usage_in_bytes": used}
    write(folder, **contents, memory_stat=stat)


def test_without_a_container_it_is_the_machines():
    assert budget.free_bytes() == MACHINE


@pytest.mark.parametrize(
    ("limit", "free"), [("max", MACHINE), (9 * 10**9, 8 * 10**9), (10**8, 0), (10**12, MACHINE)]
)
def test_a_container_has_no_more_than_its_limit(group, limit, free):
    version_2(group, limit, 10**9)
    assert budget.free_bytes() == free


def test_the_page_cache_of_files_is_free(group):
    version_2(group, 9 * 10**9, 8 * 10**9, inactive=6 * 10**9)
    assert budget.free_bytes() == 7 * 10**9


def test_the_first_version_of_control_groups_counts_too(group):
    version_1(group / "memory", 4 * 10**9, 3 * 10**9, inactive=10**9)
    assert budget.free_bytes() == 2 * 10**9
    version_1(group / "memory", 2**63 - 4096, 3 * 10**9)  # What it says where there is no limit.
    assert budget.free_bytes() == MACHINE


@pytest.mark.parametrize(
    ("line", "root", "write_group"),
    [("0::/job/task", "", version_2), ("4:memory:/job/task", "memory", version_1)],
)
def test_a_limit_of_the_process_or_around_it_holds(group, line, root, write_group):
    (group.parent / "own").write_text(f"7:pids:/other\n{line}\n")
    write_group(group / root / "job" / "task", 9 * 10**9, 10**9)
    assert budget.free_bytes() == 8 * 10**9
    write_group(group / root / "job", 5 * 10**9, 10**9)
    assert budget.free_bytes() == 4 * 10**9
    write_group(group / root / "other", 10**9, 10**9)
    assert budget.free_bytes() == 4 * 10**9


def test_what_is_not_a_number_is_no_limit(group):
    version_2(group, "unknown", 10**9)
    assert budget.free_bytes() == MACHINE
