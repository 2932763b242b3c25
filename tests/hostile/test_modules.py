"""The current folder is somebody's: nothing in it is run but what an option names."""

import sys

import cloudpickle
import pytest

from image_pipeline.components import dotted
from image_pipeline.components.errors import UserError
from image_pipeline.components.named_modules import MODULES
from tests.drawings import write_folder
from tests.hostile.measured import run_measured, run_python
from tests.tiers import wide

pytestmark = pytest.mark.e2e

# What installed libraries try to import and do not find here, standard modules, installed
# packages, this project's, and what Python imports at its start where it is found.
_NAMES = (
    *("org", "numexpr", "lz4", "jax", "snappy", "brotli", "bottleneck", "cupy", "fastavro"),
    *("json", "typing", "pickle", "numpy", "tensorflow", "yaml", "sitecustomize"),
    *("pipeline", "components", "image_pipeline", "tests"),
)
_RAN = "CODE OF THIS FOLDER RAN"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with images, and with modules and packages that end whatever imports them."""
    folder = tmp_path_factory.mktemp("unpacked")
    write_folder(folder / "photos", per_class=8)
    for number, name in enumerate(_NAMES):
        (folder / name).mkdir()
        path = folder / name / "__init__.py" if number % 2 else folder / f"{name}.py"
        path.write_text(f"print({_RAN!r}, flush=True)\nimport os\nos._exit(9)\n")
    (folder / "mine.py").write_text(
        "import beside\n\ndef open_source(path):\n    import later\n"
        "    return later.Photos(path, beside.NAMES)\n\n"
        "def numbers(shard, shards):\n    import later\n    yield from later.yield_images(shard)\n"
    )
    (folder / "beside.py").write_text("NAMES = ['cat/0.png', 'dog/0.png']\n")
    (folder / "later.py").write_text(
        "import pathlib\nimport numpy\nfrom image_pipeline import ImageRef\n\n"
        "class Photos:\n"
        "    def __init__(self, path, names):\n"
        "        self.path, self.names = pathlib.Path(path), names\n"
        "    def list(self):\n"
        "        for name in self.names:\n"
        "            yield ImageRef(name, 0, 0)\n"
        "    def read(self, ref, most_bytes):\n"
        "        return sorted(self.path.glob(ref.path.split('/')[0] + '/*'))[0].read_bytes()\n\n"
        "def yield_images(shard):\n"
        "    for number in range(4):\n"
        "        yield numpy.full((8, 8, 3), shard * 4 + number, 'uint8'), 'cat'\n"
    )
    return folder


def run(folder, *words):
    ran = run_measured(words, folder)
    assert _RAN not in ran.output
    return ran


@pytest.mark.parametrize("engine", ["in_memory", wide("multi_processing")])
def test_the_commands_of_a_data_set_run_nothing_of_it(folder, tmp_path, engine):
    data, graph = tmp_path / "data", tmp_path / "graph"
    beam = ("--", f"--direct_running_mode={engine}")
    for words in (
        ("ingest", "--images", "photos", "--output", data, *beam),
        ("verify", data),
        ("init", "photos", "--yes", "--output", tmp_path / "config.yaml"),
        ("plan", "--images", "photos"),
        ("analyze", data, "--output", graph, *beam),
        ("inspect", graph),
    ):
        ran = run(folder, *words)
        assert ran.code == 0, (words, ran.output)


@pytest.mark.parametrize("images", ["source:mine:open_source:photos", "generator:mine:numbers"])
def test_a_module_that_an_option_names_is_found_with_what_it_imports(folder, tmp_path, images):
    ran = run(folder, "ingest", "--images", images, "--output", tmp_path / "data")
    assert ran.code == 0, ran.output


@pytest.mark.wide
def test_the_workers_of_an_analysis_find_a_function_of_the_users_own(folder, tmp_path):
    (folder / "own").mkdir()
    (folder / "own" / "steps.py").write_text(
        "import tensorflow as tf\n"
        "from image_pipeline.components.transform.labels import label_ids\n\n"
        "def preprocess(inputs):\n    from own import scale\n"
        "    image = tf.cast(inputs['image'], tf.float32) / scale.MOST\n"
        "    return {'image': image, 'label': label_ids(inputs['label'])}\n"
    )
    (folder / "own" / "scale.py").write_text("MOST = 255.0\n")
    words = ("ingest", "--images", "photos", "--output", tmp_path / "data")
    assert run(folder, *words).code == 0
    chosen = ("--set", "transform.preprocessing_fn=own.steps.preprocess")
    words = ("analyze", tmp_path / "data", "--output", tmp_path / "graph", *chosen)
    ran = run(folder, *words, "--", "--direct_running_mode=multi_processing")
    assert ran.code == 0, ran.output


@pytest.fixture
def named(tmp_path, monkeypatch):
    """An empty folder of a user's modules; all that is found in it is forgotten afterwards."""
    monkeypatch.setenv(MODULES, str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_a_worker_finds_the_module_of_a_pickled_function(named):
    (named / "fifth_of_mine.py").write_text("import sixth_of_mine\nbuild = sixth_of_mine.build\n")
    (named / "sixth_of_mine.py").write_text("def build():\n    return 6\n")
    path = "fifth_of_mine.build"
    pickled = cloudpickle.dumps(dotted.Named("option", path, dotted.load_object(path)))
    code = f"import cloudpickle; print(cloudpickle.loads({pickled!r}).function())"
    ran = run_python([sys.executable, "-P", "-c", code], named.parent)
    assert (ran.code, ran.output) == (0, "6\n")


def test_only_a_named_module_may_import_what_is_beside_it(named):
    (named / "first_of_mine.py").write_text("import second_of_mine\nvalue = second_of_mine.value\n")
    (named / "second_of_mine.py").write_text("value = 5\n")
    (named / "third_of_mine.py").write_text("")
    with pytest.raises(ModuleNotFoundError):
        import second_of_mine  # noqa: F401
    assert dotted.load_object("first_of_mine.value") == 5
    with pytest.raises(ModuleNotFoundError):
        import third_of_mine  # noqa: F401


def test_a_package_is_found_with_its_modules(named):
    (named / "package_of_mine" / "inner").mkdir(parents=True)
    (named / "package_of_mine" / "inner" / "steps.py").write_text("def step():\n    return 7\n")
    assert dotted.load_object("package_of_mine.inner.steps.step")() == 7


def test_an_installed_package_comes_first(named):
    (named / "yaml.py").write_text("raise RuntimeError('of the folder')\n")
    assert dotted.load_object("yaml.safe_load").__module__ == "yaml"


def test_without_a_named_folder_nothing_is_found(named, monkeypatch):
    monkeypatch.delenv(MODULES)
    (named / "fourth_of_mine.py").write_text("value = 1\n")
    with pytest.raises(UserError, match="no module 'fourth_of_mine'"):
        dotted.load_named("training.model", "fourth_of_mine.value")


def test_an_installed_package_that_is_named_finds_nothing_in_the_folder(named, monkeypatch):
    (named / "optional_of_others.py").write_text("")
    installed = named.parent / "installed"
    installed.mkdir()
    code = "def build():\n    import optional_of_others\n"
    (installed / "library_of_others.py").write_text(code)
    monkeypatch.syspath_prepend(installed)
    with pytest.raises(ModuleNotFoundError):
        dotted.load_object("library_of_others.build")()
    sys.modules.pop("library_of_others")
