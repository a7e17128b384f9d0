"""What S3 promises beyond the contract of all object stores: trouble on the way is survived."""

import asyncio
import base64
import os
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from storage.config import KiB, MiB
from storage.errors import ObjectConflict, ObjectMissing, ObjectStoreUnavailable
from storage.objects import objects_s3, s3_tries
from storage.objects.open_store import open_store
from storage.objects.port import Buffer
from tests.contracts.object_stores import PATIENCE_S, content, fresh_s3_config, s3_store, sizes
from tests.support.host import Stopwatch
from tests.support.s3_server import S3Server

TCP_TABLE = Path("/proc/net/tcp")
ESTABLISHED = "01"


async def until_connected(server: S3Server) -> None:
    """Return when somebody has a connection to the server; a paused one cannot tell itself."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_connected_to(server):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def is_connected_to(server: S3Server) -> bool:
    """Look through the kernel's table: number, local address, remote address, state, ..."""
    for line in TCP_TABLE.read_text().splitlines()[1:]:
        _, _, remote, state, *_ = line.split()
        if state == ESTABLISHED and int(remote.rpartition(":")[2], 16) == server.port:
            return True
    return False


async def test_a_put_survives_a_server_that_is_killed_and_restarted(
    own_s3_server: S3Server,
) -> None:
    # Given a put that is under way, at a server that does not answer any more
    async with s3_store(fresh_s3_config(own_s3_server)) as store:
        stored = os.urandom(16 * MiB)
        own_s3_server.pause()
        put = asyncio.create_task(store.put("wal/1", [stored]))
        await until_connected(own_s3_server)

        # When the server is killed, and comes back within the deadline
        own_s3_server.kill()
        own_s3_server.restart()

        # Then the put succeeds
        await put
        assert await content(store, "wal/1", 16 * MiB) == stored


async def test_reads_survive_a_restart_of_the_server(own_s3_server: S3Server) -> None:
    # Given a store whose connections are open
    async with s3_store(fresh_s3_config(own_s3_server)) as store:
        await store.put("wal/1", [b"first"])
        reads = [asyncio.create_task(store.get("wal/none", 0, 5)) for _ in range(4)]
        await asyncio.wait(reads)

        # When the server restarts, so that every one of them is dead
        own_s3_server.restart()

        # Then the next calls do not notice
        await store.put("wal/2", [b"second"])
        assert await content(store, "wal/2", 6) == b"second"
        assert (await sizes(store))["wal/2"] == 6
        await store.delete(["wal/2"])
        assert [type(read.exception()) for read in reads] == [ObjectMissing] * 4


@pytest.mark.alone
@pytest.mark.parametrize("trouble", ["killed", "paused"])
async def test_a_server_that_stays_away_is_unavailable_at_the_deadline(
    own_s3_server: S3Server, trouble: str
) -> None:
    # Given a server that refuses connections, or takes them and never answers
    config = replace(fresh_s3_config(own_s3_server), deadline_s=1.5)
    async with s3_store(config) as store:
        await store.put("wal/1", [b"first"])
        if trouble == "killed":
            own_s3_server.kill()
        else:
            own_s3_server.pause()

        # When it is asked, by all verbs at once
        stopwatch = Stopwatch()
        outcomes = await asyncio.gather(
            store.put("wal/2", [b"second"]),
            store.get("wal/1", 0, 5),
            store.delete(["wal/1"]),
            sizes(store),
            return_exceptions=True,
        )

        # Then each gives up at its deadline, not earlier, and says why
        assert [type(outcome) for outcome in outcomes] == [ObjectStoreUnavailable] * 4
        assert 1.4 < stopwatch.elapsed_s() < 3 + stopwatch.waited_s()
        assert "s3://contracts/" in str(outcomes[0])
        assert "nothing in 1.5 s" in str(outcomes[0])


