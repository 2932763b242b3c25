"""What an address may ask for beside a search: a record, a rejected file, a batch of training."""

import dataclasses
import io
import json
import shutil
import urllib.parse

import numpy as np
import pytest
from PIL import Image
from werkzeug.test import Client

from image_pipeline import input_fn
from image_pipeline.browse.catalogue import Query
from image_pipeline.browse.server import App
from image_pipeline.browse.session import Session
from image_pipeline.components.dataset.manifest import read_manifest
from image_pipeline.components.errors import UserError
from image_pipeline.components.feeding.analysis import read_graph
from image_pipeline.components.feeding.certificate import FedBatches, certify, write_certificate
from image_pipeline.components.feeding.options import FeedingOptions
from image_pipeline.components.views.options import ViewOptions
from tests.drawings import draw, encode_png, write_folder
from tests.ingest_runs import ingest
from tests.pipeline.browse.browsed import VIEW
from tests.shards import flip_bit

pytestmark = pytest.mark.beam

STEPS = [{"op": "random_resized_crop", "area": [0.3, 0.6]}, {"op": "color_jitter", "hue": 0.1}]
KEY = "image/filename"


@pytest.fixture
def ask(browsed, tmp_path):
    """Asks for an address of a session that knows how views are made."""
    size = "feeding.batch_size=6"
    return asking(browsed.open(tmp_path, *VIEW, f"feeding.augment={STEPS}", size, seed=3))


def asking(session):
    client = Client(App(session, "token"))

    def ask(address):
        answer = client.get(f"/token/{address}", base_url="http://127.0.0.1")
        content = answer.data if answer.mimetype == "image/png" else json.loads(answer.data)
        return answer.status_code, content

    ask.session = session
    return ask


def find(ask, path):
    return int(ask.session.catalogue.find(Query(path=path))[0])


@pytest.mark.parametrize("path", ["cat/04.png", "cat/copy.png", "dog/<b>.png", "about.txt"])
def test_a_link_opens_a_record_or_a_rejected_file(ask, path):
    number = find(ask, path)
    for address in (f"search?record={number}", f"search?file={path}"):
        status, told = ask(address)
        assert (status, told["opened"], told["found"]) == (200, number, 27)
        assert number in [each["number"] for each in told["entries"]]
    assert ask(f"record/{number}")[1]["entry"]["path"] == path


NAMES = [
    *("50%.png", "50%25.png", "a#b.png", "a?b=c&d.png", "a b.png", "a+b.png", "\"q\" 'q'.png"),
    *("übung.png", "<b>.png", "nl\nx.png", "\u202egpj.exe.png", "esc\x1b[2J.png", r"back\x41.png"),
]


def test_a_link_opens_what_is_called_by_signs_of_addresses_and_as_the_page_shows_it(tmp_path):
    (tmp_path / "images" / "x").mkdir(parents=True)
    for number, name in enumerate(NAMES):
        (tmp_path / "images" / "x" / name).write_bytes(encode_png(draw(number)))
    ingest(tmp_path / "images", tmp_path / "data")
    session = Session(str(tmp_path / "data"), marks_path=str(tmp_path / "marks.txt"))
    ask = asking(session)
    for name in (f"x/{each}" for each in NAMES):
        opened = session.search({"file": name})["opened"]
        assert session.catalogue.read([opened], ["source"])[0]["source"] == name
        shown = session.describe(opened)["entry"]["path"]
        assert session.search({"file": shown})["opened"] == opened
        assert ask(f"search?{urllib.parse.urlencode({'file': name})}")[1]["opened"] == opened


def test_it_turns_to_the_page_of_its_search(ask, monkeypatch):
    monkeypatch.setattr("image_pipeline.browse.session.PAGE_SIZE", 5)
    told = ask("search?order=path&file=cat/04.png")[1]
    paths = [f"cat/{n:02d}.png" for n in range(0, 24, 2)]
    expected = sorted(["about.txt", *paths, "cat/copy.png"])
    place = expected.index("cat/04.png")
    assert told["page"] == place // 5 == 0
    assert [each["path"] for each in told["entries"]] == expected[:5]
    assert ask("search?order=path&file=cat/22.png")[1]["page"] == expected.index("cat/22.png") // 5
    # What the search does not find is opened all the same.
    assert ask(f"search?label=dog&page=1&record={find(ask, 'cat/04')}")[1]["page"] == 1


