"""The object stores that the contract suite runs on, and what its tests ask of all of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import uuid4

from storage.config import S3Config
from storage.objects.objects_directory import DirectoryStore
from storage.objects.objects_s3 import S3Store
from storage.objects.open_store import parse_store_url
from storage.objects.port import ObjectStore
from tests.support.s3_server import S3Server

KINDS: Final = ("directory", "directory, reads once", "memory", "s3")
BUCKET: Final = "contracts"
PATIENCE_S: Final = 60.0
"""For tests of what becomes of a call, not of how soon: their machine may be slow."""


def fresh_s3_config(server: S3Server) -> S3Config:
    """Return a place of its own in the server's bucket, and time for it."""
    config = parse_store_url(server.store_url(BUCKET, f"test-{uuid4().hex}"))
    assert isinstance(config, S3Config)
    return replace(config, deadline_s=PATIENCE_S)


@asynccontextmanager
async def directory_store(root: Path, *, reads_once: bool = False) -> AsyncIterator[DirectoryStore]:
    store = await DirectoryStore.open(root, reads_once=reads_once)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def s3_store(config: S3Config) -> AsyncIterator[S3Store]:
    store = await S3Store.open(config)
    try:
        yield store
    finally:
        await store.close()


async def content(store: ObjectStore, path: str, size: int) -> bytes:
    """Return a whole object of that size."""
    return bytes(await store.get(path, 0, size))


async def sizes(store: ObjectStore, prefix: str = "") -> dict[str, int]:
    """Return what a listing says; no path may come twice."""
    listed = [(found.path, found.size) async for found in store.list(prefix)]
    assert len(dict(listed)) == len(listed)
    return dict(listed)