async def test_a_cancelled_call_leaves_the_client_usable(own_s3_server: S3Server) -> None:
    # Given calls that hang
    async with s3_store(fresh_s3_config(own_s3_server)) as store:
        own_s3_server.pause()
        calls = [
            asyncio.create_task(store.put("wal/1", [bytes(8 * MiB)])),
            asyncio.create_task(store.get("wal/2", 0, 5)),
        ]
        await until_connected(own_s3_server)

        # When they are cancelled, then they end long before their time, and later calls succeed
        for call in calls:
            call.cancel()
        await asyncio.wait(calls, timeout=PATIENCE_S / 4)
        assert all(call.cancelled() for call in calls)
        own_s3_server.resume()
        await store.put("wal/3", [b"third"])


async def test_what_was_stored_without_a_checksum_is_compared_by_its_bytes(
    s3_server: S3Server,
) -> None:
    # Given an object that another client stored without CRC32C
    config = fresh_s3_config(s3_server)
    async with s3_store(config) as store:
        await store._client.put_object(
            Bucket=config.bucket, Key=f"{config.prefix}/wal/1", Body=b"first", ContentLength=5
        )

        # When the same bytes are put, then they count as stored; other bytes are a conflict
        await store.put("wal/1", [b"fi", b"rst"])
        with pytest.raises(ObjectConflict):
            await store.put("wal/1", [b"other"])


