"""What a generator yields is ingested as files are: same bytes, exact columns, balanced books."""

import json
import pathlib
import re
import sys
import textwrap

import numpy as np
import pyarrow.parquet as pq
import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.generators import generator_process
from image_pipeline.components.ingest import prepare_chunk
from image_pipeline.components.ingest.forecast import forecast_ingest
from image_pipeline.components.meaning.complete_options import complete_options
from image_pipeline.components.meaning.listing import list_images
from image_pipeline.components.meaning.options import IngestOptions
from image_pipeline.run.preflight import check_classes, survey_images
from tests.drawings import draw, write_folder
from tests.ingest_runs import ingest, read_lines, update

pytestmark = pytest.mark.beam

_ARRAYS = """
    import numpy as np

    def records(shard, shards):
        for number in range(shard, 40, shards):
            image = np.random.default_rng(number).integers(0, 256, (8, 10, 3), np.uint8)
            yield {"image": image, "label": "cat" if number % 2 else "dog", "age": number,
                   "score": number / 3, "tags": ["a", f"t{number % 3}"]}
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module of the user's own folder, of a name that is new in each test."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    # A source of the same second and length would be taken for the one that was compiled.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = "data_" + re.sub(r"\W", "_", tmp_path.name)

    def write(source):
        (folder / f"{name}.py").write_text(textwrap.dedent(source))
        return f"generator:{name}:records"

    yield write
    sys.modules.pop(name, None)


def _shards(output):
    return {p.relative_to(output): p.read_bytes() for p in sorted(output.glob("Split-*/*"))}


def _index(output):
    rows = pq.read_table(output / "index.parquet").to_pylist()
    return {row["source"]: row for row in rows}


def test_files_give_the_bytes_of_the_folder(module, tmp_path):
    images = write_folder(tmp_path / "images", per_class=20)
    generator = module(f"""
        import pathlib
        ROOT = pathlib.Path({str(images)!r})
        def records(shard, shards):
            for path in sorted(ROOT.rglob("*.png"))[shard::shards]:
                yield {{"image": path.read_bytes(), "label": path.parent.name,
                       "path": path.relative_to(ROOT).as_posix()}}
    """)
    ingest(images, tmp_path / "folder")
    ingest(generator, tmp_path / "made", generator={"shards": 3})
    assert _shards(tmp_path / "made") == _shards(tmp_path / "folder")
    index = pathlib.Path("index.parquet")
    assert (tmp_path / "made" / index).read_bytes() == (tmp_path / "folder" / index).read_bytes()


def test_arrays_are_stored_exactly_with_their_columns(module, tmp_path):
    manifest = ingest(module(_ARRAYS), tmp_path / "out", generator={"shards": 3})
    assert (manifest.books.found, manifest.books.written) == (40, 40)
    assert manifest.options["column_types"] == {"age": "int", "score": "float", "tags": "strings"}
    rows = _index(tmp_path / "out")
    for number in range(40):
        row = rows[f"records/{number % 3:04d}/{number // 3:08d}"]
        assert row["label"] == ("cat" if number % 2 else "dog")
        assert (row["age"], row["tags"]) == (number, ["a", f"t{number % 3}"])
        assert row["score"] == number / 3
    stored = {row["source"]: row for row in rows.values()}
    assert len(stored) == 40


def test_the_order_depends_on_the_shards_and_not_on_the_cores(module, tmp_path, monkeypatch):
    generator = module(_ARRAYS)
    for cores in (1, 3):
        monkeypatch.setattr(generator_process, "usable_cores", lambda cores=cores: cores)
        ingest(generator, tmp_path / f"{cores}", generator={"shards": 5}, duplicates="keep_all")
    files = ("index.parquet", "manifest.json")
    assert _shards(tmp_path / "1") == _shards(tmp_path / "3")
    for name in files:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "3" / name).read_bytes()


def test_rows_are_written_in_parts(module, tmp_path, monkeypatch):
    generator = module(_ARRAYS)
    ingest(generator, tmp_path / "whole", generator={"shards": 20})
    for rows in (7, 20):  # Of 32 images in the first unit and 8 in the second; and exactly.
        monkeypatch.setattr(prepare_chunk, "_PART_ROWS", rows)
        manifest = ingest(generator, tmp_path / f"{rows}", generator={"shards": 20})
        assert manifest.books.written == 40
        assert _shards(tmp_path / f"{rows}") == _shards(tmp_path / "whole")


def test_pairs_without_paths_and_files_of_all_kinds(module, tmp_path):
    generator = module("""
        import numpy as np
        def records(shard, shards):
            if shard == 2:  # Shards may be empty.
                for number in range(20):
                    image = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
                    yield image, np.int64(number % 2)
    """)
    manifest = ingest(generator, tmp_path / "out", generator={"shards": 4})
    assert manifest.books.written == 20
    assert {row["label"] for row in _index(tmp_path / "out").values()} == {"0", "1"}


def test_items_may_have_no_label(module, tmp_path):
    generator = module(_ARRAYS.replace('"label"', '"kind"').replace('"tags"', '"words"'))
    ingest(generator, tmp_path / "out", generator={"shards": 3})
    rows = _index(tmp_path / "out").values()
    assert {row["label"] for row in rows} == {""}
    assert {row["kind"] for row in rows} == {"cat", "dog"}
    options = complete_options(generator, IngestOptions())
    with pytest.raises(UserError, match="have no label, but training needs at least two classes"):
        check_classes(survey_images(generator, options), generator)
    labelled = module(_ARRAYS)
    options = complete_options(labelled, IngestOptions())
    survey = survey_images(labelled, options)
    assert (survey.found, survey.classes) == (16, {})
    check_classes(survey, labelled)


def test_what_is_wrong_is_quarantined_by_its_place(module, tmp_path):
    generator = module("""
        import numpy as np
        def image(n):
            return np.random.default_rng(n).integers(0, 256, (8, 10, 3), np.uint8)
        def records(shard, shards):
            for n in range(50):
                yield {"image": image(100 * shard + n), "label": n % 2, "age": n}
            if shard == 0:
                yield [1, 2]
                yield {"image": "a.png", "label": 1, "age": 1}
                yield {"image": image(7), "label": 1, "age": "old"}
                yield {"image": image(8), "label": None, "age": 1}
                yield {"image": image(9), "label": 1, "age": 1, "size": 5}
                yield {"image": b"no image", "label": 1, "age": 1}
                yield {"image": image(10), "label": [1], "age": 1}
                yield {"label": 1, "age": 1}
            if shard == 1:
                raise OSError("the disk is gone")
    """)
    settings = {"max_bad_fraction": 0.2, "generator": {"shards": 2, "errors": "quarantine"}}
    manifest = ingest(generator, tmp_path / "out", **settings)
    assert manifest.books.found == 100 + 8 + 1
    lines = read_lines(tmp_path / "out" / "quarantine.jsonl")
    found = {line["path"]: (line["reason"], line["message"]) for line in lines}
    place = "records/0000"
    assert found.pop("records/0001/00000050") == (
        "generator_failed",
        f"records/0001:50: OSError: the disk is gone ({tmp_path}/code/"
        f"{generator.split(':')[1]}.py:18); the rest of this shard is missing",
    )
    reasons = {path: reason for path, (reason, _) in found.items()}
    assert reasons == {
        f"{place}:50": "bad_row",
        f"{place}:51": "bad_row",
        f"{place}:52": "wrong_type",
        f"{place}/00000053": "no_label",
        f"{place}:54": "bad_row",
        f"{place}/00000055": "not_an_image",
        f"{place}:56": "wrong_type",
        f"{place}:57": "bad_row",
    }
    messages = {path: message for path, (_, message) in found.items()}
    assert messages[f"{place}:50"] == (
        "records/0000:50: an item must be a dict by columns' names or a pair (image, label), got "
        "list of 2"
    )
    assert messages[f"{place}:51"].endswith("or bytes, got str")
    assert messages[f"{place}:54"].endswith("or leave it out by null")
    assert messages[f"{place}:57"].endswith("or bytes, got nothing")


def test_errors_stop_the_run_unless_they_are_quarantined(module, tmp_path):
    generator = module("""
        import numpy as np
        def records(shard, shards):
            for n in range(40):
                if (shard, n) == (1, 35):
                    raise OSError("the disk is gone")
                yield np.full((4, 4, 3), 5 * n, np.uint8), n % 2
    """)
    name = generator.split(":")[1]
    with pytest.raises(UserError, match=rf"failed in shard 1 at item 35: OSError.*{name}\.py:6"):
        ingest(generator, tmp_path / "out", generator={"shards": 2})
    assert not (tmp_path / "out" / "manifest.json").exists()
    bad = module("def records(shard, shards):\n    yield b'x' * 9, 'a'\n    yield 5\n")
    with pytest.raises(UserError, match=r"records/0000:1: an item must.* and ingest.bad_rows=err"):
        ingest(bad, tmp_path / "bad", bad_rows="error")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def other(shard, shards): yield 1", "cannot be loaded: module .* has no 'records'"),
        ("import nowhere_at_all", "cannot be loaded: No module named 'nowhere_at_all'"),
        (
            "def records(shard, shards): yield 5",
            "row that can be read .*pair .image, label., got int",
        ),
        ("def records(shard, shards): yield 5, 6", "have no image; their 'image' must be an array"),
        ("def records(): yield 1", "failed in shard 0 at item 0: TypeError: records"),
        ("def records(shard, shards): return iter(())", "yields nothing in any of its 2 shards"),
        ("def records(shard, shards): 1 / 0", "ZeroDivisionError: division by zero .*py:1"),
    ],
)
def test_what_cannot_be_run_is_refused_before_the_run(module, source, message):
    options = IngestOptions(generator={"shards": 2})
    with pytest.raises(UserError, match=message):
        complete_options(module(source), options)


def test_an_interrupted_run_goes_on_behind_the_units_that_are_done(module, tmp_path, monkeypatch):
    counted = tmp_path / "counted"
    generator = module(f"""
        import numpy as np
        def records(shard, shards):
            with open({str(counted)!r}, "a") as file:
                file.write(f"{{shard}}\\n")
            for n in range(2):
                image = np.random.default_rng(100 * shard + n).integers(0, 256, (8, 8, 3), np.uint8)
                yield image, n
    """)
    write, failing = prepare_chunk.write_rows, [True]

    def write_some(results, name, work, seed):
        rows = write(results, name, work, seed)
        if failing and len(list((tmp_path / "out" / ".work" / "prepared").glob("*.json"))) == 1:
            failing.clear()
            raise OSError("no space")
        return rows

    monkeypatch.setattr(prepare_chunk, "write_rows", write_some)
    settings = {"generator": {"shards": 40}}
    with pytest.raises(Exception, match="no space"):
        ingest(generator, tmp_path / "out", **settings)
    counted.unlink()
    manifest = ingest(generator, tmp_path / "out", **settings)
    assert manifest.books.written == 80
    ran = set(map(int, counted.read_text().split()))
    assert ran == {0, *range(16, 40)}  # 0 for the sample.
    ingest(generator, tmp_path / "again", **settings)
    assert _shards(tmp_path / "again") == _shards(tmp_path / "out")


def test_what_is_known_by_code_and_options_is_used_again(module):
    generator = module(_ARRAYS)

    def identify(**options):
        listing = list_images(generator, IngestOptions(generator={"shards": 2, **options}))
        return listing.fingerprint, listing.options.stored_form()["generator"]

    first, stored = identify(timeout_s=50)
    assert identify(timeout_s=60) == (first, stored)
    assert stored == {"shards": 2, "errors": "stop", "version": ""}
    assert identify(shards=3)[0] != first and identify(version="b")[1] != stored
    module(_ARRAYS.replace("number / 3", "number / 4"))
    assert identify()[0] != first


def test_all_images_are_made_again_and_nothing_is_forecast(module, tmp_path):
    generator = module(_ARRAYS)
    ingest(generator, tmp_path / "out")
    assert update(generator, tmp_path / "out", tmp_path / "again") == 0
    with pytest.raises(UserError, match="known once it has run, so nothing is forecast"):
        forecast_ingest(generator, IngestOptions())


def test_what_a_generator_makes_is_in_no_file_and_cannot_be_left_there(module):
    raw = {"in_place": True, "prepare": {"resize": "none", "encoding": "raw"}}
    with pytest.raises(UserError, match=r"ingest.in_place is for files of arrays and archives"):
        complete_options(module(_ARRAYS), IngestOptions.model_validate(raw))


def test_options_of_generators_are_for_generators(tmp_path):
    write_folder(tmp_path / "images", per_class=1)
    with pytest.raises(
        UserError, match=r"ingest.generator is for images given as generator:MODULE"
    ):
        complete_options(str(tmp_path / "images"), IngestOptions(generator={}))
    for wrong in ("generator:", "generator:records", "generator:my.module.records"):
        with pytest.raises(UserError, match="is given as generator:MODULE:FUNCTION, such as"):
            complete_options(wrong, IngestOptions())
    assert "generator" not in json.dumps(IngestOptions().stored_form())
    assert "generator" not in IngestOptions().to_json()


def test_masks_come_with_their_images(module, tmp_path):
    generator = module("""
        import cv2
        import numpy as np
        def records(shard, shards):
            for n in range(10):
                image = np.random.default_rng(n).integers(0, 256, (8, 8, 3), np.uint8)
                mask = np.zeros((8, 8), np.uint8)
                mask[: n // 2 + 1] = 1
                yield {"image": image, "mask": cv2.imencode(".png", mask)[1].tobytes()}
    """)
    manifest = ingest(generator, tmp_path / "out", generator={"shards": 1})
    assert manifest.books.written == 10
    rows = _index(tmp_path / "out")
    assert all(row["mask_ids"] == [0, 1] for row in rows.values())


def test_stored_pixels_are_the_arrays(module, tmp_path):
    ingest(module(_ARRAYS), tmp_path / "out", generator={"shards": 3})
    import tensorflow as tf

    from image_pipeline.components.dataset import record, tfrecord

    seen = 0
    for path in sorted((tmp_path / "out").glob("Split-*/*")):
        with path.open("rb") as file:
            for data in tfrecord.read_records(file):
                feature = tf.train.Example.FromString(data).features.feature
                number = feature["age"].int64_list.value[0]
                stored = tf.io.decode_png(feature[record.IMAGE].bytes_list.value[0]).numpy()
                np.testing.assert_array_equal(stored, draw(number))
                seen += 1
    assert seen == 40


def test_two_images_of_one_name_are_refused_even_in_different_units(module, tmp_path):
    images = module("""
        import numpy as np

        def records(shard, shards):
            for number in range(shard, 40, shards):
                image = np.random.default_rng(number).integers(0, 256, (8, 10, 3), np.uint8)
                yield {"image": image, "label": "a", "path": f"{number % 39}.png"}
    """)
    for shards in (2, 20):
        with pytest.raises(UserError, match=r"Two images are called '0\.png'.*such names: 1\)"):
            ingest(images, tmp_path / f"out{shards}", generator={"shards": shards})
