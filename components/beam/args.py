"""Which Beam runner runs, and in which mode: always named, never left to a default."""

from collections.abc import Sequence

from image_pipeline.components.errors import UserError
from image_pipeline.components.messages import suggest

# Beam's plain DirectRunner first tries to fetch and start another runner, so the engine behind it
# is named. One worker: parallelism comes from the pools of threads inside the tasks. Unless a flag
# says where workers get their code, TFX packs itself up for every Beam component: 1 to 2 s of CPU,
# and 44 MB that stay in the temporary folder. The local runner would never use them.
LOCAL_BEAM_ARGS = (
    "--runner=FnApiRunner",
    "--direct_running_mode=in_memory",
    "--sdk_container_image=none",
)

# Tasks have threads of their own; a process for each core would only hold all memory once more.
# Functions are named, not pickled, so nothing of the main module is needed, which Beam would send.
DATAFLOW_ARGS = ("--experiments=no_use_multiple_sdk_containers", "--no_save_main_session")
# What is in a flag that says so, or otherwise.
_DATAFLOW_OPTIONS = ("use_multiple_sdk_containers", "save_main_session")

_RUNNERS = (
    *("FnApiRunner", "DirectRunner", "FlinkRunner", "SparkRunner"),
    *("PrismRunner", "PortableRunner", "DataflowRunner"),
)
_REFUSED = {
    "DaskRunner": "it gives wrong results, silently, where a stage has several outputs",
    "RayRunner": "Beam has none, and ray-beam, the one on PyPI, has been left as it was in 2022",
}


def complete_beam_args(given: Sequence[str]) -> list[str]:
    """The Beam flags to run with: those of the local runner, unless a runner was given.

    Args:
      given: flags as the user wrote them, for example `["--runner=FlinkRunner", …]`.

    Raises:
      UserError: for something that is not a flag, an unknown runner, or a mode known to lose
        records.
    """
    flags = [_complete_runner(flag) for flag in given]
    if strange := [flag for flag in flags if not flag.startswith("--")]:
        raise UserError(
            f"Beam flags are written --name=value, got {strange[0]!r}; "
            "put them after a separate --, for example: -- --runner=FlinkRunner."
        )
    if "--direct_running_mode=multi_threading" in flags:
        raise UserError(
            "--direct_running_mode=multi_threading is refused: Beam's local runner silently "
            "loses records in it; use in_memory (tasks have their own threads) or multi_processing."
        )
    if not any(flag.startswith("--runner") for flag in flags):
        flags.insert(0, LOCAL_BEAM_ARGS[0])
    runs_locally = any(flag in ("--runner=FnApiRunner", "--runner=DirectRunner") for flag in flags)
    if runs_locally:
        named = {flag.partition("=")[0] for flag in flags}
        flags += [flag for flag in LOCAL_BEAM_ARGS[1:] if flag.partition("=")[0] not in named]
    if "--runner=DataflowRunner" in flags:
        for added, option in zip(DATAFLOW_ARGS, _DATAFLOW_OPTIONS, strict=True):
            flags += [] if any(option in flag for flag in flags) else [added]
    return [flag.replace("--runner=DirectRunner", LOCAL_BEAM_ARGS[0]) for flag in flags]


def _complete_runner(flag: str) -> str:
    """Beam also takes `--runner=flink`; everything else looks for the full name."""
    name, equals, value = flag.partition("=")
    if name != "--runner" or not equals:
        return flag
    path, _, last = value.rpartition(".")
    names = {known.lower(): known for known in (*_RUNNERS, *_REFUSED)}
    runner = names.get(last.lower()) or names.get(f"{last.lower()}runner")
    if runner in _REFUSED:
        raise UserError(
            f"--runner={runner} is refused: {_REFUSED[runner]}; use FlinkRunner or SparkRunner."
        )
    if path:  # A dotted path names a runner of the user's own.
        return flag
    if runner is None:
        hint = suggest(value, names.values())
        raise UserError(f"unknown Beam runner {value!r}; {hint}known: {', '.join(_RUNNERS)}.")
    return f"--runner={runner}"
