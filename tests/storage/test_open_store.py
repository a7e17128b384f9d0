"""Which store a URL names, and what a wrong one is told."""

from pathlib import Path

import pytest

from storage.config import S3Config
from storage.objects.objects_directory import DirectoryStore
from storage.objects.objects_s3 import S3Store
from storage.objects.open_store import open_store, parse_store_url


@pytest.mark.parametrize(
    ("url", "directory"),
    [
        ("file:///var/lib/streamhouse", "/var/lib/streamhouse"),
        ("file://streamhouse-data/objects", "streamhouse-data/objects"),
        ("file://./streamhouse-data/objects", "streamhouse-data/objects"),
        ("FILE:///data", "/data"),
        ("/var/lib/with space%20and?question#mark", "/var/lib/with space%20and?question#mark"),
        ("file:///var/100%", "/var/100%"),
        ("relative/objects", "relative/objects"),
        ("objects", "objects"),
    ],
)
def test_a_path_names_a_directory_as_it_is_written(url: str, directory: str) -> None:
    assert parse_store_url(url) == Path(directory)


def test_a_tilde_is_the_home_directory() -> None:
    assert parse_store_url("~/objects") == Path.home() / "objects"


@pytest.mark.parametrize(
    ("url", "config"),
    [
        ("s3://records", S3Config(bucket="records")),
        ("s3://records/", S3Config(bucket="records")),
        ("s3://records/a/b/", S3Config(bucket="records", prefix="a/b")),
        ("s3://records?region=eu-west-1", S3Config(bucket="records", region="eu-west-1")),
        (
            "s3://my.records-1/p?endpoint=http://127.0.0.1:9000&region=garage",
            S3Config(
                bucket="my.records-1",
                prefix="p",
                endpoint="http://127.0.0.1:9000",
                region="garage",
            ),
        ),
        (
            "s3://records/p?endpoint=https%3A%2F%2Fs3.example.org%2F",
            S3Config(bucket="records", prefix="p", endpoint="https://s3.example.org"),
        ),
    ],
)
def test_an_s3_url_names_a_bucket_and_how_to_reach_it(url: str, config: S3Config) -> None:
    assert parse_store_url(url) == config


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("", "use file:///absolute/path"),
        ("file://", "use file:///absolute/path"),
        ("file:/data", "'//' is missing"),
        ("s3:records", "'//' is missing"),
        ("gs://records", r"unknown object store scheme gs://; use file:///absolute/path, a bare"),
        ("s3://", "use s3://bucket/prefix"),
        ("s3:///prefix", "use s3://bucket/prefix"),
        ("s3://no_/x", "is no bucket name"),
        ("s3://127.0.0.1:9000/bucket", r"endpoint: s3://bucket\?endpoint=http://127.0.0.1:9000"),
        ("s3://records/../other", "not an object path"),
        ("s3://records#part", "'#' does not belong"),
        ("s3://records?regoin=x", "unknown option 'regoin'.*takes endpoint and region"),
        ("s3://records?region=", "'region' is empty"),
        ("s3://records?region=a&region=b", "'region' is there twice"),
        ("s3://records?endpoint=127.0.0.1:9000", "use http://host:port"),
        ("s3://records?endpoint=ftp://host", "use http://host:port"),
        ("s3://records?endpoint=http://host:65536", "use http://host:port"),
        ("s3://records?endpoint=http://host:port", "use http://host:port"),
        ("s3://records?endpoint=http://host/bucket", "must end after the port"),
    ],
)
def test_a_wrong_url_is_told_what_to_mend(url: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        parse_store_url(url)


@pytest.mark.parametrize(
    "url",
    ["s3://key:hush@records/x", "s3://records?endpoint=http://key:hush@127.0.0.1:9000"],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="AWS_ACCESS_KEY_ID") as error:
        parse_store_url(url)
    assert "hush" not in str(error.value)


async def test_a_store_is_opened_as_its_url_says(tmp_path: Path) -> None:
    # Given URLs of both kinds; S3 is not asked anything when it is opened
    directory = await open_store(f"file://{tmp_path}/objects")
    bucket = await open_store("s3://records?endpoint=http://127.0.0.1:9")

    # Then each is the store that it names
    assert isinstance(directory, DirectoryStore)
    assert (tmp_path / "objects").is_dir()
    assert isinstance(bucket, S3Store)
    await directory.close()
    await bucket.close()
