"""A Dataflow job's machines and places: `dataflow:` of the configuration."""

from typing import Literal

import pydantic

from image_pipeline.components.options import Options


class DataflowOptions(Options):
    """What `--runner=DataflowRunner` runs on; flags after `--` go before these.

    None leaves a choice to Dataflow.
    """

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
    expected_images: int | None = pydantic.Field(default=None, ge=1)
    """Asks for machines with memory enough for ingest's plan, which one process makes of all
    images; None for the machines' own memory."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> "DataflowOptions":
        first, most = self.num_workers, self.max_num_workers
        if first is not None and most is not None and first > most:
            raise ValueError(
                f"num_workers must not exceed max_num_workers, got {first} and {most}; raise the "
                "latter."
            )
        return self

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
