"""The option `asOf`: a bounded read of the log as it was, over all partitions of several topics.

asOf = ID of a snapshot (streamctl snapshot create)
    One moment of the database (storage/snapshots.py): every record that was acknowledged
    before it, of each transaction everything or nothing, the same each time. read_committed
    leaves out what was not committed at that moment, whatever became of it later; it does not
    end at the last stable offset, which would cut transactions of others in two.
    read_uncommitted reads all offsets before the high watermarks of that moment.
    Topics are those of the snapshot unless others of the options choose among them.
    A snapshot holds nothing back: where retention, DeleteRecords or the deletion of a topic
    took records of it, or compaction may have, the read fails with DataLoss; with
    failOnDataLoss=false it has what is left.

asOf = time: ISO 8601 (UTC if it names no zone), or milliseconds since 1970
    Each partition ends before its first record with a later timestamp, or where it ends now;
    all partitions are looked at in one snapshot of the database. It goes by what producers
    (or brokers, with LogAppendTime) wrote into records: one that is late, or comes later with
    an earlier timestamp, is in it as long as no record before it is later than the time. So
    it is the same each time only when all records of that time have come; and a transaction
    may be cut in two. Retention and compaction change it without a word.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Final

from spark.log_location import LogLocation
from spark.sources.choosing import SEVERAL, Chooser, UnknownTopic
from spark.sources.cut import Cut, Range, TopicPartition
from spark.sources.log_index import LogIndex
from spark.sources.planning import DataLoss, PlanOptions, plan, shared_out
from spark.sources.read_options import Bound, ReadOptions, Topics
from spark.sources.split import Aborted, Split
from storage.partition_offsets import PartitionOffsets
from storage.snapshots import SnapshotPartition, Snapshots, UnknownSnapshot

AS_OF: Final = "asOf"
_ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_CHOICES: Final = ("subscribe", "subscribePattern", "assign")
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCut:
    """A snapshot as it was written down.

    Attributes:
        partitions: with what has become of each.
        unfinished: by partition, records of transactions that had not ended.
    """

    snapshot_id: str
    partitions: Mapping[TopicPartition, SnapshotPartition]
    unfinished: Mapping[TopicPartition, tuple[Aborted, ...]]


def find_as_of(options: Mapping[str, str]) -> str | None:
    """Return what the option says; its name is told apart without regard to case."""
    return {name.lower(): value for name, value in options.items()}.get(AS_OF.lower())


def parse_time(text: str) -> int | None:
    """Return milliseconds since 1970, or None for the id of a snapshot, which begins with a letter.

    Raises:
        ValueError: it is neither.
    """
    text = text.strip()
    if text[:1].isalpha():
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(
            f"option {AS_OF}: {text!r} is neither the id of a snapshot nor a time like"
            " 2025-01-31T12:00:00Z or 1738324800000"
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round((moment - _EPOCH).total_seconds() * 1000)


async def plan_as_of(
    index: LogIndex, location: LogLocation, given: Mapping[str, str]
) -> list[Split]:
    """Return the splits of a read with the option `asOf`.

    Raises:
        ValueError: an option cannot be, or does not go with asOf; the snapshot is not there.
        DataLoss: what is wanted is not there (any more).
        StorageError: Postgres or the store gave no answer.
    """
    as_of = find_as_of(given)
    assert as_of is not None, "else there is nothing to do here"
    lowered = {name.lower() for name in given}
    for option in _ENDS:
        if option.lower() in lowered:
            raise ValueError(f"option {option}: leave it out, {AS_OF} says where to end")
    others = {name: value for name, value in given.items() if name.lower() != AS_OF.lower()}
    timestamp_ms = parse_time(as_of)
    if timestamp_ms is None:
        recorded = await read_snapshot(location, as_of.strip())
        return await _plan_recorded(index, location, recorded, others)
    ending = Bound(option=AS_OF, timestamp_ms=timestamp_ms + 1)
    options = replace(ReadOptions.of(others), ending=ending)
    cut = await Chooser(index=index, location=location, options=options).cut()
    return await plan(index, location, cut, PlanOptions.of(options))


async def read_snapshot(location: LogLocation, snapshot_id: str) -> RecordedCut:
    """Return a snapshot.

    Raises:
        ValueError: there is none of that id (any more).
        MetadataUnavailable: Postgres gave no answer; retrying is safe.
    """
    async with Snapshots.open(location.postgres) as snapshots:
        try:
            before = await snapshots.describe(snapshot_id)
            listed = await snapshots.partitions(snapshot_id)
            transactions = await snapshots.open_transactions(snapshot_id)
            # Each was a question of its own: of one snapshot, unless that went meanwhile.
            after = await snapshots.describe(snapshot_id)
        except UnknownSnapshot as error:
            raise ValueError(
                f"option {AS_OF}: there is no snapshot {snapshot_id!r}, or it has expired"
                " (streamctl snapshot list shows those that can be read)"
            ) from error
    if before != after:
        raise ValueError(f"option {AS_OF}: snapshot {snapshot_id!r} was made again; read it again")
    partitions = {
        TopicPartition(topic=one.topic, partition=one.partition, topic_id=one.topic_id): one
        for one in listed
    }
    by_place = {(each.topic_id, each.partition): each for each in partitions}
    unfinished: dict[TopicPartition, tuple[Aborted, ...]] = {}
    for one in transactions:
        partition = by_place[one.topic_id, one.partition]
        record = Aborted(
            producer_id=one.producer_id,
            first_offset=one.first_offset,
            last_offset=partitions[partition].high_watermark - 1,
        )
        unfinished[partition] = (*unfinished.get(partition, ()), record)
    return RecordedCut(snapshot_id=snapshot_id, partitions=partitions, unfinished=unfinished)


async def _plan_recorded(
    index: LogIndex, location: LogLocation, recorded: RecordedCut, given: Mapping[str, str]
) -> list[Split]:
    chosen = {name.lower() for name in given}
    if not any(option.lower() in chosen for option in _CHOICES):
        topics = sorted({each.topic for each in recorded.partitions})
        if not topics:
            return []
        given = {**given, "subscribe": ",".join(topics)}
    options = ReadOptions.of(given)
    wanted = _choose(recorded, options.topics)
    if options.fail_on_data_loss:
        _refuse_compacted(recorded, wanted)
    found = {each: _offsets(recorded.partitions[each]) for each in wanted}
    starts = await Chooser(index=index, location=location, options=options).starts(found)
    cut: Cut = {
        each: Range(start=starts[each], end=has.high_watermark)
        for each, has in found.items()
        if starts[each] < has.high_watermark
    }
    # What had not ended is told by the snapshot, not by the last stable offset of today.
    planned = replace(PlanOptions.of(options), read_committed=False)
    splits = await plan(index, location, cut, planned)
    splits = [replace(split, snapshot_id=recorded.snapshot_id) for split in splits]
    if not options.read_committed:
        return splits
    aborted = {each: await _left_out(index, recorded, each, cut[each]) for each in cut}
    without: list[Split] = []
    for partition, of_partition in groupby(splits, attrgetter("partition")):
        ordered = list(of_partition)
        shares = shared_out(aborted[partition], [split.offsets for split in ordered])
        without += (
            replace(split, aborted=share) for split, share in zip(ordered, shares, strict=True)
        )
    return without


def _choose(recorded: RecordedCut, topics: Topics) -> list[TopicPartition]:
    """Return the partitions of a snapshot that are wanted.

    Raises:
        UnknownTopic: one that is named is not in it.
    """
    there = sorted(recorded.partitions)
    if topics.pattern is not None:
        return [each for each in there if topics.pattern.search(each.topic)]
    if topics.names is not None:
        _refuse_absent(recorded, sorted(topics.names - {each.topic for each in there}))
        return [each for each in there if each.topic in topics.names]
    assert topics.partitions is not None
    pairs = {(each.topic, each.partition) for each in there}
    absent = sorted(topics.partitions - pairs)
    _refuse_absent(recorded, [f"{topic}-{partition}" for topic, partition in absent])
    return [each for each in there if (each.topic, each.partition) in topics.partitions]


def _refuse_absent(recorded: RecordedCut, names: list[str]) -> None:
    if names:
        raise UnknownTopic(
            f"snapshot {recorded.snapshot_id} is not of {', '.join(names[:SEVERAL])}"
        )


def _refuse_compacted(recorded: RecordedCut, wanted: Iterable[TopicPartition]) -> None:
    compacted = [
        f"{each.topic}-{each.partition}"
        for each in wanted
        if recorded.partitions[each].compacted
        and recorded.partitions[each].log_start_offset < recorded.partitions[each].high_watermark
    ]
    if compacted:
        raise DataLoss(
            f"{', '.join(compacted[:SEVERAL])}: compacted since snapshot {recorded.snapshot_id}, so"
            " records may be gone whose keys were written again; failOnDataLoss=false reads what"
            " is left"
        )


def _offsets(one: SnapshotPartition) -> PartitionOffsets:
    return PartitionOffsets(
        log_start_offset=one.log_start_offset,
        high_watermark=one.high_watermark,
        last_stable_offset=one.high_watermark,
        aborted_count=0,
    )


async def _left_out(
    index: LogIndex, recorded: RecordedCut, partition: TopicPartition, offsets: Range
) -> tuple[Aborted, ...]:
    """Return what was aborted before the snapshot or after it, or is still open."""
    aborted = await index.aborted(partition, offsets)
    known = {(each.producer_id, each.first_offset) for each in aborted}
    unfinished = recorded.unfinished.get(partition, ())
    return (
        *aborted,
        *(each for each in unfinished if (each.producer_id, each.first_offset) not in known),
    )
