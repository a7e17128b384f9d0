"""streamctl segment dump: what it shows of objects, and what it says of damaged ones."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.batch import TRANSACTIONAL_BIT
from protocol.control_batch import EndMarker, build_end_marker
from protocol.records import Record, build_batch
from storage.aborted_transaction import AbortedTransaction
from storage.config import S3Config
from storage.objects.objects_s3 import S3Store
from storage.wal_index import NOT_APPENDED, WalEnding, WalIndex, WalRun, encode_index
from streamctl.cluster import Cluster
from streamctl.connection import Connection
from streamctl.errors import Failure
from streamctl.offline_dump import dump_object
from tests.storage.segments_made import POLICY, TOPIC_ID, build_segment, whole
from tests.streamctl.conftest import Streamctl, create_topic
from tests.streamctl.forks import Ended
from tests.support.broker import running_broker
from tests.support.s3_server import S3Server

RunHere = Callable[..., Ended]
TIME_MS = 1_700_000_000_123
ZSTD = 4


def sample_segment() -> bytearray:
    """Return a segment with a gap, a transaction that was aborted, and odd bytes in records."""
    marker = EndMarker(producer_id=7, producer_epoch=2, committed=False, timestamp_ms=TIME_MS + 1)
    ending = bytearray(build_end_marker(marker, leader_epoch=3))
    ending[:8] = (17).to_bytes(8, "big")
    records = [
        Record(offset_delta=0, key=b"k\x1b[2J", value=b"\xff", headers=(("trace", b"1"),)),
        Record(offset_delta=4, value="käse".encode(), timestamp_delta_ms=5),
    ]
    batches = [
        build_batch(
            records,
            base_offset=12,
            base_timestamp_ms=TIME_MS,
            attributes=ZSTD | TRANSACTIONAL_BIT,
            producer_id=7,
            producer_epoch=1,
            base_sequence=40,
            leader_epoch=3,
        ),
        bytes(ending),
    ]
    return whole(
        build_segment(
            batches,
            before=2,
            aborted=(AbortedTransaction(producer_id=7, first_offset=12, last_offset=17),),
            horizons=((17, TIME_MS + 86_400_000),),
        )
    )


def sample_wal(record_count: int = 2) -> bytearray:
    """Return an object of a writer with two partitions, one of a topic that is gone."""
    batches = [
        build_batch([Record(offset_delta=0, value=value)], base_timestamp_ms=TIME_MS)
        for value in (b"one", b"two", b"three")
    ]
    size = len(batches[0])
    runs = (
        WalRun(0, 1, 0, 2 * size, record_count, 40, 9, TIME_MS),
        WalRun(1, 0, 2 * size, len(batches[2]), 1, -1, 9, TIME_MS),
    )
    index = WalIndex(
        writer_id=UUID(int=5),
        sequence=8,
        written_ms=TIME_MS,
        topics=((TOPIC_ID, "user-events"), (UUID(int=6), "")),
        runs=runs,
        places=((1, 3, 7, (20, NOT_APPENDED)),),
        endings=(WalEnding(0, 1, 39, 77, 4, True, TIME_MS),),
    )
    return bytearray(b"".join(batches) + encode_index(index))


def kept(tmp_path: Path, content: bytes | bytearray) -> str:
    path = tmp_path / "object"
    path.write_bytes(content)
    return str(path)


def json_lines(ended: Ended, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in ended.lines]
    return [line for line in found if line["type"] == kind]


def test_a_segment_is_shown_to_people(run_here: RunHere, tmp_path: Path) -> None:
    shown = run_here("segment", "dump", kept(tmp_path, sample_segment()), "--records")
    assert (shown.exit_code, shown.err) == (0, "")
    assert "segment of user-events, partition 3: offsets 10 to 17" in shown.text
    assert "retention.ms=2592000000" in shown.text
    assert "aborted: producer 7, offsets 12 to 17" in shown.text
    assert "block at byte 32" in shown.text
    assert "12 to 16, 2 records" in shown.text
    assert "zstd, 2023-11-14T22:13:20.128Z, leader epoch 3" in shown.text
    assert "producer 7 epoch 1, sequence 40, transactional" in shown.text
    assert "transactional, abort marker, delete horizon 2023-11-15T22:13:20.123Z" in shown.text
    assert r"12  2023-11-14T22:13:20.123Z  k\x1b[2J  \xff  trace=1" in shown.text
    assert "16  2023-11-14T22:13:20.128Z  <null>  käse" in shown.text


def test_a_segment_is_shown_to_programs(run_here: RunHere, tmp_path: Path) -> None:
    content = sample_segment()
    shown = run_here("segment", "dump", kept(tmp_path, content), "--records", "--json")
    (segment,) = json_lines(shown, "segment")
    assert segment["configs"] == POLICY.configs
    assert (segment["topic_id"], segment["partition"]) == (str(TOPIC_ID), 3)
    assert (segment["start_offset"], segment["end_offset"]) == (10, 17)
    assert segment["size"] == len(content)
    (block,) = json_lines(shown, "block")
    assert block["start"] + block["length"] + segment["index_length"] == len(content)
    first, marker = json_lines(shown, "batch")
    assert (first["base_offset"], first["last_offset"], first["record_count"]) == (12, 16, 2)
    assert (first["producer_id"], first["base_sequence"], first["codec"]) == (7, 40, "zstd")
    assert (first["transactional"], first["control"], first["marker"]) == (True, False, None)
    assert (marker["control"], marker["marker"]) == (True, "abort")
    assert marker["delete_horizon_ms"] == TIME_MS + 86_400_000
    records = json_lines(shown, "record")
    assert [record["offset"] for record in records] == [12, 16, 17]
    assert records[0]["value"] == {"base64": "/w=="}
    assert records[0]["headers"] == [{"name": "trace", "value": "1"}]
    assert (records[1]["key"], records[1]["value"]) == (None, "käse")
    assert [one["last_offset"] for one in json_lines(shown, "aborted")] == [17]


def test_an_object_of_the_writer_is_shown(run_here: RunHere, tmp_path: Path) -> None:
    place = "file://" + kept(tmp_path, sample_wal())
    shown = run_here("segment", "dump", place, "--records")
    assert (shown.exit_code, shown.err) == (0, "")
    assert f"object 8 of writer {UUID(int=5)}" in shown.text
    assert "user-events, partition 1" in shown.text
    assert f"(deleted, {UUID(int=6)}), partition 0" in shown.text
    places = [line.split(",")[0].strip() for line in shown.lines if line.startswith("  ")]
    assert [one for one in places if one.startswith(("expected", "offset"))] == [
        "expected at 40",
        "expected at 41",
        "offset unknown",
    ]
    assert "+0  2023-11-14T22:13:20.123Z  <null>  three" in shown.text
    told = f"object 7's batches of (deleted, {UUID(int=6)}), partition 3: at 20, not in the log"
    assert told in shown.text
    ended = "commit marker of producer 77 epoch 4 in user-events, partition 1: at 39"
    assert ended in shown.text

    programs = run_here("segment", "dump", place, "--json")
    (wal,) = json_lines(programs, "wal")
    assert (wal["sequence"], wal["topics"][0]["name"]) == (8, "user-events")
    assert [run["expected_offset"] for run in json_lines(programs, "run")] == [40, None]
    (earlier,) = json_lines(programs, "places")
    assert (earlier["sequence"], earlier["base_offsets"]) == (7, [20, None])
    (ending,) = json_lines(programs, "ending")
    assert (ending["producer_id"], ending["offset"], ending["marker"]) == (77, 39, "commit")
    batches = json_lines(programs, "batch")
    assert [(one["base_offset"], one["expected_offset"]) for one in batches] == [
        (None, 40),
        (None, 41),
        (None, None),
    ]
    assert json_lines(programs, "record") == []


def test_an_object_that_only_tells_is_shown(run_here: RunHere, tmp_path: Path) -> None:
    index = WalIndex(
        writer_id=UUID(int=5),
        sequence=8,
        written_ms=TIME_MS,
        topics=((TOPIC_ID, "user-events"),),
        runs=(),
        endings=(WalEnding(0, 1, 39, 77, 4, False, TIME_MS),),
    )
    shown = run_here("segment", "dump", kept(tmp_path, encode_index(index)), "--records")
    assert (shown.exit_code, shown.err) == (0, "")
    assert "0 runs of 1 topic" in shown.text
    assert "abort marker of producer 77 epoch 4 in user-events, partition 1: at 39" in shown.text


def test_what_is_no_such_object_is_named(run_here: RunHere, tmp_path: Path) -> None:
    for arguments, exit_code, said in (
        ((kept(tmp_path, b"hello world, " * 20),), 1, "neither a segment nor an object"),
        ((kept(tmp_path, b""),), 1, "neither a segment nor an object"),
        ((str(tmp_path / "absent"),), 1, "No such file"),
        ((str(tmp_path),), 1, "Is a directory"),
        (("s3://records",), 2, "is a bucket"),
        (("http://example.test/x",), 2, "unknown object store scheme"),
        (("s3://records/x?region=eu west",), 1, "name the bucket's region"),
    ):
        ended = run_here("segment", "dump", *arguments)
        assert ended.exit_code == exit_code
        assert ended.text == ""
        assert said in ended.err.replace("\n", " ")
    cut_off = run_here("segment", "dump", kept(tmp_path, sample_segment()[:-1]))
    assert (cut_off.exit_code, cut_off.text) == (1, "")
    assert "begins like a segment, but its end is missing" in cut_off.err


def test_a_damaged_block_is_named_and_the_others_are_shown(
    run_here: RunHere, tmp_path: Path
) -> None:
    # Given three blocks, of which the second has a changed byte
    big = [
        build_batch([Record(offset_delta=0, value=bytes(700_000))], base_offset=at)
        for at in range(3)
    ]
    content = whole(build_segment(big))
    content[32 + 700_100] ^= 1

    # When it is dumped
    shown = run_here("segment", "dump", kept(tmp_path, content), "--json")

    # Then the command fails, says where, and shows the rest
    assert shown.exit_code == 1
    start = 32 + len(big[0])
    assert f"checksum of the block at byte {start} does not match" in shown.err
    assert [one["base_offset"] for one in json_lines(shown, "batch")] == [0, 2]


def test_damage_of_the_header_is_named_and_the_batches_are_shown(
    run_here: RunHere, tmp_path: Path
) -> None:
    content = sample_segment()
    content[9] ^= 1
    shown = run_here("segment", "dump", kept(tmp_path, content), "--json")
    assert shown.exit_code == 1
    assert "checksum of the segment's header does not match" in shown.err
    assert len(json_lines(shown, "batch")) == 2


def test_a_run_of_another_number_of_records_is_named(run_here: RunHere, tmp_path: Path) -> None:
    shown = run_here("segment", "dump", kept(tmp_path, sample_wal(record_count=3)))
    assert shown.exit_code == 1
    assert "the run at byte 0: 2 records, its index says 3" in shown.err


@pytest.mark.parametrize("content", [sample_segment(), sample_wal()], ids=["segment", "wal"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_or_missing_bytes_end_in_an_error_that_names_the_object(
    tmp_path: Path, content: bytearray, data: st.DataObject
) -> None:
    damaged = bytearray(content)
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(content) - 1))
        damaged[at] ^= data.draw(st.integers(1, 255))
        # What a batch of the writer says in front of its checksum is not part of any.
        changed_unseen = content[:5] != b"SHSEG" and _before_checksum(content, at)
    else:
        del damaged[data.draw(st.integers(0, len(content) - 1)) :]
        changed_unseen = False
    place = kept(tmp_path, damaged)
    said = failure_of(place)
    assert said.startswith(f"{place}: ") if said else changed_unseen


def failure_of(place: str) -> str:
    """Return what dumping all of an object fails with; nothing if it does not."""
    try:
        dump_object(place, records=True, as_json=False)
    except Failure as failure:
        return failure.message
    return ""


def _before_checksum(wal: bytearray, at: int) -> bool:
    """Return whether a byte is the base offset or the leader epoch of a batch."""
    size = len(build_batch([Record(offset_delta=0, value=b"one")]))
    return at < 3 * size + 2 and (at % size < 8 or 12 <= at % size < 16)


def test_objects_of_a_running_broker_are_shown(tmp_path: Path) -> None:
    # Given a broker that has taken records
    with running_broker(tmp_path / "data") as broker:
        create_topic(Cluster(Connection(bootstrap=broker.bootstrap)), "events", partitions=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
        for number in range(20):
            producer.produce("events", f"value-{number}", partition=number % 2)
        assert producer.flush(30) == 0

        # When its objects are dumped
        streamctl = Streamctl(bootstrap="127.0.0.1:1")
        paths = [path for path in (tmp_path / "data/objects/wal").rglob("*") if path.is_file()]
        dumps = [
            streamctl.well("segment", "dump", str(path), "--records", "--json") for path in paths
        ]

    # Then every record is there, in objects that name their topic
    values = {record["value"] for one in dumps for record in json_lines(one, "record")}
    assert values == {f"value-{number}" for number in range(20)}
    wals = [wal for one in dumps for wal in json_lines(one, "wal")]
    assert {topic["name"] for wal in wals for topic in wal["topics"]} == {"events"}
    assert len({wal["writer_id"] for wal in wals}) == 1
    assert {wal["sequence"] for wal in wals} == set(range(len(wals)))


def test_an_object_in_s3_is_shown(
    run_here: RunHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def put(config: S3Config, key: str, content: bytes) -> None:
        store = await S3Store.open(config)
        try:
            await store.put(key, [content])
        finally:
            await store.close()

    with S3Server.start(tmp_path) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        server.create_bucket("records")
        config = S3Config(bucket="records", endpoint=server.endpoint)
        content = bytes(sample_segment())
        asyncio.run(put(config, "topics/t/a.seg", content))
        asyncio.run(put(config, "topics/t/a.segment", b"other"))
        shown = run_here("segment", "dump", server.store_url("records", "topics/t/a.seg"))
        assert (shown.exit_code, shown.err) == (0, "")
        local = run_here("segment", "dump", kept(tmp_path, content))
        assert shown.text == local.text
        absent = run_here("segment", "dump", server.store_url("records", "topics/t/a"))
        assert absent.exit_code == 1
        assert "bucket records has no object topics/t/a" in absent.err
        other = run_here("segment", "dump", server.store_url("records", "topics/t/a.segment"))
        assert "s3://records/topics/t/a.segment: neither a segment" in other.err


def test_a_pipe_that_was_closed_is_no_error(tmp_path: Path) -> None:
    batches = [
        build_batch([Record(offset_delta=0, value=os.urandom(100))], base_offset=at)
        for at in range(5_000)
    ]
    place = kept(tmp_path, whole(build_segment(batches)))
    running = Streamctl(bootstrap="127.0.0.1:1").start("segment", "dump", place, "--json")
    assert json.loads(running.read_line())["type"] == "segment"
    ended = running.stop_reading()
    assert (ended.exit_code, ended.err) == (0, "")


def test_damage_is_told_also_if_nobody_reads_the_rest(tmp_path: Path) -> None:
    content = sample_segment()
    content[9] ^= 1
    place = kept(tmp_path, content)
    ended = Streamctl(bootstrap="127.0.0.1:1").start("segment", "dump", place).stop_reading()
    assert ended.exit_code == 1
    assert "checksum of the segment's header does not match" in ended.err


def test_help_teaches_with_examples(run_here: RunHere) -> None:
    shown = run_here("segment", "dump", "--help")
    assert shown.exit_code == 0
    assert "streamctl segment dump " in shown.text.partition("Examples")[2]
