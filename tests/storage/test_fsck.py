"""`streamctl fsck`: each kind of damage is found and named, and a healthy cluster is clean."""

import shlex
import subprocess
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.ids import Partition
from storage.errors import WrongStore
from storage.fsck.fsck_findings import Findings, Kind
from storage.fsck.fsck_tiling import PartitionState, RowExtent, TilingCheck
from storage.objects.store_marker import MARKER, new_mark, read_marker
from tests.clients.confluent import Confluent
from tests.storage.recovering import COMMAND, REPOSITORY, building_broker, send, streamctl
from tests.storage.segments_made import TOPIC_ID
from tests.storage.stored_log import HOUR_MS, StoredLog, stored_log
from tests.support.wal_objects import wal_with_batches

ROWS = "streamhouse_internal.segments"


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    """Two segments, and two objects of the writer behind them; all of it is right."""
    async with stored_log() as opened:
        for number in range(2):
            for value in (b"a", b"b"):
                await opened.write(value * 3, value * 5)
            await opened.build()
            assert len(await opened.rows()) == 1 + number
        for value in (b"c", b"d"):
            await opened.write(value, value)
        yield opened


async def found(log: StoredLog, *, deep: bool = False) -> dict[Kind, list[str]]:
    return (await log.fsck(deep=deep)).findings.examples


async def test_what_is_right_is_clean(log: StoredLog) -> None:
    check = await log.fsck(deep=True)
    assert check.findings.examples == {}
    assert not check.findings.damaged
    assert (check.checked.partitions, check.checked.rows) == (2, 4)
    batches = sum(row.length for row in await log.rows())
    assert check.checked.read_bytes == batches


async def test_a_missing_row_is_found(log: StoredLog) -> None:
    await log.sql(f"DELETE FROM {ROWS} WHERE start_offset = 8")
    assert await found(log) == {Kind.ROW_MISSING: ["orders-0: offsets 8 to 9"]}
    await log.sql(f"DELETE FROM {ROWS} WHERE start_offset = 10")
    assert await found(log, deep=True) == {Kind.ROW_MISSING: ["orders-0: offsets 8 to 11"]}


async def test_overlapping_rows_are_found(log: StoredLog) -> None:
    await log.sql(f"UPDATE {ROWS} SET start_offset = 7 WHERE start_offset = 8")
    assert await found(log) == {Kind.ROWS_OVERLAP: ["orders-0: offsets 7 to 7"]}


async def test_rows_behind_the_end_and_out_of_order_are_found(log: StoredLog) -> None:
    partitions = "streamhouse_internal.partitions"
    await log.sql(f"UPDATE {partitions} SET high_watermark = 11 WHERE partition = 0")
    assert await found(log) == {Kind.ROW_BEHIND_END: ["orders-0: offsets 10 to 11"]}
    await log.sql(
        f"UPDATE {partitions} SET high_watermark = 12, built_offset = 4 WHERE partition = 0"
    )
    assert await found(log) == {Kind.NOT_BUILT_IN_ORDER: ["orders-0: offsets 4 to 7"]}


async def test_rows_that_were_stepped_over_are_told_and_are_no_damage(log: StoredLog) -> None:
    await log.sql(
        "UPDATE streamhouse_internal.partitions SET built_offset = 10 WHERE partition = 0"
    )
    check = await log.fsck(deep=True)
    assert check.findings.examples == {Kind.NOT_BUILT: ["orders-0: offsets 8 to 9"]}
    assert not check.findings.damaged


async def test_missing_and_short_and_wrong_objects_are_found(log: StoredLog) -> None:
    # Given a segment that is gone, one that lost its end, and objects of the writer alike
    rows = await log.rows()
    first, second, third, fourth = (row.path for row in rows)
    whole = {path: log.content(path) for path in (first, second, third, fourth)}
    log.spoil(first, None)
    log.spoil(second, whole[second][:-1])
    log.spoil(third, whole[third] + b"more")
    log.spoil(fourth, whole[fourth][:100])

    # Then each is named for what it is
    assert await found(log) == {
        Kind.OBJECT_MISSING: [f"{first}: 1 rows name it"],
        Kind.OBJECT_TOO_SHORT: [
            f"{fourth}: 100 bytes, the index says {rows[3].length}",
            f"{second}: {len(whole[second]) - 1} bytes, the index says {len(whole[second])}",
        ],
        Kind.WRONG_SIZE: [
            f"{third}: {len(whole[third]) + 4} bytes, the index says {len(whole[third])}"
        ],
    }
    log.spoil(second, whole[second] + b"!")
    assert Kind.WRONG_SIZE in await found(log)


