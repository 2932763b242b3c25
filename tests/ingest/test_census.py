import collections

import pytest

from image_pipeline.components.ingest.forecast import draw_sample, take_census
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.components.sources.references import ImageRef

pytestmark = pytest.mark.unit


def _refs(sizes):
    return [ImageRef(f"{'ab'[n % 2]}/{n}", size, 0) for n, size in enumerate(sizes)]


def test_the_census_counts_files_bytes_classes_and_named_splits():
    options = IngestOptions(split_pattern=r"./(?P<split>1).*")
    census = take_census(_refs([10, 20, 30, 1000]), options, 10, seed=0)
    assert (census.files, census.bytes) == (4, 1060)
    assert census.classes == {"a": 2, "b": 2}
    assert census.forced_splits == {"1": 1}
    renamed = IngestOptions(split_pattern=r"./(?P<split>1).*", split_names={"1": "eval"})
    assert take_census(_refs([10, 20]), renamed, 10, seed=0).forced_splits == {"eval": 1}


def test_the_weights_of_the_sample_add_up_to_the_files_of_each_group():
    census = take_census(_refs([10] * 700 + [5000] * 300 + [10**6] * 3), IngestOptions(), 50, 0)
    sample = draw_sample(census, 50)
    sums = collections.Counter()
    for each in sample:
        sums[each.ref.size_bytes] += each.weight
    assert {size: round(files) for size, files in sums.items()} == {10: 700, 5000: 300, 10**6: 3}
    assert 50 <= len(sample) <= 54
    assert len({each.ref.path for each in sample}) == len(sample)


def test_a_group_of_one_file_is_sampled():
    census = take_census(_refs([10] * 1000 + [10**7]), IngestOptions(), 5, 0)
    assert [s.weight for s in draw_sample(census, 5) if s.ref.size_bytes == 10**7] == [1]


def test_the_seed_alone_decides_the_sample():
    def paths(seed):
        census = take_census(_refs([10] * 1000), IngestOptions(), 20, seed)
        return [each.ref.path for each in draw_sample(census, 20)]

    assert paths(0) == paths(0) != paths(1)


def test_every_file_is_as_likely_as_any_other():
    hits = collections.Counter()
    for seed in range(400):
        census = take_census(_refs([10] * 40), IngestOptions(), 10, seed)
        hits.update(each.ref.path for each in draw_sample(census, 10))
    # 400 draws of probability 1/4: mean 100, standard deviation 8.7.
    assert len(hits) == 40 and all(60 < count < 140 for count in hits.values())
