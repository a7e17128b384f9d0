"""S3, or any server that speaks it, as object store, over aiobotocore (D3).

A put is one conditional PUT (If-None-Match: *), whatever its size. A CRC32C, computed once, covers
its body; the server verifies it and keeps it with the object. The body is not part of the signature
(UNSIGNED-PAYLOAD), over TLS and plain HTTP alike: that saves SHA-256 over every byte. An answer of
412, or 409 while another PUT is under way, may mean that an earlier try of ours was stored, so what
is there is compared.

botocore's own retries are off, because they know no deadline. One try may take a time that grows
with its size and doubles from try to try (storage/objects/s3_tries.py); all tries together have
`deadline_s`, with the wait for a place: 503 SlowDown and 429 make places fewer
(storage/objects/flow_limit.py). A GET whose answer does not begin to come is sent twice
(storage/objects/hedged_gets.py).
"""

import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import ClientError, IncompleteReadError
from botocore.parsers import ResponseParserError
from crc32c import crc32c

from storage.config import KiB, S3Config
from storage.errors import ObjectConflict, ObjectMissing, ObjectStoreUnavailable, ObjectUnreadable
from storage.objects.path_rules import check_path, check_prefix
from storage.objects.port import Buffer, StoredObject
from storage.objects.s3_answers import check_is_of_object, check_roots, readable
from storage.objects.s3_body import PartsBody
from storage.objects.s3_credentials import tell_of_credentials
from storage.objects.s3_deletion import DELETE_LIMIT, S3Deletion
from storage.objects.s3_dialects import LargeBodies, adapt, length_of
from storage.objects.s3_errors import (
    CLIENT_ERRORS,
    check_authority,
    code_of,
    describe,
    describe_client,
    is_of_object,
    status_of,
)
from storage.objects.s3_tries import Moved, S3Tries
from storage.objects.store_traffic import StoreTraffic

if TYPE_CHECKING:  # the stubs are there for development only
    from types_aiobotocore_s3 import S3Client
    from types_aiobotocore_s3.type_defs import GetObjectOutputTypeDef

CONNECT_TIMEOUT_S: Final = 1.0
LIST_LIMIT: Final = 1000  # keys that one answer to ListObjectsV2 holds
# DeleteObjects has the time of so many bytes for each key: some servers delete one after the other,
# and a try that is given up and made again begins with the same keys.
DELETE_KEY_BYTES: Final = 64 * KiB


