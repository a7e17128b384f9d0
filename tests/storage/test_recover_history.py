"""What the store tells once brokers have stopped: all of the log, at its offsets, as it ended."""

import pytest

from storage.fsck.index_age import check_index_age
from tests.storage.recover_world import RecoverWorld
from tests.support import virtual_time

SECONDS = 200.0


@pytest.mark.parametrize("seed", [*range(8), 41])
def test_whatever_brokers_did_is_recovered_as_it_was(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # of what is built only the end is looked at
        monkeypatch.setattr("storage.recovery.recover_tail.TAIL_OFFSETS", 1)

    async def scenario() -> None:
        # Given brokers that wrote, and ended transactions for each other, until they were stopped
        world = RecoverWorld(seed)
        await world.live(SECONDS)
        await check_index_age(world.metadata, world.objects)

        # When their metadata is lost, then each partition is as it was
        recovered = await world.recovered()
        for partition in world.partitions:
            content, rebuilt = recovered[partition]
            assert content == await world.truth(partition)
            offsets = (await world.metadata.partition_offsets([partition]))[partition]
            assert rebuilt.high_watermark == offsets.high_watermark
            page = await world.metadata.aborted_transactions(
                partition, 0, offsets.high_watermark, 10_000, aborted_count=offsets.aborted_count
            )
            assert rebuilt.aborted == page.transactions

    virtual_time.run(scenario())
