"""`streamctl reconcile`: what no row knows goes, unless it is the index that has lost something."""

import os
import shlex
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from storage.errors import ObjectStoreUnavailable, ObjectUnreadable
from storage.fsck.orphans import OrphanNeeded
from storage.fsck.reconcile import IndexTooOld, Reconciler
from storage.objects.port import Owned
from storage.segment_encoder import SegmentEncoder
from storage.segment_entry import SegmentEntry
from tests.clients.confluent import Confluent
from tests.storage.recovering import (
    COMMAND,
    REPOSITORY,
    building_broker,
    read,
    send,
    streamctl,
)
from tests.storage.stored_log import HOUR_MS, StoredLog, stored_log
from tests.storage.test_recover_store import recover, sweep


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    async with stored_log() as opened:
        for _ in range(3):
            await opened.write(b"a", b"b")
        await opened.build()
        await opened.write(b"c")
        yield opened


async def reconciled(log: StoredLog) -> Reconciler:
    """Return a reconciler that has looked through the store."""
    reconciler = Reconciler(metadata=log.metadata, objects=log.objects, now_ms=log.now_ms)
    async for _ in reconciler.find():
        pass
    return reconciler


async def recover_with_gap(log: StoredLog) -> tuple[SegmentEntry, bytes]:
    """Recover a store that lacks a segment between others; return its row, and its bytes."""
    await log.write(b"%300d" % 1)  # a segment of its own
    lost = await log.build()
    await log.write(b"%300d" % 2)
    await log.build()
    await sweep(log)
    content = log.content(lost.path)
    log.spoil(lost.path, None)
    assert (await recover(log)).topics[0].lost
    return lost, content


async def stored(log: StoredLog) -> set[str]:
    return {found.path async for found in log.objects.list("")}


async def test_old_objects_without_a_row_are_deleted_and_nothing_else(log: StoredLog) -> None:
    # Given an upload that came when it was given up, and something that is none of ours
    before = await stored(log)
    log.ends[log.partition()] = 2  # as its writer knew it
    late = await log.write(b"x", commit=False)
    await log.objects.put("wal/00/not-ours", [b"bytes"])

    # When the store is looked through soon after, then nothing is found
    assert (await reconciled(log)).found.orphans == []

    # But hours later they are found, and deleted
    log.ahead_ms = 3 * HOUR_MS
    reconciler = await reconciled(log)
    assert {one.path for one in reconciler.found.orphans} == {late, "wal/00/not-ours"}
    assert await reconciler.delete() == 2
    assert await stored(log) == before
    assert (await log.fsck(deep=True)).findings.examples == {}


async def test_what_got_a_row_meanwhile_stays(log: StoredLog) -> None:
    log.ends[log.partition()] = 2
    late = await log.write(b"x", commit=False)
    log.ahead_ms = 3 * HOUR_MS
    reconciler = await reconciled(log)
    await log.metadata.reserve_objects([late])
    assert await reconciler.delete() == 0
    assert late in await stored(log)


