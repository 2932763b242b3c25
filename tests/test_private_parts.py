"""What is touched of libraries beyond their public interface: all of it is listed here."""

import ast
import functools
import pathlib
import re
import sys

import pytest

pytestmark = pytest.mark.unit

ROOT = pathlib.Path(__file__).parents[1]
LIBRARIES = {
    *("apache_beam", "keras", "kfp", "kfp_server_api", "ml_metadata", "tensorflow"),
    *("tensorflow_data_validation", "tensorflow_model_analysis", "tensorflow_transform"),
    *("tfx", "tfx_bsl"),
}

# TFX's public interface is `tfx.v1`, which imports all of TFX and Google's AI Platform: that takes
# 1.5 to 2.5 s more at each start. So its classes are taken from where it has them (test_pipeline.py
# compares), and only what compiles for Kubeflow imports it. Of Beam-based components, drivers and
# resolvers of one's own it has nothing. By module, what is taken from it.
MODULES = {
    "tfx.components": {"ExampleValidator", "SchemaGen", "Trainer"},
    "tfx.components.evaluator": {"component", "executor"},
    "tfx.components.example_gen": {"utils"},
    "tfx.components.pusher": {"component", "executor"},
    "tfx.components.statistics_gen": {"component", "executor"},
    "tfx.components.util": {"examples_utils", "model_utils"},
    "tfx.dsl.components.base": {
        *("base_beam_component", "base_beam_executor", "base_component", "base_driver"),
        *("base_executor", "executor_spec"),
    },
    "tfx.dsl.components.base.base_component": {"BaseComponent"},
    "tfx.dsl.components.common": {"resolver"},
    "tfx.dsl.components.common.resolver": {"Resolver"},
    "tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy": {
        "LatestBlessedModelStrategy"
    },
    "tfx.orchestration": {"data_types", "data_types_utils", "metadata"},
    "tfx.orchestration.kubeflow.v2.container": {"kubeflow_v2_run_executor"},
    "tfx.orchestration.data_types": {"RuntimeParameter"},
    "tfx.orchestration.local.local_dag_runner": {"LocalDagRunner"},
    "tfx.orchestration.pipeline": {"Pipeline", "RunOptions"},
    "tfx.orchestration.portable": {"base_driver", "launcher"},
    "tfx.orchestration.portable.data_types": {"ExecutionInfo"},
    "tfx.proto": {"example_gen_pb2", "pusher_pb2", "trainer_pb2"},
    "tfx.proto.orchestration": {"driver_output_pb2"},
    "tfx.types": {
        *("artifact_utils", "channel", "channel_utils", "component_spec", "standard_artifacts"),
        "standard_component_specs",
    },
    "tfx.types.channel": {"Channel"},
    "tfx.utils": {"path_utils"},
    # A user's step is translated by AutoGraph where all around it is not.
    "tensorflow.python.autograph.core": {"ag_ctx"},
    "tensorflow.python.autograph.impl": {"api"},
    "tensorflow.python.framework": {"op_def_registry"},
    "tensorflow.python.framework.convert_to_constants": {"convert_variables_to_constants_v2"},
}
# Names with an underscore, by the file that touches them, and the module that has them.
NAMES = {
    # Newer Pythons read the headers within a member's by no other function that one may override.
    ("components/archives/archive_members.py", "_proc_member"): "tarfile",
    # Zarr unpacks a whole chunk into memory that is not cleared, however short it is, unless there
    # are filters; and tells whether a chunk is there by its key only.
    ("components/arrays/zarr_arrays.py", "_filters"): "zarr.core",
    ("components/arrays/zarr_arrays.py", "_chunk_key"): "zarr.core",
    ("components/beam/counters.py", "_metrics"): (
        "apache_beam.runners.portability.portable_runner"  # which gives its first answer again
    ),
    # Google's store is read by urllib3, with its own client's credentials.
    ("components/stores/google.py", "_credentials"): "google.cloud.client",
    ("components/stores/google.py", "_http"): "google.cloud.client",
    ("components/stores/google.py", "_responses"): "google.cloud.storage.batch",
    ("components/stores/remote.py", "_pipeline_options"): "apache_beam.io.filesystems",
    ("components/beam/tfx_components.py", "_make_beam_pipeline"): (
        "tfx.dsl.components.base.base_beam_executor"  # jobs are run as ours are
    ),
    ("pipeline/kubeflow/client.py", "_load_config"): (
        "kfp.client.client"  # how often a request that is not answered is repeated
    ),
    ("components/models/weights.py", "_inbound_nodes"): (
        "keras.src.ops.operation"  # which layers come before the outputs
    ),
    ("components/models/compiling.py", "_keras_mask"): (
        "keras.src.backend.common.masking"  # which records a loss leaves out
    ),
    ("components/training/early_stopping.py", "_trainable_variables"): (
        "keras.src.optimizers.base_optimizer"  # in the order of their averages
    ),
    # Keras's public attribute is the rate at the present step, not the schedule.
    ("components/training/recipe.py", "_learning_rate"): "keras.src.optimizers.base_optimizer",
    ("components/models/find_builder.py", "_flatten_layers"): "keras.src.layers.layer",
    ("components/training/recipe.py", "_flatten_layers"): "keras.src.layers.layer",
    ("components/training/pixel_check.py", "_flatten_layers"): "keras.src.layers.layer",
    ("components/training/pixel_check.py", "_layers"): "keras.src.layers.layer",
    ("components/training/resume.py", "_learning_rate"): "keras.src.optimizers.base_optimizer",
    ("components/training/replicas.py", "_flatten_layers"): "keras.src.layers.layer",
    # Keras builds a model of the mean of the replicas' batches, which differ in size.
    ("components/training/replicas.py", "_maybe_symbolic_build"): (
        "keras.src.backend.tensorflow.trainer"
    ),
    ("components/training/replicas.py", "_symbolic_build"): "keras.src.trainers.trainer",
    ("components/training/replicas.py", "_all_reduce_sum_gradients"): (
        "keras.src.backend.tensorflow.optimizer"  # after clipping: here it comes before
    ),
    ("components/training/unknown.py", "_keras_logits"): (
        "keras.src.backend.tensorflow.nn"  # what probabilities were made of
    ),
    ("components/transform/whitening.py", "_apply_cacheable_combiner"): (
        "tensorflow_transform.analyzers"  # tft.covariance, in one pass with the mean
    ),
}
# What is replaced, by the file that does it, and the module that has it.
REPLACED = {
    ("pipeline/kubeflow/client.py", "RESTClientObject.request"): (
        "kfp_server_api.rest"  # kfp gives no time-out to what it asks
    )
}
# Python's own, and names that this project gives.
PUBLIC = {"_asdict", "_exit", "_fields", "_held_functions", "_make", "_replace"}


