"""One stored object by its path or URL, for commands that work without a broker."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from storage.config import S3Config
from storage.errors import StorageError
from storage.objects.open_store import parse_store_url
from storage.objects.port import ObjectStore
from streamctl.errors import Failure, UsageError


class StoredBytes(Protocol):
    """An object that can be read in parts.

    Attributes:
        place: where it is, as messages show it.
        size: bytes.
    """

    place: str
    size: int

    async def read(self, start: int, length: int) -> bytearray:
        """Return `length` bytes, which the object has, from byte `start`.

        Raises:
            StorageError: the store does not give them.
        """


@asynccontextmanager
async def open_object(place: str) -> AsyncIterator[StoredBytes]:
    """Open the object at a path, or at a URL as the broker's --store takes it, and its key.

    Raises:
        UsageError: that names no object.
        Failure: there is none, or it cannot be read.
    """
    try:
        parsed = parse_store_url(place)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if isinstance(parsed, Path):
        with _open_file(parsed) as file:
            yield file
        return
    if not parsed.prefix:
        raise UsageError(f"{place} is a bucket", fix="name an object: s3://BUCKET/KEY")
    from storage.objects.objects_s3 import S3Store  # noqa: PLC0415 (half a second that a file saves)

    try:
        store = await S3Store.open(replace(parsed, prefix=""))
    except StorageError as error:
        raise Failure(str(error)) from error
    try:
        yield await _find(store, parsed)
    finally:
        await store.close()


class _FileBytes:
    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._file = path.open("rb", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> "_FileBytes":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    async def read(self, start: int, length: int) -> bytearray:
        data = bytearray(length)
        self._file.seek(start)
        if self._file.readinto(data) != length:
            raise Failure(f"{self.place} became shorter while it was read")
        return data


class _StoreBytes:
    def __init__(self, store: ObjectStore, config: S3Config, size: int) -> None:
        self.place = f"s3://{config.bucket}/{config.prefix}"
        self.size = size
        self._store = store
        self._key = config.prefix

    async def read(self, start: int, length: int) -> bytearray:
        return bytearray(await self._store.get(self._key, start, length))


def _open_file(path: Path) -> _FileBytes:
    try:
        return _FileBytes(path)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from error


async def _find(store: ObjectStore, config: S3Config) -> _StoreBytes:
    try:
        async for found in store.list(config.prefix):
            if found.path == config.prefix:
                return _StoreBytes(store, config, found.size)
    except StorageError as error:
        raise Failure(str(error)) from error
    raise Failure(f"bucket {config.bucket} has no object {config.prefix}")
