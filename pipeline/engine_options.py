"""The machines of engines: `kubeflow:` and `dataflow:` of the configuration."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import pydantic

from image_pipeline.components.messages import suggest
from image_pipeline.components.options import Options
from image_pipeline.components.rules import Rule

Cpus = Annotated[
    str,
    pydantic.Field(pattern=r"^([0-9]+(\.[0-9]+)?|[0-9]+m)$", coerce_numbers_to_str=True),
]
"""A number of cores as Kubernetes writes it: `4`, `0.5` or `500m`."""
Bytes = Annotated[str, pydantic.Field(pattern=r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?)?$")]
"""An amount of memory or disk as Kubernetes writes it: `16Gi`, `500M`."""
MountPath = Annotated[str, pydantic.Field(pattern=r"^/.")]
"""A folder in the container."""


class Retries(Options):
    """How often a step that failed is run again, and after which waits."""

    most: int = pydantic.Field(ge=1)
    """Most runs after the first one."""
    wait_s: int = pydantic.Field(default=60, ge=0)
    """Seconds before the second run."""
    factor: float = pydantic.Field(default=2.0, ge=1)
    """How much longer each wait is than the last one."""
    longest_wait_s: int = pydantic.Field(default=3600, ge=0, le=3600)
    """Longest wait, in seconds; the engines take an hour at most."""


class Accelerator(Options):
    """GPUs or TPUs of a step's machine."""

    type: str = pydantic.Field(min_length=1)
    """Kubernetes's resource (`nvidia.com/gpu`), or Vertex AI's name (`NVIDIA_TESLA_T4`)."""
    count: int = pydantic.Field(default=1, ge=1)
    """How many."""


class Toleration(Options):
    """Of a taint that keeps other pods away from a node; as Kubernetes has it."""

    key: str | None = None
    """The taint's key; None for all of them."""
    operator: Literal["Exists", "Equal"] = "Exists"
    """Whether the taint's value must be `value`."""
    value: str | None = None
    """The taint's value, for `Equal`."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; None for all of them."""

    rules = (
        Rule(
            lambda options: (options.operator == "Equal") != (options.value is not None),
            "a toleration has a value where its operator is Equal, got operator={options.operator} "
            "and value={options.value}; give both, or neither.",
        ),
        Rule(
            lambda options: options.key is None and options.operator == "Equal",
            "a toleration with operator Equal needs a key; name the taint's.",
        ),
    )


class Disk(Options):
    """An empty volume that is made for a step's pod and goes with it."""

    size: Bytes
    """Its size."""
    mount_path: MountPath
    """Where the container has it; Kubeflow's launcher copies a step's inputs to /s3, /minio or
    /gcs."""
    storage_class: str | None = None
    """The cluster's storage class; None for its default."""


class StepOptions(Options):
    """One step's container; None leaves a choice to the engine."""

    cpu: Cpus | None = None
    """Cores, which are both asked for and the limit."""
    memory: Bytes | None = None
    """Memory, which is both asked for and the limit; docs/memory.md says what a step needs."""
    accelerator: Accelerator | None = None
    """GPUs or TPUs; only the Trainer uses them."""
    retries: Retries | None = None
    """Runs after a failure; an ingest that was cut off goes on where it was."""
    timeout_s: int | None = pydantic.Field(default=None, ge=1)
    """Seconds after which the step is stopped and has failed. Kubeflow only."""
    env: dict[str, str] = pydantic.Field(default_factory=dict)
    """Environment variables by their names."""
    caching: bool | None = None
    """Whether an earlier run's output may be reused; None for yes, but for ingest no. If yes for
    ingest, too, each run must give a text that identifies the images (`images-fingerprint`)."""
    beam_args: tuple[str, ...] = ()
    """Beam's flags for this step alone; they go before those of the same name of all steps."""
    node_selector: dict[str, str] = pydantic.Field(default_factory=dict)
    """Labels that the step's node must have. Kubeflow only."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints of nodes that the step may run on nevertheless. Kubeflow only."""
    secret_env: dict[str, dict[str, str]] = pydantic.Field(default_factory=dict)
    """By a Secret's name: environment variables by the Secret's keys. Kubeflow only."""
    secret_files: dict[str, MountPath] = pydantic.Field(default_factory=dict)
    """By a Secret's name: the folder that has its keys as files. Kubeflow only."""
    volume_claims: dict[str, MountPath] = pydantic.Field(default_factory=dict)
    """By a PersistentVolumeClaim's name: the folder that has its files. Kubeflow only."""
    disk: Disk | None = None
    """Room for the inputs that Kubeflow's launcher copies, and for temporary files. Kubeflow
    only."""


Step = Literal[
    "ImageExampleGen",
    "StatisticsGen",
    "SchemaGen",
    "ExampleValidator",
    "ImageTransform",
    "Trainer",
    "Evaluator",
    "Pusher",
    "ImagePredictor",
]
STEPS: tuple[str, ...] = get_args(Step)