@functools.cache
def list_files():
    return [
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text()))
        for folder in ("components", "pipeline", "kubeflow")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]


def is_private(module):
    parts = module.split(".")
    is_beyond = parts[0] == "tfx" and parts[1:2] != ["v1"]
    return parts[0] in LIBRARIES and len(parts) > 1 and (is_beyond or "python" in parts)


def test_all_modules_are_listed():
    taken = {}
    for _, tree in list_files():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and is_private(node.module or ""):
                names = {alias.name for alias in node.names}
                taken[node.module] = taken.get(node.module, set()) | names
            elif isinstance(node, ast.Import):
                assert not any(is_private(alias.name) for alias in node.names)
    assert taken == MODULES


def test_only_what_compiles_for_kubeflow_imports_all_of_tfx():
    files = {
        file
        for file, tree in list_files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if f"{getattr(node, 'module', '')}.{alias.name}.".lstrip(".").startswith("tfx.v1.")
    }
    assert files == {"pipeline/kubeflow/compile.py"}


def test_all_names_are_listed():
    found = {
        (file, node.attr)
        for file, tree in list_files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.match("_[^_]", node.attr)
        and node.attr not in PUBLIC
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        and not (isinstance(node.value, ast.Attribute) and node.value.attr.startswith("_"))
    }
    assert found == set(NAMES)


def test_all_that_is_replaced_is_listed():
    found = set()
    for file, tree in list_files():
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            and (getattr(node, "module", None) or node.names[0].name).split(".")[0] in LIBRARIES
            for alias in node.names
        }
        found |= {
            (file, f"{node.value.id}.{node.attr}")
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id in imported
        }
    assert found == set(REPLACED)


def test_the_installed_versions_have_the_names():
    def has(name, module):
        # Found by hand: to be asked, Python would import TensorFlow.
        paths = [pathlib.Path(folder, *module.split(".")) for folder in sys.path]
        files = [file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py")]
        source = next(file for file in files if file.is_file())
        return name.rpartition(".")[2] in source.read_text()

    named = [(name, module) for (_, name), module in (NAMES | REPLACED).items()]
    assert [each for each in named if not has(*each)] == []
