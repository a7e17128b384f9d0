"""A broker whose object store, or a proxy before it, says what S3 does not."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from protocol.records import Record, build_batch
from tests.support.broker import BrokerProcess, start_broker
from tests.support.odd_s3_server import ETAG, Answer, OddS3Server
from tests.support.postgres import until
from tests.support.wire import WireClient

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAYS_NOTHING: Final = Answer()
CANNOT_BE_READ: Final = Answer(headers={**ETAG, "x-amz-object-size": "large"})


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server() -> AsyncIterator[OddS3Server]:
    async with OddS3Server.running() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def broker(
    server: OddS3Server, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[BrokerProcess]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", "test")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "test")
        store = f"s3://odd/log?endpoint={server.endpoint}&region=us-east-1"
        running = await asyncio.to_thread(
            start_broker, tmp_path_factory.mktemp("odd"), "--store", store
        )
    yield running
    assert await asyncio.to_thread(running.stop) == 0


@pytest.mark.parametrize("said", [SAYS_NOTHING, CANNOT_BE_READ], ids=["nothing", "nonsense"])
async def test_what_a_store_does_not_confirm_is_not_acknowledged(
    server: OddS3Server, broker: BrokerProcess, said: Answer
) -> None:
    async with await WireClient.connect(broker.bootstrap) as wire:
        # Given a store that answers 200 to a PUT, but not as S3 does, and keeps nothing
        topic = f"topic-{said is SAYS_NOTHING}"
        await wire.create_topic(topic)
        stored, asked = len(server.objects), server.asked["PUT"]
        server.refusals["PUT"] = said

        # When records are produced, then they are not acknowledged: they are stored again
        batch = build_batch([Record(offset_delta=0, value=b"v")])
        produced = asyncio.create_task(wire.produce(topic, batch))

        async def asked_again() -> bool:
            return server.asked["PUT"] > asked + 1

        await until(asked_again)
        assert not produced.done()

        # And they are, as soon as they are in the store
        server.refusals.clear()
        assert (await produced).error_code == 0
        assert len(server.objects) == stored + 1