def test_a_batch_is_shown_as_it_is_fed_in_its_order(ask, browsed):
    records = read_manifest(str(browsed.data)).splits["train"].records
    fed = list(
        input_fn(
            str(browsed.data),
            "train",
            view={"height_px": 8, "width_px": 8},
            augment=STEPS,
            batch_size=6,
            epochs=1,
            first_epoch=2,
            seed=3,
            columns=(KEY,),
        )
    )
    assert len(fed) == -(-records // 6) > 2
    for step, (inputs, _) in enumerate(fed):
        status, told = ask(f"search?epoch=2&step={step}")
        names = [name.decode() for name in inputs[KEY].numpy()]
        assert (status, told["epoch"], told["page"], told["pages"]) == (200, 2, step, len(fed))
        assert [each["path"] for each in told["entries"]] == names
        assert told["found"] == len(names)
        for entry, pixels in zip(told["entries"], inputs["image"].numpy(), strict=True):
            status, png = ask(entry["picture"])
            assert status == 200
            np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png))), pixels)
    assert ask("search?epoch=2")[1]["page"] == 0
    assert ask("search?step=1")[1]["epoch"] == 0
    assert ask("search?epoch=1&step=0&record=3")[1]["opened"] == 3


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("search?record=27", 404, "numbers are from 0 to 26, got 27."),
        ("search?record=-1", 400, "record cannot be '-1': Input should be greater than or equal"),
        ("search?record=cat", 400, "record cannot be 'cat': Input should be a valid integer"),
        ("search?file=gone.png", 404, "no record or rejected file of the data set is called 'go"),
        ("search?file=../images/cat/04.png", 404, "no record or rejected file of the data set is"),
        ("search?epoch=0&step=99", 422, "an epoch has the steps 0 to "),
        ("search?epoch=99999999999&step=0", 400, "epoch cannot be '99999999999': Input should be"),
        ("search?epoch=x&step=0", 400, "epoch cannot be 'x': Input should be a valid integer"),
        ("batch/0/0/6.picture", 404, "the batch has 6 pictures, 0 to 5."),
        ("batch/0/99/0.picture", 422, "an epoch has the steps 0 to "),
        ("batch/99999999999/0/0.picture", 404, "not found"),
        ("search?paht=x", 422, "a link has no 'paht'; did you mean path? known: path, label,"),
        ("search?least_px=many", 400, "least_px cannot be 'many': Input should be a valid integer"),
        ("search?order=random", 400, "order cannot be 'random': Input should be"),
        ("search?page=x", 400, "page cannot be 'x': Input should be a valid integer"),
    ],
)
def test_a_bad_link_is_answered_in_a_sentence(ask, address, status, said):
    answered, told = ask(address)
    assert (answered, list(told)) == (status, ["error"])
    assert said in told["error"] and "\n" not in told["error"] and told["error"].endswith(".")


@pytest.mark.parametrize("address", ["search?epoch=0&step=0", "batch/0/0/0.picture"])
def test_a_batch_needs_to_know_how_views_are_made(browsed, tmp_path, address):
    status, told = asking(browsed.open(tmp_path))(address)
    assert (status, told["error"]) == (
        422,
        "How training makes its views is not known; start with --graph, --config or --set, "
        "or give a run's folder.",
    )


def test_a_model_s_batches_are_those_that_it_was_fed(ask, browsed, tmp_path):
    """By its certificate, up to its end, instead of options."""
    paths = [str(path) for path in sorted(browsed.data.glob("Split-train/*"))]
    view = ViewOptions(height_px=8, width_px=8)
    feeding = FeedingOptions.model_validate({"batch_size": 6, "augment": STEPS})
    fed = certify(paths, view, feeding, 3, 3).until(2, 1)
    write_certificate(str(tmp_path), fed)
    model = asking(browsed.open(tmp_path, model=str(tmp_path)))
    for epoch, step in ((0, 0), (1, 2), (2, 0)):
        for address in (f"search?epoch={epoch}&step={step}", f"batch/{epoch}/{step}/1.picture"):
            answered = model(address)
            assert answered[0] == 200 and answered == ask(address)
    names = [each.source for each in FedBatches(fed, [str(browsed.data)]).list_batch(6)]
    assert [each["path"] for each in model("search?epoch=2&step=0")[1]["entries"]] == names
    said = "the model was fed the batches from epoch 0 step 0 up to, but not, epoch 2 step 1."
    assert model("search?epoch=2&step=1") == (422, {"error": said})
    other = dataclasses.replace(fed.parts[0], data=[("0" * 64, "train"), ("1" * 64, "more")])
    write_certificate(str(tmp_path), dataclasses.replace(fed, parts=[other]))
    with pytest.raises(UserError, match=r"was last fed train of 0{16}…, more of 1{16}… "):
        browsed.open(tmp_path, model=str(tmp_path))


def test_batches_without_a_train_split_are_refused(browsed, tmp_path):
    write_folder(tmp_path / "images", per_class=3)
    ingest(tmp_path / "images", tmp_path / "data", splits={"eval": 1})
    other = type(browsed)(tmp_path / "images", tmp_path / "data").open(tmp_path, *VIEW)
    status, told = asking(other)("search?epoch=0&step=0")
    said = "the data set must have the split train, but has eval."
    assert (status, told["error"]) == (422, said)


def test_a_graph_changes_no_picture_but_one_of_more_data_sets_has_other_batches(
    browsed, graph_dir, tmp_path, monkeypatch
):
    plain = asking(browsed.open(tmp_path, *VIEW, f"feeding.augment={STEPS}", seed=3))
    ask = asking(browsed.open(tmp_path, f"feeding.augment={STEPS}", graph=graph_dir, seed=3))
    assert ask("batch/1/0/4.picture") == plain("batch/1/0/4.picture")
    two = read_graph(graph_dir).model_copy(update={"manifests": ["one", "two"]})
    monkeypatch.setattr("image_pipeline.browse.views.read_graph", lambda folder: two)
    status, told = ask("search?epoch=2&step=0")
    assert status == 422 and told["error"].startswith("the transform graph was made of several")


def test_a_damaged_record_of_a_batch_is_named(browsed, tmp_path):
    shutil.copytree(browsed.data, tmp_path / "data")
    damaged = type(browsed)(browsed.images, tmp_path / "data")
    ask = asking(damaged.open(tmp_path, *VIEW, "feeding.batch_size=24"))
    catalogue = ask.session.catalogue
    row = next(row for row in catalogue.read(range(24)) if row["split"] == "train")
    flip_bit(catalogue.find_shard(row), row["record_offset"] + 20)
    status, told = ask("search?epoch=0&step=0")
    assert (status, list(told)) == (422, ["error"])
    assert row["source"] in told["error"] and "is damaged" in told["error"]
