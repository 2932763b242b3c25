"""Which Beam runner runs, and in which mode: always named, never left to a default."""

from collections.abc import Sequence

from components.errors import UserError

# Beam's plain DirectRunner first tries to fetch and start another runner, so the engine behind it
# is named. One worker: parallelism comes from the pools of threads inside the tasks.
LOCAL_BEAM_ARGS = ("--runner=FnApiRunner", "--direct_running_mode=in_memory")


def complete_beam_args(given: Sequence[str]) -> list[str]:
    """The Beam flags to run with: the local ones, unless a runner was given.

    Args:
      given: flags as a person wrote them, for example `["--runner=FlinkRunner", …]`.

    Returns:
      Flags that name a runner.

    Raises:
      UserError: for a flag that is none, and for Beam's mode that loses records.
    """
    flags = list(given)
    if strange := [flag for flag in flags if not flag.startswith("--")]:
        raise UserError(
            f"Beam flags are written --name=value, got {strange[0]!r}; "
            "put them behind a separate --, for example: -- --runner=FlinkRunner."
        )
    if "--direct_running_mode=multi_threading" in flags:
        raise UserError(
            "--direct_running_mode=multi_threading is refused: Beam's local runner silently "
            "loses records in it; use in_memory (tasks have their own threads) or multi_processing."
        )
    if not any(flag.startswith("--runner") for flag in flags):
        flags.insert(0, LOCAL_BEAM_ARGS[0])
    runs_locally = any(flag in ("--runner=FnApiRunner", "--runner=DirectRunner") for flag in flags)
    if runs_locally and not any(flag.startswith("--direct_running_mode") for flag in flags):
        flags.append(LOCAL_BEAM_ARGS[1])
    return [flag.replace("--runner=DirectRunner", LOCAL_BEAM_ARGS[0]) for flag in flags]
