import pytest

from image_pipeline.components.stores.objects import Address, find_address

pytestmark = pytest.mark.unit

DFS = "abfss://box@someone.dfs.core.windows.net"
HTTPS = "https://someone.blob.core.windows.net/box"


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("s3://bucket/a/b", Address("s3", "s3://bucket/", "bucket")),
        ("s3://bucket", Address("s3", "s3://bucket/", "bucket")),
        ("s3a://bucket/a", Address("s3", "s3a://bucket/", "bucket")),
        ("az://box/a", Address("az", "az://box/", "box")),
        ("abfs://box", Address("az", "abfs://box/", "box")),
        (f"{DFS}/a", Address("az", f"{DFS}/", "box", "someone")),
        (
            "wasbs://b@c.blob.core.windows.net/a/@",
            Address("az", "wasbs://b@c.blob.core.windows.net/", "b", "c"),
        ),
        (f"{HTTPS}/a/b", Address("az", f"{HTTPS}/", "box", "someone")),
        ("gs://bucket/a", None),
        ("hdfs://host/a", None),
        ("https://example.com/box/a", None),
    ],
)
def test_a_uri_names_its_bucket(uri, address):
    assert find_address(uri) == address
