"""What a walk is compared with: the run of LocalDagRunner, and the files of its outputs."""

import hashlib

from image_pipeline.run.local import run_locally
from image_pipeline.run.run_plan import RunPlan
from tests.ingest_runs import read_files


def run_local(plan: RunPlan) -> dict[str, dict[str, str]]:
    """Each step's output URIs, by their names."""
    runs = run_locally(plan, on_start=lambda name: None, on_finish=lambda run: None)
    return {run.name: run.outputs for run in runs}


def hash_files(folder: str) -> dict[str, str]:
    """The SHA-256 of every file below a folder, by name."""
    found = read_files(folder)
    return {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
