"""Which object store a URL names.

file:///absolute/path     file://relative/path     or a bare path: a directory
s3://bucket/prefix?endpoint=URL&region=R           S3; both options may be left out

Credentials come from the standard chain (AWS_ACCESS_KEY_ID …), and so does the authority of an
https:// endpoint's certificate, if it is none of the system's: AWS_CA_BUNDLE names its file.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from storage.config import S3Config
from storage.objects.objects_directory import DirectoryStore
from storage.objects.path_rules import check_path
from storage.objects.port import ObjectStore
from storage.objects.store_traffic import StoreTraffic

S3_FORM: Final = "s3://bucket/prefix?endpoint=URL&region=R"
FORMS: Final = f"file:///absolute/path, a bare path, or {S3_FORM}"
S3_OPTIONS: Final = ("endpoint", "region")

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")


async def open_store(
    url: str, traffic: StoreTraffic | None = None, *, reads_once: bool = False
) -> ObjectStore:
    """Open the store that `url` names.

    Args:
        url: see the module's docstring.
        traffic: tells how the store is doing, for callers who want to know.
        reads_once: nobody reads again soon what is read: it shall take no room in the page cache.

    Raises:
        ValueError: as `parse_store_url`.
        ObjectStoreUnavailable: the directory cannot be made or written.
    """
    place = parse_store_url(url)
    traffic = traffic or StoreTraffic()
    if isinstance(place, S3Config):
        from storage.objects.objects_s3 import S3Store  # noqa: PLC0415 (half a second that a directory saves)

        return await S3Store.open(place, traffic)
    return await DirectoryStore.open(place, traffic, reads_once=reads_once)


def store_name(url: str) -> str:
    """Return what operators call the store that `url` names: its URL without options.

    Raises:
        ValueError: as `parse_store_url`.
    """
    place = parse_store_url(url)
    if isinstance(place, S3Config):
        return f"s3://{place.bucket}/{place.prefix}".rstrip("/")
    return f"file://{place.absolute()}"


def parse_store_url(url: str) -> Path | S3Config:
    """Return the directory, or the bucket and how to reach it; nothing is opened.

    Raises:
        ValueError: `url` names no store; the message tells how to mend it, and shows no secret.
    """
    scheme = _SCHEME.match(url)
    if scheme is None:
        return _directory(url)
    rest = url[scheme.end() :]
    match scheme[1].lower():
        case "file":
            return _directory(rest)
        case "s3":
            return _bucket(url)
        case other:
            raise ValueError(f"unknown object store scheme {other}://; use {FORMS}")


def _directory(path: str) -> Path:
    """Take the path as it is written: no escapes, so any name of a file system can be given."""
    if not path:
        raise ValueError(f"the object store's path is empty; use {FORMS}")
    if path.startswith(("s3:", "file:")):
        scheme = path.partition(":")[0]
        raise ValueError(f"'//' is missing after {scheme}:; use {FORMS}")
    return Path(path).expanduser()


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # its message repeats the host, and a login before it
        raise ValueError(f"the object store's URL cannot be read; use {S3_FORM}") from None


def _bucket(url: str) -> S3Config:
    parts = _split(url)
    if "@" in parts.netloc:
        raise ValueError(
            "credentials do not belong into the store URL (it is logged); "
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if ":" in parts.netloc:
        raise ValueError(
            f"{parts.netloc!r} is no bucket; a server's address goes into the endpoint: "
            f"s3://bucket?endpoint=http://{parts.netloc}"
        )
    if not _BUCKET.fullmatch(parts.netloc):
        raise ValueError(
            f"{parts.netloc!r} is no bucket name (3-63 letters, digits, '.', '-'); use {S3_FORM}"
        )
    if parts.fragment:
        raise ValueError(f"'#' does not belong into a store URL; use {S3_FORM}")
    prefix = parts.path.strip("/")
    if prefix:
        check_path(prefix)
    options = _options(parts.query)
    config = S3Config(bucket=parts.netloc, prefix=prefix)
    if "endpoint" in options:
        config = replace(config, endpoint=_endpoint(options["endpoint"]))
    if "region" in options:
        config = replace(config, region=options["region"])
    return config


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in S3_OPTIONS:
            raise ValueError(
                f"unknown option {name!r}; an s3:// URL takes {' and '.join(S3_OPTIONS)}"
            )
        if name in options:
            raise ValueError(f"option {name!r} is there twice; leave one")
        if not value:
            raise ValueError(f"option {name!r} is empty; give a value or leave it out")
        options[name] = value
    return options


def _endpoint(url: str) -> str:
    parts = _split(url)
    if "@" in parts.netloc:
        raise ValueError("credentials do not belong into the endpoint; set AWS_ACCESS_KEY_ID ...")
    try:
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or too high a one
        is_whole = False
    if not is_whole:
        raise ValueError("the endpoint is no URL; use http://host:port or https://host")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("the endpoint must end after the port; the prefix follows the bucket")
    return f"{parts.scheme}://{parts.netloc}"