@pytest.mark.parametrize("size", [200, 3 * MiB])
async def test_a_put_sends_its_checksum_and_signs_no_body(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    # Given a store over plain HTTP that asks only once, however slow it is, and a record of that
    monkeypatch.setattr(s3_tries, "FIRST_ANSWER_S", PATIENCE_S)
    async with s3_store(fresh_s3_config(s3_server)) as store:
        sent: list[Mapping[str, str]] = []

        def record(request: Any, **_: object) -> None:
            sent.append({name.lower(): _text(value) for name, value in request.headers.items()})

        store._client.meta.events.register("before-send.s3.PutObject", record)

        # When an object is put
        stored = os.urandom(size)
        await store.put("wal/1", [stored])

        # Then one request was sent, with the checksum of its body, which is not signed;
        # only a large one asks before it sends its body
        (headers,) = sent
        assert headers["x-amz-checksum-crc32c"] == base64.b64encode(
            crc32c(stored).to_bytes(4, "big")
        ).decode("ascii")
        assert headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
        assert headers["if-none-match"] == "*"
        assert ("expect" in headers) == (size > MiB)


def _text(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value


async def test_a_put_makes_no_copy_of_the_object(s3_server: S3Server) -> None:
    # Given an object of large and small parts, of all kinds of buffers
    async with s3_store(fresh_s3_config(s3_server)) as store:
        large = [bytearray(os.urandom(size)) for size in (5 * MiB, 512 * KiB, 64 * KiB + 1)]
        small = [memoryview(os.urandom(size)) for size in (64 * KiB - 1, 1, *[1000] * 1000)]
        parts: list[Buffer] = [*small[:3], *large, os.urandom(8 * MiB), *small[3:], *large]
        await store.put("first", [b"connected"])

        # When it is stored
        tracemalloc.start()
        try:
            await store.put("object", parts)
            _, most_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        # Then it took little memory, and all of it is there
        whole = b"".join(parts)
        assert most_bytes < 2 * MiB
        assert await content(store, "object", len(whole)) == whole


async def test_more_objects_than_one_request_takes_are_listed_and_deleted(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given more objects than one answer holds, or one request deletes
    monkeypatch.setattr(objects_s3, "LIST_LIMIT", 10)
    monkeypatch.setattr(objects_s3, "DELETE_LIMIT", 10)
    async with s3_store(fresh_s3_config(s3_server)) as store:
        paths = [f"wal/{number:02}" for number in range(35)]
        await asyncio.gather(*(store.put(path, [b"x"]) for path in paths))

        # When they are listed, then all are there, once
        assert await sizes(store, "wal/") == dict.fromkeys(paths, 1)

        # And when they are deleted, then all are gone
        await store.delete(paths)
        assert await sizes(store) == {}


async def test_an_object_that_cannot_be_deleted_keeps_no_other(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a bucket whose policy denies the deletion of one object
    async with s3_store(fresh_s3_config(s3_server)) as store:
        for path in ("wal/0", "wal/1", "wal/2"):
            await store.put(path, [b"x"])
        delete_objects = store._client.delete_objects

        async def deny_one(*, Bucket: str, Delete: Any) -> Any:  # noqa: N803 (S3's names)
            keys = [one["Key"] for one in Delete["Objects"]]
            held = [key for key in keys if key.endswith("wal/1")]
            allowed: Any = [{"Key": key} for key in keys if key not in held]
            await delete_objects(Bucket=Bucket, Delete={"Objects": allowed, "Quiet": True})
            return {"Errors": [{"Key": key, "Code": "AccessDenied"} for key in held]}

        monkeypatch.setattr(store._client, "delete_objects", deny_one)

        # When all are deleted, then it alone is left, and the answer says why
        refused = await store.delete(["wal/0", "wal/1", "wal/2"])
        assert list(refused) == ["wal/1"]
        assert "AccessDenied" in refused["wal/1"]
        assert await sizes(store) == {"wal/1": 1}


async def test_a_refused_delete_that_names_no_object_is_told(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a server that does not say which object it keeps
    async with s3_store(fresh_s3_config(s3_server)) as store:

        async def deny(*, Bucket: str, Delete: Any) -> Any:  # noqa: N803 (S3's names)
            return {"Errors": [{"Code": "AccessDenied"}]}

        monkeypatch.setattr(store._client, "delete_objects", deny)

        # When objects are deleted, then that is an error of the store
        with pytest.raises(ObjectStoreUnavailable, match="AccessDenied"):
            await store.delete(["wal/0", "wal/1"])


async def test_a_bucket_that_is_missing_is_named_at_once(s3_server: S3Server) -> None:
    # Given a bucket that nobody made
    async with s3_store(replace(fresh_s3_config(s3_server), bucket="nobody-made-this")) as store:
        # When it is used, then no time is lost by trying again, and nothing is called missing data
        began = time.monotonic()
        with pytest.raises(ObjectStoreUnavailable, match="NoSuchBucket; create the bucket"):
            await store.put("wal/1", [b"x"])
        with pytest.raises(ObjectStoreUnavailable, match="NoSuchBucket"):
            await store.get("wal/1", 0, 1)
        assert time.monotonic() - began < PATIENCE_S


async def test_missing_credentials_are_named_at_once(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a machine without credentials
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    async with s3_store(fresh_s3_config(s3_server)) as store:
        # When the store is used, then the error tells which variables to set
        with pytest.raises(ObjectStoreUnavailable, match=r"no credentials.*AWS_ACCESS_KEY_ID"):
            await store.put("wal/1", [b"x"])


@pytest.mark.parametrize(
    ("variables", "options", "remedy"),
    [
        ({"AWS_PROFILE": "nope"}, "", r"profile \(nope\).*AWS_PROFILE"),
        ({}, "?region=eu west", r"'eu west'.*\?region=R"),
        ({}, "?endpoint=http://a..b:1", r"http://a\.\.b:1.*\?endpoint=URL"),
        ({"AWS_SECRET_ACCESS_KEY": ""}, "", "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_CONFIG_FILE": __file__}, "", "Unable to parse config file"),
    ],
)
@pytest.mark.usefixtures("s3_server")
async def test_a_client_that_cannot_be_made_is_unavailable_and_says_why(
    monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str], options: str, remedy: str
) -> None:
    # Given something wrong in the environment, or in the store's URL
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    # When the store is opened, then that is no bug, and the error tells what to mend
    with pytest.raises(ObjectStoreUnavailable, match=remedy):
        await open_store(f"s3://records{options}")
