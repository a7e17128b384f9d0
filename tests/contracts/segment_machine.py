"""Whatever writes, builds, retains, deletes and sweeps, in any order."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from protocol.ids import Partition
from storage.metadata.segments import SegmentSwap
from tests.contracts.metadata_stores import a_batch, reserved
from tests.contracts.segment_side import ALL, HOUR_MS, keeps, row_of
from tests.contracts.segment_world import SegmentWorld

TIMES = st.integers(0, 9)
SWAPS_OF_A_TOPIC = 4


class SegmentMachine(SegmentWorld):
    """What is done; see SegmentWorld for what is true then. A subclass says where."""

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        """Commit an object; batches of deleted topics are refused."""
        known = [*self.rows, *self.gone]
        gaps = st.lists(st.sampled_from([50, 0]), min_size=1, max_size=5)
        drawn: dict[Partition, list[int]] = {}
        for at in data.draw(st.sets(st.integers(0, len(known) - 1), min_size=1), label="where"):
            drawn[known[at]] = data.draw(gaps, label="gaps")
        timestamp_ms = data.draw(TIMES, label="timestamp")
        batches = []
        position = 0
        for partition in sorted(drawn):
            for gap in drawn[partition]:
                batches.append(
                    a_batch(
                        partition, position + gap, records=3, length=10, timestamp_ms=timestamp_ms
                    )
                )
                position += gap + 10
        path = self.runner.run(reserved(self.segments.store))
        self.runner.run(self.segments.store.commit_object(path, position, batches))
        if drawn.keys() <= set(self.gone):
            self.unneeded.add(path)
        self.learn_new_rows()

    @rule(data=st.data())
    def write_in_a_transaction(self, data: st.DataObject) -> None:
        partition = self.draw_partition(data)
        sequence = self.sequences.get(partition, 0)
        sent = self.segments.transactions.send(self.producer, partition, sequence)
        assert isinstance(self.runner.run(sent), int)
        self.sequences[partition] = sequence + 10
        self.learn_new_rows()

    @precondition(lambda self: self.sequences)
    @rule(committed=st.booleans())
    def end_the_transaction(self, committed: bool) -> None:
        ending = self.segments.transactions.goes_on(self.producer, committed=committed)
        self.producer = self.runner.run(ending)
        self.sequences.clear()
        self.learn_new_rows()

    @rule(data=st.data(), count=st.integers(1, 3))
    def build(self, data: st.DataObject, count: int) -> None:
        """Some read, and replace then, if another has not; or later, or never."""
        for swap in [self.draw_swap(data) for _ in range(count)]:
            if swap is not None and data.draw(st.sampled_from([True, True, False]), label="now"):
                self.make(swap)

    @precondition(lambda self: self.swaps)
    @rule(data=st.data())
    def build_late(self, data: st.DataObject) -> None:
        """Replace what was read at any time, or what was replaced already."""
        self.make(data.draw(st.sampled_from(self.swaps), label="swap"))

    def draw_swap(self, data: st.DataObject) -> SegmentSwap | None:
        """Reserve a segment for rows as a builder takes them, or log compaction.

        What is built is a prefix of the log: they begin where it ends, or before.
        """
        partition = self.draw_partition(data)
        rows = self.rows[partition]
        if not rows:
            return None
        log_start = self.offsets[partition].log_start_offset
        unbuilt = (
            at
            for at, row in enumerate(rows)
            if row.end_offset >= log_start and not row.index_length
        )
        start = data.draw(st.integers(0, next(unbuilt, len(rows) - 1)), label="start")
        replaced = rows[start : start + data.draw(st.sampled_from([1, 2, 6]), label="count")]
        length = data.draw(st.integers(1, 90), label="length")
        swap = self.runner.run(self.segments.swap(partition, replaced, length=length))
        self.swaps.append(swap)
        self.pending[swap.path] = self.hour
        return swap

    def make(self, swap: SegmentSwap) -> None:
        """Swap; it is done if nothing has happened to its rows, nor to its upload."""
        rows = self.rows.get(swap.partition, [])
        at = rows.index(swap.replaced[0]) if swap.replaced[0] in rows else len(rows)
        end = at + len(swap.replaced)
        possible = (
            swap.path in self.pending
            and rows[at:end] == swap.replaced
            and rows[end - 1].end_offset >= self.offsets[swap.partition].log_start_offset
        )
        answer = self.runner.run(self.segments.store.replace_segments(swap))
        if swap.path in self.pending:
            assert answer == possible
            del self.pending[swap.path]
        if possible:
            rows[at:end] = [row_of(swap)]
        states = self.runner.run(self.segments.states())
        assert answer == (states.get(swap.path) == "live")
        assert states.get(swap.path) != "pending"

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        partition = self.draw_partition(data)
        ends = [row.end_offset for row in self.rows[partition][:3]] or [0]
        offset = data.draw(st.sampled_from(ends)) + data.draw(st.integers(-1, 1), label="offset")
        self.runner.run(self.segments.store.delete_records({partition: offset}))

    @rule(data=st.data(), before_ms=st.none() | TIMES, keep_bytes=st.none() | st.integers(0, 300))
    def expire_records(
        self, data: st.DataObject, before_ms: int | None, keep_bytes: int | None
    ) -> None:
        partition = self.draw_partition(data)
        request = keeps(partition, before_ms=before_ms, keep_bytes=keep_bytes)
        old = self.offsets[partition].log_start_offset
        moved = self.runner.run(self.segments.store.expire_records([request]))
        new = self.runner.run(self.segments.log_start(partition))
        assert moved == ({partition: new} if new > old else {})

    @rule(limit=st.sampled_from([1, 3, ALL]))
    def purge(self, limit: int) -> None:
        gone = self.runner.run(self.segments.store.purge(limit))
        for partition, rows in self.rows.items():
            left = self.runner.run(self.segments.rows(partition))
            log_start = self.offsets[partition].log_start_offset
            purged = rows[: len(rows) - len(left)]
            assert rows[len(purged) :] == left
            assert all(row.end_offset < log_start for row in purged)
            assert gone or not left or left[0].end_offset >= log_start
            self.rows[partition] = left

    @rule(hours=st.sampled_from([1, 2, 0]))
    def sweep(self, hours: int) -> None:
        """Give up what is that old, and forget what was doomed that long ago."""
        store = self.segments.store
        old = [path for path, hour in self.pending.items() if self.hour - hour >= hours]
        assert self.runner.run(store.doom_abandoned(hours * HOUR_MS, ALL)) == len(old)
        for path in old:
            del self.pending[path]
        doomed, following = self.runner.run(store.doom_unneeded(0, hours * HOUR_MS, ALL))
        assert doomed <= len(self.unneeded)
        assert following is None
        paths = self.runner.run(store.doomed_objects(hours * HOUR_MS, ALL))
        states = self.runner.run(self.segments.states())
        assert {states[path] for path in paths} <= {"doomed"}
        assert hours or len(paths) == list(states.values()).count("doomed")
        self.runner.run(store.forget_objects(paths))

    @rule()
    def an_hour_passes(self) -> None:
        """An upload is under way, and all that nobody uses is an hour older."""
        self.pending[self.runner.run(reserved(self.segments.store))] = self.hour
        self.runner.run(self.segments.forget_producers(0))
        self.runner.run(self.segments.passes(HOUR_MS))
        self.hour += 1

    @precondition(lambda self: len(self.swaps) > SWAPS_OF_A_TOPIC * (1 + len(self.gone)))
    @rule(data=st.data())
    def delete_and_create(self, data: st.DataObject) -> None:
        partition = self.draw_partition(data)
        self.runner.run(self.segments.store.delete_topic(partition.topic_id))
        self.unneeded |= {row.path for row in self.rows.pop(partition)}
        self.gone.append(partition)
        self.sequences.pop(partition, None)
        self.create()