@pytest.mark.parametrize("row", range(4))
async def test_a_flipped_byte_is_found_when_all_are_read(log: StoredLog, row: int) -> None:
    rows = await log.rows()
    content = bytearray(log.content(rows[row].path))
    content[rows[row].start + 65] ^= 1
    log.spoil(rows[row].path, bytes(content))
    assert await found(log) == {}
    damage = await found(log, deep=True)
    assert list(damage) == [Kind.DAMAGED]
    (text,) = damage[Kind.DAMAGED]
    extent = f"offsets {rows[row].start_offset} to {rows[row].end_offset}"
    assert text.startswith(f"orders-0: {extent}, ")
    assert rows[row].path in text
    assert "checksum" in text


async def test_a_damaged_index_header_and_row_are_found(log: StoredLog) -> None:
    rows = await log.rows()
    for at in (9, rows[0].start + rows[0].length + 3):
        content = bytearray(log.content(rows[0].path))
        content[at] ^= 1
        log.spoil(rows[0].path, bytes(content))
        assert list(await found(log, deep=True)) == [Kind.DAMAGED], at
        content[at] ^= 1
        log.spoil(rows[0].path, bytes(content))
    await log.sql(f"UPDATE {ROWS} SET max_timestamp_ms = 7 WHERE start_offset = 0")
    assert "another largest timestamp" in (await found(log, deep=True))[Kind.DAMAGED][0]


async def test_an_object_in_the_wrong_state_is_found(log: StoredLog) -> None:
    path = (await log.rows())[3].path
    await log.sql("UPDATE streamhouse_internal.objects SET state = 'doomed' WHERE path = $1", path)
    assert await found(log) == {Kind.WRONG_STATE: [f"{path}: it is doomed, and 1 rows name it"]}


async def test_what_is_left_over_is_counted_and_no_damage(log: StoredLog) -> None:
    # Given rows before the log start, orphans, and uploads that nobody ended, all of them old
    await log.metadata.delete_records({log.partition(): 5})
    orphan = await log.write(b"x", index=1, commit=False)
    await log.metadata.reserve_objects(["wal/00/pending"])
    unneeded = await log.write(b"y", index=1)
    await log.sql(f"DELETE FROM {ROWS} WHERE partition = 1")
    await log.sql("UPDATE streamhouse_internal.partitions SET high_watermark = 0 WHERE partition=1")
    assert set(await found(log)) == {Kind.LEFTOVER_ROWS}
    await log.sql(
        "UPDATE streamhouse_internal.objects SET created_at = created_at - interval '3 h',"
        " state_at = state_at - interval '3 h'"
    )
    log.ahead_ms = 3 * HOUR_MS

    # Then they are counted, and the cluster is not damaged
    check = await log.fsck()
    left = dict(check.findings.examples)
    left.pop(Kind.OLD_DOOMED)  # what was built, for the sweeper
    assert left == {
        Kind.LEFTOVER_ROWS: ["orders-0: 1"],
        Kind.UNNEEDED: [unneeded],
        Kind.OLD_PENDING: ["wal/00/pending"],
        Kind.ORPHANS: [orphan],
    }
    assert not check.findings.damaged

    # And what no row names is given up when it is to be repaired
    assert await check.repair() == 1
    assert Kind.UNNEEDED not in await found(log)


async def test_another_clusters_store_is_refused(log: StoredLog) -> None:
    log.spoil(MARKER, b'{"cluster_id": "other"}')
    with pytest.raises(WrongStore, match="belongs to cluster other"):
        await log.fsck()
    log.spoil(MARKER, None)
    with pytest.raises(WrongStore, match="no cluster's mark"):
        await log.fsck()


async def test_a_store_that_was_marked_for_a_cluster_with_another_one_is_refused(
    log: StoredLog,
) -> None:
    # Given a store that a broker has marked for the cluster, after another one had marked its own
    mark = await read_marker(log.objects)
    assert mark is not None
    await log.fsck()  # nobody has told which one is the cluster's
    await log.metadata.claim_store(mark.store_id)
    await log.fsck()
    log.spoil(MARKER, new_mark(mark.cluster_id).content())

    # When it is checked, then it is refused: its objects are none of this index
    with pytest.raises(WrongStore, match="which took another one"):
        await log.fsck()


