"""Servers that speak S3 in their own way, and what proxies before them make of it."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from storage.config import MiB, S3Config
from storage.errors import ObjectConflict, ObjectMissing, ObjectStoreUnavailable, ObjectUnreadable
from storage.objects import objects_s3, s3_tries
from storage.objects.objects_s3 import S3Store
from tests.contracts.object_stores import PATIENCE_S, content, s3_store, sizes
from tests.support.odd_s3_server import ETAG, Answer, OddS3Server, error
from tests.support.postgres import until

REFUSED = b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

NO_S3: Final = [
    Answer(),
    Answer(200, b"<html><body>Back soon</body></html>", {"Content-Type": "text/html"}),
]
"""What a proxy answers to everything, whatever becomes of it."""


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OddS3Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    async with OddS3Server.running() as running:
        yield running


@asynccontextmanager
async def store_of(
    server: OddS3Server, *, deadline_s: float = PATIENCE_S
) -> AsyncIterator[S3Store]:
    config = S3Config(bucket="odd", endpoint=server.endpoint, deadline_s=deadline_s)
    async with s3_store(config) as store:
        yield store


@pytest.mark.parametrize("continues", [b"", REFUSED], ids=["ignored", "refused"])
async def test_a_server_that_is_not_to_be_asked_before_the_body_gets_it(
    server: OddS3Server, monkeypatch: pytest.MonkeyPatch, continues: bytes
) -> None:
    async with store_of(server) as store:
        # Given a server, or a proxy, that waits for the body whatever is expected, or refuses
        server.continues = continues

        # When large objects are stored, the later ones in tries that have all the time they need
        await store.put("wal/1", [bytes(2 * MiB)])
        monkeypatch.setattr(s3_tries, "FIRST_ANSWER_S", PATIENCE_S)
        for path in ("wal/2", "wal/3"):
            await store.put(path, [bytes(2 * MiB)])

        # Then they are, and after the first one no try is lost
        assert {path: len(stored) for path, stored in server.objects.items()} == dict.fromkeys(
            ("wal/1", "wal/2", "wal/3"), 2 * MiB
        )
        assert server.asked["PUT"] == 4


async def test_a_body_without_a_length_is_read(server: OddS3Server) -> None:
    async with store_of(server) as store:
        # Given a server whose answers come in chunks, and an object
        server.lengths = False
        stored = bytes(range(250)) * 20
        await store.put("wal/1", [stored])

        # When ranges are read, then they are there, or missing where the object ends
        assert bytes(await store.get("wal/1", 10, 4_000)) == stored[10:4_010]
        assert await content(store, "wal/1", 5_000) == stored
        with pytest.raises(ObjectMissing, match="ends at 5000"):
            await store.get("wal/1", 4_000, 2_000)

        # And what cannot be compared is no reason to believe that it is stored
        with pytest.raises(ObjectStoreUnavailable, match="no length"):
            await store.put("wal/1", [stored])


@pytest.mark.parametrize("status", [301, 307])
async def test_a_bucket_elsewhere_is_told(server: OddS3Server, status: int) -> None:
    async with store_of(server) as store:
        # Given a server that says so, and not where
        elsewhere = error(status, "PermanentRedirect")
        server.refusals = dict.fromkeys(("GET", "HEAD", "PUT", "POST"), elsewhere)

        # When it is used, then the error tells at once which option to set
        for call in (store.put("wal/1", [b"x"]), store.get("wal/1", 0, 1), sizes(store)):
            with pytest.raises(ObjectStoreUnavailable, match=r"PermanentRedirect.*\?region=R"):
                await call
        assert server.asked.total() < 10


async def test_many_objects_may_take_their_time_to_be_deleted(server: OddS3Server) -> None:
    async with store_of(server, deadline_s=2.0) as store:
        # Given a server that deletes one key after the other, also those that are gone
        server.objects = {f"wal/{number:04}": b"x" for number in range(1000)}
        server.delete_s = 0.003

        # When a thousand are deleted, then there is time for it, and one request is enough
        await store.delete(list(server.objects))
        assert not server.objects
        assert server.asked["POST"] == 1


@pytest.mark.alone
async def test_a_slow_server_is_waited_for_while_bytes_move(
    server: OddS3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that gives a try a second, all of them two and a half, and a server that takes,
    # or sends, 16 MiB in three
    monkeypatch.setattr(s3_tries, "FIRST_ANSWER_S", 1.0)
    monkeypatch.setattr(s3_tries, "SLOW_BYTES_PER_S", 1024 * MiB)
    async with store_of(server, deadline_s=2.5) as store:
        server.piece_s = 0.012
        stored = os.urandom(16 * MiB)

        # When an object is written and read, then each takes a second try, and no other
        await store.put("wal/1", [stored])
        assert await content(store, "wal/1", len(stored)) == stored
        assert server.asked == {"PUT": 2, "GET": 2}


async def test_a_key_that_cannot_be_deleted_keeps_no_other(server: OddS3Server) -> None:
    async with store_of(server, deadline_s=5.0) as store:
        # Given a server that fails with one key whenever it is deleted, and refuses another
        paths = [f"wal/{number}" for number in range(5)]
        server.objects = dict.fromkeys(paths, b"x")
        server.kept = {"wal/1": "InternalError", "wal/2": "AccessDenied"}

        # When all are deleted, then these two are left, and only the first was asked for again
        refused = await store.delete(paths)
        assert refused.keys() == server.objects.keys() == {"wal/1", "wal/2"}
        assert "InternalError" in refused["wal/1"]
        assert "AccessDenied" in refused["wal/2"]
        assert server.asked["POST"] > 1

        # When nothing goes, then it is the store that is not well
        with pytest.raises(ObjectStoreUnavailable, match="InternalError"):
            await store.delete(["wal/1"])

        # When it is well again, then it is deleted
        server.kept.clear()
        assert await store.delete(["wal/1"]) == {}
        assert server.objects.keys() == {"wal/2"}


async def test_a_delete_has_the_checksum_that_old_servers_want(server: OddS3Server) -> None:
    async with store_of(server) as store:
        server.objects, server.needs_md5 = {"wal/1": b"x"}, True
        await store.delete(["wal/1"])
        assert not server.objects


async def test_what_a_server_does_not_know_is_told_at_once(
    server: OddS3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_tries, "FIRST_ANSWER_S", PATIENCE_S)  # or a slow one is asked again
    async with store_of(server) as store:
        # Given a server without conditional PUTs
        server.refusals["PUT"] = error(501, "NotImplemented", "If-None-Match\n is not known")

        # When an object is stored, then the error says what the server said
        began_s = time.monotonic()
        with pytest.raises(ObjectStoreUnavailable, match="501 NotImplemented: If-None-Match is"):
            await store.put("wal/1", [b"x"])
        assert server.asked["PUT"] == 1
        assert time.monotonic() - began_s < PATIENCE_S


@pytest.mark.parametrize("said", NO_S3, ids=["nothing", "a page"])
async def test_what_no_s3_server_answers_is_no_success(server: OddS3Server, said: Answer) -> None:
    async with store_of(server) as store:
        # Given an object, and a proxy that takes all requests for a while, and says that all is
        # well
        await store.put("wal/1", [b"x" * 100])
        server.refusals = dict.fromkeys(("GET", "PUT", "POST"), said)

        # When the store is used
        calls = asyncio.gather(
            *(store.put("wal/2", [b"x"]), store.get("wal/1", 0, 100), sizes(store, "wal/1")),
            store.delete(["wal/3"]),
        )

        # Then nothing counts as stored, missing, listed or deleted: all is asked again
        async def asked_again() -> bool:
            return server.asked["PUT"] > 2 and server.asked["GET"] > 4 and server.asked["POST"] > 1

        await until(asked_again)
        assert not calls.done()
        server.objects["wal/3"] = b"x"
        server.refusals.clear()
        _, read, listed, refused = await calls
        assert (bytes(read), listed["wal/1"], refused) == (b"x" * 100, 100, {})
        assert server.objects.keys() == {"wal/1", "wal/2"}


async def test_an_object_is_compared_with_what_an_s3_server_says_only(server: OddS3Server) -> None:
    async with store_of(server) as store:
        # Given an object that is stored, and a proxy that answers for the server whether it is
        await store.put("wal/1", [b"first"])
        server.refusals["HEAD"] = Answer(200, b"<html/>")

        # When the same is put, then it is no conflict: it is asked again
        put = asyncio.create_task(store.put("wal/1", [b"first"]))

        async def asked_again() -> bool:
            return server.asked["HEAD"] > 1

        await until(asked_again)
        server.refusals.clear()
        await put


async def test_other_bytes_than_were_sent_are_not_stored(server: OddS3Server) -> None:
    async with store_of(server) as store:
        # Given a server that got other bytes than were sent, and says so
        server.refusals["PUT"] = Answer(headers={**ETAG, "x-amz-checksum-crc32c": "AAAAAA=="})

        # When an object is put, then it is put again
        put = asyncio.create_task(store.put("wal/1", [b"first"]))

        async def asked_again() -> bool:
            return server.asked["PUT"] > 1

        await until(asked_again)
        server.refusals.clear()
        await put
        assert server.objects == {"wal/1": b"first"}


NO_DATE: Final = (
    b"<ListBucketResult><IsTruncated>false</IsTruncated>"
    b"<Contents><Key>wal/1</Key><Size>1</Size></Contents></ListBucketResult>"
)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("PUT", Answer(headers={**ETAG, "x-amz-object-size": "large"})),
        ("HEAD", Answer(headers={**ETAG, "Last-Modified": "yesterday"})),
        ("GET", Answer(206, b"x", {**ETAG, "Last-Modified": "yesterday"})),
        ("GET", Answer(200, NO_DATE)),
    ],
    ids=["put", "head", "get", "list"],
)
async def test_an_answer_that_cannot_be_read_is_none(
    server: OddS3Server, method: str, said: Answer
) -> None:
    async with store_of(server) as store:
        # Given a server that says what is none of what S3 says, for a while
        server.objects["wal/1"] = b"x"
        server.refusals[method] = said

        async def ask() -> None:
            match method:
                case "PUT":
                    await store.put("wal/2", [b"x"])
                case "HEAD":
                    await store.put("wal/1", [b"x"])
                case _ if said.body == NO_DATE:
                    await sizes(store)
                case _:
                    await store.get("wal/1", 0, 1)

        # When it is asked, then it is asked again, until it has answered
        asking = asyncio.create_task(ask())

        async def asked_again() -> bool:
            return server.asked[method] > 1

        await until(asked_again)
        server.refusals.clear()
        await asking


@pytest.mark.parametrize(
    "said",
    [
        error(403, "InvalidObjectState", "The operation is not valid for its storage class"),
        error(400, "KMS.DisabledException"),
    ],
    ids=["archived", "its key is gone"],
)
async def test_one_object_that_is_not_given_out_is_not_the_store(
    server: OddS3Server, said: Answer
) -> None:
    async with store_of(server) as store:
        # Given two objects, of which a server gives one to nobody
        for path in ("wal/1", "wal/2"):
            await store.put(path, [b"first"])
        server.unreadable["wal/1"] = said

        # When it is read, then that is told of it alone, at once
        asked = server.asked["GET"]
        with pytest.raises(ObjectUnreadable, match=r"s3://odd/wal/1: 4\d\d"):
            await store.get("wal/1", 0, 5)
        assert server.asked["GET"] == asked + 1
        assert await content(store, "wal/2", 5) == b"first"

        # When it is put again, then it may be there, and it may not: nobody can compare it
        with pytest.raises(ObjectStoreUnavailable, match="cannot be compared"):
            await store.put("wal/1", [b"first"])


@pytest.mark.parametrize(
    "said",
    [
        error(403, "AccessDenied"),
        error(404, "NoSuchBucket"),
        Answer(404),
        Answer(416, b"<html>no such page</html>"),
    ],
    ids=["access", "bucket", "404", "416"],
)
async def test_what_is_wrong_with_all_objects_is_the_store(
    server: OddS3Server, said: Answer
) -> None:
    async with store_of(server) as store:
        server.refusals["GET"] = said
        with pytest.raises(ObjectStoreUnavailable):
            await store.get("wal/1", 0, 1)


async def test_a_listing_that_does_not_go_on_ends(
    server: OddS3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a server that has but one page, and calls it the next one, too
    monkeypatch.setattr(objects_s3, "LIST_LIMIT", 10)
    async with store_of(server) as store:
        server.objects = {f"wal/{number:02}": b"x" for number in range(35)}
        assert len(await sizes(store)) == 35
        server.tokens = False

        # When it is listed, then that is an error: it is not all that there is
        with pytest.raises(ObjectStoreUnavailable, match="continuation"):
            await sizes(store)


async def test_an_object_that_is_gone_when_it_is_compared_is_not_there(
    server: OddS3Server,
) -> None:
    async with store_of(server, deadline_s=3.0) as store:
        # Given an object without a checksum, which is deleted after the server was asked for it
        await store.put("wal/1", [b"first"])
        server.refusals["PUT"] = error(412, "PreconditionFailed")
        server.refusals["GET"] = error(404, "NoSuchKey")

        # When the same is put, then it is tried again, and nothing is called missing
        with pytest.raises(ObjectStoreUnavailable, match="PreconditionFailed"):
            await store.put("wal/1", [b"first"])
        assert server.asked["PUT"] > 2


async def test_an_object_that_is_there_is_a_conflict_all_the_same(server: OddS3Server) -> None:
    async with store_of(server) as store:
        server.continues = b""
        await store.put("wal/1", [bytes(2 * MiB)])
        with pytest.raises(ObjectConflict):
            await store.put("wal/1", [bytes(2 * MiB - 1), b"x"])
