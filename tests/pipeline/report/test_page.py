"""`image-pipeline report`: the page of a data set and of a run."""

import base64
import hashlib
import html.parser
import json
import re
import shutil

import pytest

from image_pipeline.components.evaluation.facts import read_evaluation
from image_pipeline.components.feeding.budget import Stage
from image_pipeline.doctor.verdict import write_examination
from image_pipeline.report.page import SECTIONS
from tests.pipeline.doctor.test_judged import make_figures
from tests.pipeline.doctor.test_show import examine
from tests.pipeline.test_commands import call

pytestmark = pytest.mark.beam

# Attributes by which a browser fetches something.
_FETCHING = {"src", "srcset", "href", "data", "action", "poster", "background"}
_VOID = {"meta", "link", "input", "img", "br", "wbr", "circle", "rect", "polyline", "path"}


class Page(html.parser.HTMLParser):
    """Collects what tests ask for, and whether every tag is closed in its order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.references, self.open, self.words = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        self.references += [value for name, value in attrs if name in _FETCHING]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in _VOID:
            assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        self.words.append(data)


def write(folder, path, *options):
    result, output = call("report", folder, "--output", path, *options)
    assert result.exit_code == 0, output
    return output, path.read_text()


@pytest.fixture(scope="module")
def texts(data_dir, run_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return {
        "data set": write(data_dir, folder / "data.html")[1],
        "run": write(run_dir, folder / "run.html", "--against", data_dir)[1],
    }


@pytest.fixture(params=["data set", "run"])
def text(texts, request):
    return texts[request.param]


def test_the_page_needs_no_other_file_and_runs_no_script_but_its_own(text):
    page = Page(text)
    assert page.open == [] or page.open == ["html"]
    assert all(re.match(r"#[a-z_]+$|data:", each) for each in page.references)
    tags = [tag for tag, _ in page.tags]
    assert not {*tags} & {"iframe", "object", "embed", "base", "form"}
    assert not re.search(r"url\(|@import|https?://", text)
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    assert tags.count("script") == 1
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policies = [attrs["content"] for tag, attrs in page.tags if "http-equiv" in attrs]
    assert policies == [
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    ]


def test_every_section_is_there_once_and_the_contents_lead_to_it(text):
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert [each for each in page.ids if each in SECTIONS] == list(SECTIONS)
    links = [each for each in page.references if each.startswith("#")]
    assert {f"#{name}" for name in SECTIONS} <= set(links)
    assert {link[1:] for link in links} <= set(page.ids)


def test_every_picture_can_be_enlarged_filtered_and_its_path_copied(texts, data):
    page = Page(texts["data set"])
    figures = [attrs for tag, attrs in page.tags if tag == "figure"]
    assert {each["data-class"] for each in figures} >= {"cat", "dog"}
    assert {each["data-split"] for each in figures} == {"", "train", "eval"}
    assert {each["data-reason"] for each in figures} == {
        *("", "Not an image", "Files that end too early")
    }
    names = [attrs["aria-label"] for tag, attrs in page.tags if attrs.get("class") == "copy"]
    assert names == [f"Copy the path {json.loads(each['data-path'])}" for each in figures]
    pictures = [tag for tag, attrs in page.tags if tag == "img" and "loading" in attrs]
    assert len(pictures) == [attrs.get("class") for _, attrs in page.tags].count("open") > 40
    words = texts["run"]
    assert 'data-prediction="cat (50.0 %)"' in words or 'data-prediction="dog (50.0 %)"' in words


def test_keys_of_lists_are_said_in_words(texts):
    words = " ".join(" ".join(Page(texts["data set"]).words).split())
    assert "Not an image: 1 not_an_image" in words and "Files that end too early: 1" in words
    assert "Images that look like another one" in words


def test_people_without_a_mouse_or_without_eyes_are_served(text):
    page = Page(text)
    assert ("html", {"lang": "en"}) in page.tags
    assert [tag for tag, _ in page.tags].count("h1") == 1
    assert all(attrs.get("aria-label") for tag, attrs in page.tags if tag == "svg")
    buttons = [attrs for tag, attrs in page.tags if tag == "button"]
    assert all(attrs["type"] == "button" for attrs in buttons)
    assert all("alt" in attrs for tag, attrs in page.tags if tag == "img")
    wide = [attrs for _, attrs in page.tags if attrs.get("class") == "wide"]
    assert wide and all(attrs["tabindex"] == "0" and attrs["aria-label"] for attrs in wide)
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text


def test_names_from_files_are_escaped(texts):
    assert 'data-path="&#34;cat/&lt;b&gt;.png&#34;"' in texts["data set"]
    assert "<b>.png" not in texts["data set"]


def test_the_page_shows_the_figures(texts, run):
    found = read_evaluation(run.artifact("evaluation"))
    score, records = found.score, found.records
    words = " ".join(" ".join(Page(texts["run"]).words).split())
    waited = "waited for input 15.0 % of its time (evaluation left out), most in epoch 3: 25.0 %."
    started = "Random steps: rotate, cutout. It started from training.weights=mine.weights.h5."
    best = "The best epoch by early stopping's figure was 2."
    assert f"Training {waited} {started} {best}" in words
    for shown in (
        *("Report of the run", "Every file is accounted for", "Rejected files: 2 (7.4 %)"),
        *(
            f"Accuracy {score.value:.3f} ({score.low:.3f} to {score.high:.3f}) on {records} record",
            "Not pushed: its Evaluator did not bless it.",
            f"Accuracy {score.value:.1%}".replace("%", " %"),
            "3 epochs, 12 steps, 4.0 s",
        ),
        *("values missing from the schema: emu.", "batch_size: 4", "Batches of 4"),
        *("Rows are labels, columns predictions.", "ingest.near_duplicates"),
        "in brackets, the range that chance allows",
    ):
        assert shown in words, shown
    words = " ".join(" ".join(Page(texts["data set"]).words).split())
    assert "What stands out Files with the same bytes as one with another label: 1;" in words
    assert "Only the report of a run has this" in words and "Ingest compared all images" in words
    assert "Files that repeat another one's bytes: 2, in 2 groups." in words
    assert "look like another one: 2, in 1 group." in words and "Nothing to compare with" in words


def test_the_same_data_give_the_same_page(data_dir, texts, tmp_path):
    assert write(data_dir, tmp_path / "again.html")[1] == texts["data set"]


def test_the_command_tells_where_the_page_is_and_what_stands_out(data_dir, tmp_path):
    output, _ = write(data_dir, tmp_path / "page.html")
    assert output.splitlines() == [
        "conflicts: Files with the same bytes as one with another label: 1; correct the labels, "
        "and ingest again.",
        "quarantine: Rejected files: 2 (7.4 %); repair them, and ingest again.",
        str(tmp_path / "page.html"),
    ]


def test_figures_for_machines(data_dir, tmp_path):
    output, text = write(data_dir, tmp_path / "page.html", "--json")
    figures = json.loads(output)
    assert figures["output"] == str(tmp_path / "page.html") and text
    assert figures["books"]["found"] == 27 and figures["kind"] == "data set"
    assert figures["classes"]["rows"][0]["total"] == 13


def test_what_is_wrong_is_said(data_dir, tmp_path):
    _, output = call("report", tmp_path, "--output", tmp_path / "page.html")
    assert "holds neither a complete data set (manifest.json) nor a run" in output
    missing = tmp_path / "no"
    _, output = call("report", data_dir, "--against", missing, "--output", tmp_path / "page.html")
    assert "does not exist" in output
    (tmp_path / "page.html").mkdir()
    _, output = call("report", data_dir, "--output", tmp_path / "page.html")
    assert f"Cannot write '{tmp_path}/page.html'" in output
    result, output = call("report", data_dir, "--output", "page.pdf")
    assert result.exit_code == 2 and "--output must end in .html" in output


def test_the_page_of_a_run_shows_what_training_sees(texts):
    _, *rows = texts["run"].split('<div class="pictures views">')
    rows = [row.partition("</section>")[0] for row in rows]
    notes = ["stored, 10×8", "eval, 8×8", *(f"train, epoch {n}" for n in range(3))]
    notes.append("model&#39;s input, mid-grey: the mean")
    assert len(rows) == 4
    for row in rows:
        assert re.findall('data-note="([^"]+)"', row)[:6] == notes
        assert row.count("data:image/png;base64,") == 6
    assert "How views are made is known by a run" in texts["data set"]


def test_a_step_that_cannot_be_loaded_costs_only_its_section(run_dir, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr("image_pipeline.preview.samples.read_views", fail)
    _, text = write(run_dir, tmp_path / "page.html")
    assert '<p class="absent">RuntimeError: no such kernel</p>' in text
    assert "Every file is accounted for" in text


def test_the_page_of_a_run_lists_the_runs_of_its_folder(texts):
    section = texts["run"].split('<section id="history"')[1].split("</section>")[0]
    assert '<th scope="row" class="n">1</th>' in section
    assert '<th scope="row">Trainer</th><td>made</td>' in section
    assert "Only the report of a run" in texts["data set"].split('<section id="history"')[1]


def test_the_page_of_a_run_shows_what_the_doctor_found(texts, run_dir, tmp_path):
    section = texts["run"].split('<section id="speed"')[1].split("</section>")[0]
    assert f"image-pipeline doctor {run_dir} measures what limits training" in section
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    found = examine(make_figures(others_share=0.3, memory=[Stage("index", 54_000, "bytes")]))
    write_examination(str(copy / "doctor.json"), found)
    _, text = write(copy, tmp_path / "page.html")
    section = text.split('<section id="speed"')[1].split("</section>")[0]
    assert f'<p class="said">{found.line}</p>' in section
    decode = '<th scope="row">+ decode</th><td class="n">167</td><td class="n">0.010000</td>'
    assert f'{decode}<td class="n">5.000</td>' in section
    assert "Model&#39;s step alone: 40.0 ms for 10 images." in section
    assert "Other programs used 30% of the processor" in section and "54.0 kB" in section
    (copy / "doctor.json").write_text("{")
    _, text = write(copy, tmp_path / "page.html")
    assert "run `image-pipeline doctor` again" in text.split('<section id="speed"')[1]