@given(lengths=st.lists(st.integers(1, 9), max_size=8), data=st.data(), start=st.integers(0, 2**40))
def test_rows_are_right_exactly_if_they_tile(
    lengths: list[int], data: st.DataObject, start: int
) -> None:
    # Given rows that tile, of which the first may begin before the log
    rows, at = [], start
    for length in lengths:
        rows.append(RowExtent(at, at + length - 1, is_built=False))
        at += length
    log_start = start + data.draw(st.integers(0, lengths[0] - 1 if lengths else 0))
    state = PartitionState(
        topic="t",
        partition=Partition(TOPIC_ID, 0),
        log_start_offset=log_start,
        high_watermark=at if lengths else log_start,
        built_offset=0,
    )

    def kinds(extents: list[RowExtent]) -> set[Kind]:
        findings = Findings()
        check = TilingCheck(state, findings)
        for extent in extents:
            check.take(extent)
        check.finish()
        return set(findings.counts)

    # Then they are right; and not so without one of them, or with another one
    assert kinds(rows) == set()
    if rows:
        without = data.draw(st.integers(0, len(rows) - 1))
        assert kinds(rows[:without] + rows[without + 1 :]) == {Kind.ROW_MISSING}
        assert Kind.ROW_BEHIND_END in kinds([*rows, RowExtent(at, at, is_built=False)])


def test_a_healthy_cluster_is_clean_while_it_works(tmp_path: Path) -> None:
    with building_broker(tmp_path) as broker:
        # Given a broker that takes records, builds, and sweeps
        client = Confluent(bootstrap=broker.bootstrap)
        client.create_topic("t", partition_count=2)
        values = [b"value-%d" % number for number in range(400)]
        with ThreadPoolExecutor(2) as threads:
            sending = [
                threads.submit(send, broker, "t", values, partition=partition)
                for partition in range(2)
            ]

            # When it is checked meanwhile, and afterwards
            checks = [
                streamctl("fsck", "--data", str(tmp_path), "--deep", "--json") for _ in range(3)
            ]
            for each in sending:
                each.result()
        broker.process.stop()
        checks.append(streamctl("fsck", "--data", str(tmp_path), "--deep", "--json"))

    # Then nothing is wrong
    assert [check.exit_code for check in checks] == [0] * 4, [c.out + c.err for c in checks]
    assert checks[-1].json["checked"]["partitions"] >= 2
    assert checks[-1].json["checked"]["read_bytes"] > 0


def test_damage_is_shown_with_what_to_do(tmp_path: Path) -> None:
    with building_broker(tmp_path) as broker:
        Confluent(bootstrap=broker.bootstrap).create_topic("t", partition_count=1)
        send(broker, "t", [b"value"])
        broker.process.stop()
        (wal,) = wal_with_batches(tmp_path)
        wal.unlink()
        shown = streamctl("fsck", "--data", str(tmp_path))
        command = shlex.join((*COMMAND, "fsck", "--data", str(tmp_path)))
        unread = f"{command} | head -c 0; exit ${{PIPESTATUS[0]}}"
        assert subprocess.run(["bash", "-c", unread], cwd=REPOSITORY, check=False).returncode == 1
    assert shown.exit_code == 1
    assert f"wal/{wal.parent.name}/{wal.name}: 1 rows name it" in shown.out
    assert "object missing: restore it under this path" in shown.err
    assert "nothing is damaged" not in shown.out


def test_stores_have_to_be_named() -> None:
    unsaid = streamctl("fsck", "--store", "/tmp/nothing")
    assert unsaid.exit_code == 2
    assert "give --postgres DSN and --store URL" in unsaid.err
    for command in ("fsck", "reconcile", "recover"):
        shown = streamctl(command, "--help")
        assert f"streamctl {command} " in shown.out.partition("Examples")[2]


@pytest.mark.parametrize("command", ["fsck", "reconcile", "recover"])
def test_what_is_not_there_is_not_made(tmp_path: Path, command: str) -> None:
    # Given no data directory, and a directory of something else
    absent, other = tmp_path / "absent", tmp_path / "other"
    (other / "objects").mkdir(parents=True)
    if command == "recover":  # which makes a database, and needs no mark of a cluster
        (other / "objects").rmdir()

    # When one of them is named by mistake
    checked = streamctl(command, "--data", str(absent))
    mistaken = streamctl(command, "--data", str(other))
    store = streamctl(command, "--postgres", "postgresql://127.0.0.1:1/x", "--store", str(absent))

    # Then that is told, and nothing was written
    for said, place in ((checked, absent), (mistaken, other), (store, absent)):
        assert said.exit_code == 1
        assert str(place) in said.err
        assert "is no object store of a cluster" in said.err
        assert "--data" in said.err
    assert not absent.exists()
    assert [path.name for path in other.rglob("*")] == (["objects"] * (command != "recover"))
