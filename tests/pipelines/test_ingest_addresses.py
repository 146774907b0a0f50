"""Traces at addresses: read like files, and what goes wrong on the way is one line without secrets."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import pytest

from pipelines.sources.base import SourceError
from tests.pipelines.stores import Store, lines, states


def test_an_address_whose_package_is_not_installed_says_which(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", absent)
    with pytest.raises(SourceError, match=r"capsheet\[s3\]"):
        store.ingest("s3://bucket/a.csv")


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """An S3 server on the loopback, with a bucket; its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """s3fs on that server, by the environment alone, as a user's would be."""
    import s3fs

    for name, value in {
        "FSSPEC_S3_ENDPOINT_URL": s3,
        "AWS_ENDPOINT_URL": s3,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem()
    if not system.exists("traces"):
        system.mkdir("traces")
    return system


def test_traces_in_an_s3_bucket_are_read_by_file_pattern_and_prefix(store: Store, bucket: Any) -> None:
    for day in (5, 6):
        bucket.pipe(f"traces/day/date=2026-01-{day:02d}/a.csv.gz", gzip.compress(lines(day).encode()))
    single = "s3://traces/day/date=2026-01-05/a.csv.gz"
    assert [(file.source_file, file.rows_kept) for file in store.ingest(single)] == [(single, 30)]
    assert [file.rows_kept for file in store.ingest("s3://traces/day/date=*/*.gz")] == [30, 30]
    assert states(store.ingest("s3://traces/day/date=*/*.gz")) == ["unchanged", "unchanged"]
    assert states(store.ingest("s3://traces/day")) == ["read", "read"]
    assert store.requests == 60
    store.accounted()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("s3://traces/none/a.csv", "cannot be read"),
        ("s3://traces/none/*.csv", "holds no file"),
        ("s3://key:secret@traces/a.csv", "credentials"),
        ("s3://traces/a.csv?X-Amz-Signature=abc", "credentials"),
        ("nosuch://traces/a.csv", "Protocol not known"),
    ],
)
def test_an_address_that_cannot_be_read_is_one_line_without_secrets(
    store: Store, bucket: Any, source: str, said: str
) -> None:
    with pytest.raises(SourceError, match=said) as failure:
        store.ingest(source)
    assert "\n" not in str(failure.value) and "secret" not in str(failure.value) and "abc" not in str(failure.value)