class KubeflowOptions(Options):
    """Every step's container, on Kubeflow and Vertex AI; nothing here changes a local run."""

    service_account: str | None = pydantic.Field(default=None, min_length=1)
    """The Kubernetes service account of a run's pods; `image-pipeline submit` passes it."""
    defaults: StepOptions = StepOptions()
    """Of all steps; a step's own keys replace these, key by key."""
    steps: dict[Step, StepOptions] = pydantic.Field(default_factory=dict)
    """By a step's name: what its container gets, with the keys of `defaults`."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_steps(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            if moved := next((name for name in STEPS if name in given), None):
                raise ValueError(
                    f"a step's options are under steps now, got {moved}; write {{steps: {{{moved}: "
                    f"{{…}}}}}}, or --set kubeflow.steps.{moved}.KEY=VALUE."
                )
            named = given.get("steps")
            for name in named if isinstance(named, Mapping) else ():
                if name not in STEPS:
                    raise ValueError(
                        f"steps has options by a step's name, got {name!r}; "
                        f"{suggest(str(name), STEPS)}known: {', '.join(STEPS)}."
                    )
        return given

    def of_step(self, step: str) -> StepOptions:
        """The options of a step, its own before the defaults.

        Args:
          step: its name, such as `Trainer`; TFX's own steps (resolvers) have the defaults.
        """
        own = next((given for name, given in self.steps.items() if name == step), StepOptions())
        given = {name: getattr(own, name) for name in own.model_fields_set}
        return self.defaults.model_copy(update=given)


class DataflowOptions(Options):
    """What `--runner=DataflowRunner` runs on; flags after `--` go before these.

    None leaves a choice to Dataflow.
    """

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_removed(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "expected_images" in given:
            raise ValueError(
                "expected_images chose a machine for the plan, which takes the same memory for any "
                "number of images now; leave it out."
            )
        return given

    project: str | None = None
    """The Google Cloud project that runs and pays."""
    region: str | None = None
    """Where the job runs, best where its buckets are: `europe-west4`."""
    zone: str | None = None
    """One zone of the region for all machines: `europe-west4-a`."""
    temp_location: str | None = None
    """gs:// folder for temporary files."""
    staging_location: str | None = None
    """gs:// folder for the workers' files; None takes `temp_location`."""
    image: str | None = None
    """The workers' container image, with this project and your own modules: REGISTRY/WORKER:TAG."""
    machine_type: str | None = "n2-standard-4"
    """Machine of a worker. Each runs one process, whose tasks have threads of their own; Dataflow's
    choice is a single core with 3.75 GB. Set it to None for Dataflow Prime."""
    disk_gb: int | None = pydantic.Field(default=50, ge=1)
    """Disk of a worker, in GB: the image, and shards until they are sent."""
    disk_type: str | None = None
    """`compute.googleapis.com/projects/PROJECT/zones/ZONE/diskTypes/pd-ssd`, for example."""
    num_workers: int | None = pydantic.Field(default=None, ge=1)
    """Machines at the start."""
    max_num_workers: int | None = pydantic.Field(default=20, ge=1)
    """Most machines: the limit of what a job costs an hour. Dataflow's own is 1,000 or more."""
    autoscaling: Literal["THROUGHPUT_BASED", "NONE"] = "THROUGHPUT_BASED"
    """Whether machines come and go with the work."""
    network: str | None = None
    """The machines' network; None for `default`."""
    subnetwork: str | None = None
    """regions/REGION/subnetworks/NAME, or its URL."""
    public_ips: bool | None = None
    """Whether machines have public addresses. Without, the subnetwork needs Private Google
    Access."""
    service_account: str | None = None
    """The machines' account: NAME@PROJECT.iam.gserviceaccount.com."""
    labels: dict[str, str] = pydantic.Field(default_factory=dict)
    """Labels of the job, for bills."""

    rules = (
        Rule(
            lambda options: (
                None not in (most := (options.num_workers, options.max_num_workers))
                and most[0] > most[1]
            ),
            "num_workers must not exceed max_num_workers, got {options.num_workers} and "
            "{options.max_num_workers}; raise the latter.",
        ),
    )

    def flags(self) -> dict[str, list[str]]:
        """Beam's flags of what is set, by the names that Beam's options have."""
        renamed = {
            "zone": "worker_zone",
            "image": "sdk_container_image",
            "disk_gb": "disk_size_gb",
            "autoscaling": "autoscaling_algorithm",
            "service_account": "service_account_email",
        }
        values = self.model_dump(exclude={"labels", "public_ips"}, exclude_none=True)
        named = {renamed.get(name, name): value for name, value in values.items()}
        flags = {name: [f"--{name}={value}"] for name, value in named.items()}
        if self.labels:
            flags["labels"] = [f"--labels={name}={text}" for name, text in self.labels.items()]
        if self.public_ips is not None:
            flags["use_public_ips"] = [
                "--use_public_ips" if self.public_ips else "--no_use_public_ips"
            ]
        return flags
