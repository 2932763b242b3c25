"""The environments of the frameworks in docs/interop.md, of pinned releases."""

from benchmarks.bench.environments import Environment

# What `random_access` and `batches` import: no TensorFlow, no Beam, no TFX.
_LIGHT = (
    *("numpy==2.2.6", "pyarrow==18.1.0", "pydantic==2.14.3", "pyyaml", "google-crc32c==1.9.0"),
    *("opencv-python-headless==4.14.0.94", "pillow==12.3.0", "simplejpeg"),
    *("scipy==1.17.1", "psutil==7.2.2", "indexed-gzip==1.10.3"),
)


ENVIRONMENTS = {
    "plain": Environment(
        imported=("torch", "grain"),
        packages=("torch==2.15.0", "grain==0.2.18", *_LIGHT),
        has_ours=True,
    ),
    "tfds": Environment(
        imported=("tensorflow_datasets",),
        packages=("tensorflow-datasets==4.9.10", "tensorflow==2.21.0"),
    ),
    "hub": Environment(
        imported=("datasets", "mlcroissant"),
        packages=("datasets==5.2.0", "mlcroissant==1.1.1", "pillow==12.3.0"),
    ),
    "garden": Environment(imported=("official",), packages=("tf-models-official==2.20.0",)),
    "jax": Environment(
        imported=("jax",), packages=("jax==0.10.2", "jaxlib==0.10.2"), is_beside=True
    ),
}


def find_environment(text: str) -> str | None:
    """The environment that a block of Python needs; None for this project's own."""
    if 'KERAS_BACKEND"] = "jax"' in text:
        return "jax"
    for name, environment in ENVIRONMENTS.items():
        for module in environment.imported:
            if f"\nimport {module}" in f"\n{text}" or f"\nfrom {module}" in f"\n{text}":
                return name
    return None