async def test_what_the_store_does_not_let_go_is_told(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an object without a row that a legal hold keeps
    log.ends[log.partition()] = 2
    late = await log.write(b"x", commit=False)
    log.ahead_ms = 3 * HOUR_MS
    reconciler = await reconciled(log)

    async def refuse(paths: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(paths, "AccessDenied")

    monkeypatch.setattr(log.objects, "delete", refuse)

    # When it is to be deleted, then that is an error which names it
    with pytest.raises(ObjectStoreUnavailable, match=f"such as {late}: AccessDenied"):
        await reconciler.delete()


async def test_a_database_that_lost_objects_is_not_trusted(log: StoredLog) -> None:
    # Given more objects without a row than crashes leave
    log.ends[log.partition()] = 0
    for _ in range(11):
        await log.write(b"x", commit=False)
    log.ahead_ms = 3 * HOUR_MS
    with pytest.raises(IndexTooOld, match=r"11 of .* objects have no row"):
        await reconciled(log)


async def test_records_behind_the_end_of_a_log_are_not_deleted(log: StoredLog) -> None:
    # Given an object whose writer saw more of the log than the database has
    log.ends[log.partition()] = 100
    path = await log.write(b"x", commit=False)
    log.ahead_ms = 3 * HOUR_MS
    with pytest.raises(IndexTooOld, match=f"{path} has no row, and records up to offset 100"):
        await reconciled(log)


async def test_a_segment_that_came_in_the_place_of_what_is_gone_is_not_deleted(
    log: StoredLog,
) -> None:
    # Given a segment without a row, and rows of the same offsets
    await log.build()
    built = (await log.rows())[-1]
    segment = log.content(built.path)
    orphan = built.path.replace(".seg", ".00000000.seg")
    await log.objects.put(orphan, [segment])
    log.ahead_ms = 3 * HOUR_MS

    # When the rows' objects are there, then it is a rest, and may go
    assert [one.path for one in (await reconciled(log)).found.orphans] == [orphan]

    # When one is not, then nothing may
    log.spoil(built.path, None)
    with pytest.raises(IndexTooOld, match=f"{built.path}, which the store has not"):
        await reconciled(log)


@pytest.mark.parametrize("what", ["segment", "writer's"])
async def test_what_the_log_has_only_a_gap_for_is_not_deleted(log: StoredLog, what: str) -> None:
    # Given a recovery that lacked a segment, which was put back since without a row, or an object
    # of the writer with some of that
    lost, content = await recover_with_gap(log)
    if what == "segment":
        orphan = lost.path
        await log.objects.put(orphan, [content])
    else:
        log.ends[log.partition()] = lost.start_offset
        orphan = await log.write(b"x", commit=False)
    log.ahead_ms = 3 * HOUR_MS

    # When the store is looked through, then nothing may be deleted, and it is said what helps
    with pytest.raises(OrphanNeeded, match=f"{orphan} has no row") as refused:
        await reconciled(log)
    assert "streamctl recover" in refused.value.fix


async def put_segment(log: StoredLog, first: int, last: int) -> str:
    """Store a segment without a row; return its path."""
    encoder = SegmentEncoder(
        topic_id=log.topic.topic_id, partition=0, topic=log.policy(), start_offset=first
    )
    folder = (await log.rows())[0].path.rpartition("/")[0]
    path = f"{folder}/{first:08d}-{last:08d}.00000000.seg"
    await log.objects.put(path, encoder.finish(end_offset=last).parts)
    return path


async def test_a_segment_that_contradicts_the_log_is_not_deleted(log: StoredLog) -> None:
    # Given segments of offsets 0 to 3, and 4 to 5, and others without rows, of which one has all of
    # that, one has a part of one of them, and one has parts of both
    rests = {await put_segment(log, *offsets) for offsets in [(0, 5), (1, 2)]}
    log.ahead_ms = 3 * HOUR_MS
    assert {one.path for one in (await reconciled(log)).found.orphans} == rests
    log.ahead_ms = 0
    path = await put_segment(log, 2, 4)

    # When the store is looked through, then nothing may be deleted: perhaps that was in the log
    log.ahead_ms = 3 * HOUR_MS
    with pytest.raises(OrphanNeeded, match=f"{path} has no row, .* that the log lacks: 4 to 4"):
        await reconciled(log)


async def test_a_segment_of_what_the_log_begins_behind_is_not_deleted(log: StoredLog) -> None:
    # Given a segment without a row, of offsets that were deleted, or that a recovery did not take
    path = await put_segment(log, 0, 5)
    log.ahead_ms = 3 * HOUR_MS
    for start, lacking in [(4, "0 to 3"), (6, "0 to 5"), (7, "0 to 5")]:
        await log.metadata.delete_records({log.partition(): start})
        await log.sql("DELETE FROM streamhouse_internal.segments WHERE end_offset < $1", start)

        # When the store is looked through, then nothing may be deleted
        with pytest.raises(OrphanNeeded, match=f"{path} has no row, .* lacks: {lacking}"):
            await reconciled(log)


async def test_what_the_log_lacks_behind_its_last_segment_is_not_deleted(log: StoredLog) -> None:
    # Given a recovery that lacked an object of the writer, which was put back since
    log.ends[log.partition()] = (await log.rows())[-1].end_offset + 1
    paths = [await log.write(b"x") for _ in range(3)]
    await sweep(log)
    content = log.content(paths[1])
    log.spoil(paths[1], None)
    assert (await recover(log)).topics[0].lost
    log.spoil(paths[1], content)
    log.ahead_ms = 3 * HOUR_MS

    # When the store is looked through, then nothing may be deleted; recovered again, it is there
    with pytest.raises(OrphanNeeded, match=f"{paths[1]} has no row"):
        await reconciled(log)
    assert not (await recover(log)).topics[0].lost


async def test_what_stands_for_a_gap_and_has_no_row_is_deleted(log: StoredLog) -> None:
    # Given what a recovery had stored that failed at the very end
    await recover_with_gap(log)
    (gap,) = [row.path for row in await log.rows() if row.is_gap]
    rest = gap.replace(".gap.seg", "0.gap.seg")
    await log.objects.put(rest, [log.content(gap)])
    log.ahead_ms = 3 * HOUR_MS
    assert [one.path for one in (await reconciled(log)).found.orphans] == [rest]


async def test_a_segment_that_cannot_be_read_is_not_deleted(log: StoredLog) -> None:
    # Given a segment without a row, of which nobody can tell what it has
    row = (await log.rows())[0]
    orphan = row.path.replace(".seg", ".00000000.seg")
    await log.objects.put(orphan, [log.content(row.path)[:-1]])
    log.ahead_ms = 3 * HOUR_MS
    with pytest.raises(OrphanNeeded, match=f"{orphan} has no row, and cannot be read") as refused:
        await reconciled(log)
    assert "take it out of the store yourself" in refused.value.fix


async def test_an_upload_that_is_not_given_out_is_not_deleted(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an upload without a row that is archived: nobody can tell what it has
    late = await log.write(b"x", commit=False)
    log.ahead_ms = 3 * HOUR_MS
    get = log.objects.get

    async def archived(path: str, start: int, length: int) -> Owned:
        if path == late:
            raise ObjectUnreadable(f"{path}: archived")
        return await get(path, start, length)

    monkeypatch.setattr(log.objects, "get", archived)
    with pytest.raises(OrphanNeeded, match=f"{late} has no row, and cannot be read.*archived"):
        await reconciled(log)


async def test_a_segment_that_could_not_be_read_just_once_is_like_others(
    log: StoredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a rest of a segment, and a store whose first answer is wrong
    row = (await log.rows())[0]
    orphan = row.path.replace(".seg", ".00000000.seg")
    await log.objects.put(orphan, [log.content(row.path)])
    log.ahead_ms = 3 * HOUR_MS
    get, asked = log.objects.get, set[str]()

    async def damage_once(path: str, start: int, length: int) -> Owned:
        data = await get(path, start, length)
        if path != orphan or path in asked:
            return data
        asked.add(path)
        return bytearray(length)

    monkeypatch.setattr(log.objects, "get", damage_once)
    assert [one.path for one in (await reconciled(log)).found.orphans] == [orphan]


async def test_a_segment_of_a_topic_that_nobody_knows_is_not_deleted(log: StoredLog) -> None:
    row = (await log.rows())[0]
    content = log.content(row.path)
    await log.metadata.delete_topic(log.topic.topic_id)
    await log.sql("DELETE FROM streamhouse_internal.topic_folders")
    await log.objects.put("topics/other/partitions/0/segments/00000000-00000005.seg", [content])
    log.ahead_ms = 3 * HOUR_MS
    with pytest.raises(IndexTooOld, match="the database never had a segment of"):
        await reconciled(log)


async def test_known_objects_are_those_with_a_row_whatever_its_state(log: StoredLog) -> None:
    paths = [path for path in await stored(log) if path != "streamhouse.json"]
    await log.metadata.reserve_objects(["wal/00/pending"])
    known = await log.metadata.known_objects([*paths, "wal/00/pending", "wal/00/unknown"])
    assert known == {*paths, "wal/00/pending"}
    assert await log.metadata.known_objects([]) == set()


def test_a_running_brokers_store_is_reconciled_when_it_is_confirmed(tmp_path: Path) -> None:
    with building_broker(tmp_path) as broker:
        # Given a broker's store with a file that came hours ago, and that no row knows
        Confluent(bootstrap=broker.bootstrap).create_topic("t", partition_count=1)
        sent = send(broker, "t", [b"value"])
        late = tmp_path / "objects" / "wal" / "00" / "late"
        late.parent.mkdir(parents=True, exist_ok=True)
        late.write_bytes(b"bytes")
        os.utime(late, (time.time() - 3 * 3600,) * 2)

        # When it is reconciled, then it is listed, and goes only when somebody has confirmed it
        shown = streamctl("reconcile", "--data", str(tmp_path), "--dry-run")
        assert (shown.exit_code, shown.out.split()[4:5]) == (0, ["SIZE"]), shown
        assert "wal/00/late" in shown.out
        unconfirmed = streamctl("reconcile", "--data", str(tmp_path))
        assert unconfirmed.exit_code == 1
        assert "--yes deletes without asking" in unconfirmed.err
        assert late.exists()
        reconcile = (*COMMAND, "reconcile", "--data", str(tmp_path), "--yes")
        unread = f"{shlex.join(reconcile)} | head -c 0; exit ${{PIPESTATUS[0]}}"
        subprocess.run(["bash", "-c", unread], cwd=REPOSITORY, check=True)
        assert not late.exists()
        late.write_bytes(b"bytes")
        os.utime(late, (time.time() - 3 * 3600,) * 2)
        done = streamctl("reconcile", "--data", str(tmp_path), "--yes", "--json")
        assert done.json["deleted"] == 1
        assert not late.exists()
        clean = streamctl("reconcile", "--data", str(tmp_path), "--yes")
        assert (clean.exit_code, clean.err) == (0, "")
        assert "has a row, or is new" in clean.out
        assert read(broker, "t") == sent


def test_help_says_when_nothing_is_deleted() -> None:
    shown = streamctl("reconcile", "--help").out
    assert "--dry-run" in shown
    assert "streamctl reconcile --data" in shown
