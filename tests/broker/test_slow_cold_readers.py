"""What waits for a slow reader stays as it was read, however much others read meanwhile."""

from pathlib import Path
from random import Random
from typing import Any, Final

from protocol.batch import batch_extents, read_header
from protocol.records import Record, build_batch
from tests.support.broker import start_broker
from tests.support.wire import WireClient, encode_frame, fetch_request

TOPIC: Final = "old"
BATCHES: Final = 48
BATCH_BYTES: Final = 700_000
SLOW: Final = 4
REQUESTS: Final = 6
"""Of each slow reader, with 4 MiB to answer: more than the buffers of its socket take."""

SMALL_CACHES: Final = {
    "STREAMHOUSE_CACHE__TAIL_BYTES": "1000000",
    "STREAMHOUSE_CACHE__BLOCK_BYTES": "9000000",
}


def ask_for(offset: int) -> Any:
    return fetch_request(
        [(TOPIC, 0, offset)], max_bytes=4 << 20, partition_max_bytes=4 << 20, max_wait_ms=0
    )


def check(response: Any, written: list[bytes], offset: int) -> int:
    """Check that batches are there as they were written, from `offset` on; return the next one."""
    records = memoryview(response.responses[0].partitions[0].records)
    for start, size, _ in batch_extents(records):  # their checksums, too
        batch = records[start : start + size]
        assert read_header(batch).base_offset == offset
        assert batch[61:] == written[offset][61:], f"other bytes at offset {offset}"
        offset += 1
    return offset


async def test_what_waits_for_a_slow_reader_is_never_overwritten(tmp_path: Path) -> None:
    # Given a log of which neither tail nor cache hold much
    broker = start_broker(tmp_path, environment=SMALL_CACHES)
    try:
        await crowd(broker.bootstrap)
    finally:
        broker.stop()


async def crowd(bootstrap: str) -> None:
    """Let slow readers wait while another reads everything, and check all that they get."""
    random, written = Random(7), []
    async with await WireClient.connect(bootstrap) as wire:
        await wire.create_topic(TOPIC)
        for number in range(BATCHES):
            size = BATCH_BYTES - 1000 * number
            batch = build_batch([Record(offset_delta=0, value=random.randbytes(size))])
            written.append(batch)
            await wire.produce(TOPIC, batch)

        # When some ask for much and do not read it
        slow = [await WireClient.connect(bootstrap) for _ in range(SLOW)]
        for number, client in enumerate(slow):
            for _ in range(REQUESTS):
                await client.send(encode_frame(ask_for(number * 5), 1))

        # And another reads everything, three times, one fetch after the other
        for _ in range(3):
            offset = 0
            while offset < BATCHES:
                following = check(await wire.ask(ask_for(offset)), written, offset)
                assert following > offset
                offset = following

        # Then all that the slow ones read at last is what was written
        for number, client in enumerate(slow):
            for _ in range(REQUESTS):
                _, response = await client.receive(ask_for(0))
                assert check(response, written, number * 5) > number * 5
            await client.__aexit__()