class S3Store:
    """Made by `open`. One client, whose connections all calls share."""

    def __init__(
        self,
        config: S3Config,
        client: "S3Client",
        resources: AsyncExitStack,
        traffic: StoreTraffic,
    ) -> None:
        self._hedges = traffic.hedges
        self._tries = S3Tries(config.deadline_s, traffic)
        self._bucket = config.bucket
        self._root = f"{config.prefix}/" if config.prefix else ""
        self._client = client
        self._resources = resources
        self._large_bodies = LargeBodies(client)

    @classmethod
    async def open(cls, config: S3Config, traffic: StoreTraffic | None = None) -> Self:
        """Make a client with credentials from the standard chain; nothing is sent yet.

        Raises:
            ObjectStoreUnavailable: none can be made; the message says what to mend.
        """
        style = "path" if config.endpoint else "auto"
        options = AioConfig(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=None,  # each try has its own
            max_pool_connections=config.max_connections,
            retries={"mode": "standard", "total_max_attempts": 1},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": style, "payload_signing_enabled": False},
        )
        resources = AsyncExitStack()
        session = get_session()
        if not config.endpoint.startswith("http://"):
            check_authority(session.get_config_variable("ca_bundle"))
        try:
            tell_of_credentials(session)
            client = await resources.enter_async_context(
                session.create_client(
                    "s3",
                    region_name=config.region,
                    endpoint_url=config.endpoint or None,
                    config=options,
                )
            )
        except CLIENT_ERRORS as error:
            raise ObjectStoreUnavailable(
                f"s3://{config.bucket}: {describe_client(error)}"
            ) from error
        adapt(client)
        check_roots(client)
        return cls(config, client, resources, traffic or StoreTraffic())

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        check_path(path)
        size = sum(len(part) for part in parts)
        value = 0
        for part in parts:
            value = crc32c(part, value)
        checksum = base64.b64encode(value.to_bytes(4, "big")).decode()
        await self._tries.run(
            "PUT", self._url(path), size, partial(self._put, path, parts, size, checksum)
        )

    async def _put(
        self, path: str, parts: Sequence[Buffer], size: int, checksum: str, moved: Moved
    ) -> None:
        # botocore takes all that can be read; its stubs say otherwise
        body: Any = PartsBody(parts, moved)
        try:
            with self._large_bodies.sending(size), readable():
                answer = await self._client.put_object(
                    Bucket=self._bucket,
                    Key=self._root + path,
                    Body=body,
                    ContentLength=size,
                    ChecksumCRC32C=checksum,
                    IfNoneMatch="*",
                )
        except ClientError as refusal:
            if status_of(refusal) not in {409, 412}:
                raise
            held = await self._holds(path, size, checksum, parts, moved)
            if held is None:
                raise
            if not held:
                raise ObjectConflict(f"{self._url(path)} holds other bytes") from refusal
            return
        check_is_of_object(answer)
        if answer.get("ChecksumCRC32C", checksum) != checksum:
            raise ResponseParserError("the server tells the checksum of other bytes")

    async def _holds(
        self, path: str, size: int, checksum: str, parts: Sequence[Buffer], moved: Moved
    ) -> bool | None:
        """Tell whether the object has these bytes; None if there is none (yet)."""
        try:
            with readable():
                head = await self._client.head_object(
                    Bucket=self._bucket, Key=self._root + path, ChecksumMode="ENABLED"
                )
        except ClientError as error:
            if status_of(error) == 404:
                return None
            raise
        check_is_of_object(head)
        if (length := head.get("ContentLength")) is None:
            raise ObjectStoreUnavailable(f"{self._url(path)}: the server tells no length")
        if length != size:
            return False
        stored = head.get("ChecksumCRC32C")
        if stored and head.get("ChecksumType") != "COMPOSITE":  # that is one over part checksums
            return stored == checksum
        try:
            return size == 0 or await self._fetch(path, 0, size, moved) == b"".join(parts)
        except ObjectMissing:  # it was deleted since
            return None
        except ObjectUnreadable as error:
            raise ObjectStoreUnavailable(f"cannot be compared: {error}") from error

    async def get(self, path: str, start: int, length: int) -> bytearray:
        check_path(path)
        assert start >= 0
        assert length > 0
        return await self._tries.run(
            "GET", self._url(path), length, partial(self._fetch, path, start, length)
        )

    async def _fetch(self, path: str, start: int, length: int, moved: Moved) -> bytearray:
        ask = partial(
            self._client.get_object,
            Bucket=self._bucket,
            Key=self._root + path,
            Range=f"bytes={start}-{start + length - 1}",
        )
        try:
            with readable():
                response = await self._hedges.first(ask, _close_body)
        except ClientError as error:
            if code_of(error) in {"NoSuchKey", "InvalidRange"}:
                raise ObjectMissing(f"{self._url(path)} from {start}: {describe(error)}") from error
            if is_of_object(error):
                raise ObjectUnreadable(f"{self._url(path)}: {describe(error)}") from error
            raise
        async with response["Body"] as body:
            check_is_of_object(response)
            found = length_of(response)
            if found is None:
                raise ObjectStoreUnavailable(f"{self._url(path)}: the server tells no length")
            if found < length:
                raise ObjectMissing(f"{self._url(path)} ends at {start + found}")
            if found > length:
                raise ObjectStoreUnavailable(f"{self._url(path)}: the server ignores Range")
            data = bytearray(length)
            view: Any = memoryview(data)  # typed as bytearray; any writable buffer will do
            done = 0
            while done < length:
                if not (count := await body.readinto(view[done:])):
                    raise IncompleteReadError(actual_bytes=done, expected_bytes=length)
                done += count
                moved()
        return data

    async def delete(self, paths: Sequence[str]) -> Mapping[str, str]:
        for path in paths:
            check_path(path)
        refused: dict[str, str] = {}
        for first in range(0, len(paths), DELETE_LIMIT):
            chunk = paths[first : first + DELETE_LIMIT]
            deletion = S3Deletion(self._client, self._bucket, self._root, chunk)
            size = len(chunk) * DELETE_KEY_BYTES
            try:
                await self._tries.run("DELETE", self._url(chunk[0]), size, deletion.attempt)
            except ObjectStoreUnavailable:
                if not deletion.give_up():
                    raise
            refused |= deletion.refused
        return refused

    async def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        check_prefix(prefix)
        token = ""
        while True:
            page, following = await self._tries.run(
                "LIST", self._url(prefix), 0, partial(self._page, prefix, token)
            )
            for stored in page:
                yield stored
            if following is None:
                return
            last, token = token, following
            if token in {"", last}:
                raise ObjectStoreUnavailable(
                    f"LIST {self._url(prefix)}: the server tells no new continuation token"
                )

    async def _page(
        self, prefix: str, token: str, _: Moved
    ) -> tuple[Sequence[StoredObject], str | None]:
        """Return what a page has, and the token of the next one; None if it is the last."""
        ask = partial(
            self._client.list_objects_v2,
            Bucket=self._bucket,
            Prefix=self._root + prefix,
            MaxKeys=LIST_LIMIT,
        )
        with readable():
            page = await (ask(ContinuationToken=token) if token else ask())
            found = [
                StoredObject(
                    path=entry["Key"][len(self._root) :],
                    size=entry["Size"],
                    modified_ms=int(entry["LastModified"].timestamp() * 1000),
                )
                for entry in page.get("Contents", ())
            ]
        is_last = page.get("IsTruncated") is False
        return found, None if is_last else page.get("NextContinuationToken", "")

    async def close(self) -> None:
        await self._resources.aclose()

    def _url(self, path: str) -> str:
        return f"s3://{self._bucket}/{self._root}{path}"


async def _close_body(response: "GetObjectOutputTypeDef") -> None:
    """Give up an answer that nobody reads, and its connection."""
    response["Body"].close()
