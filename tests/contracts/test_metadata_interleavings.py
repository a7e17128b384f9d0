"""Whatever is committed, repeated or lost, in any order: the log has no gap, and answers hold."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from protocol.batch import NO_PRODUCER_ID
from protocol.ids import Partition
from storage.errors import CommitOutcomeUnknown
from storage.metadata.port import BatchCommit, MetadataStore
from tests.contracts.metadata_model import SEQUENCES, PartitionModel
from tests.contracts.metadata_stores import (
    KINDS,
    StoreUnderTest,
    a_batch,
    create_partitions,
    open_store,
    reserved,
    short,
    whole_log,
)

PARTITIONS = 3
MANY = 10_000
FOREIGN = 10**12  # a producer id that another cluster has given
EXAMPLES = {"memory": 60, "postgres": 20}


@dataclass(frozen=True, slots=True)
class Committed:
    path: str
    batches: list[BatchCommit]
    answer: list[str | int]


@pytest.fixture(params=KINDS)
def kind_runner_store(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[str, asyncio.Runner, StoreUnderTest]]:
    """A store on a loop that a machine, which knows no await, can run by hand."""
    with asyncio.Runner() as runner:
        opening = open_store(request.param)
        store = runner.run(opening.__aenter__())
        yield request.param, runner, store
        runner.run(opening.__aexit__(None, None, None))


class LogMachine(RuleBasedStateMachine):
    """Commits of a few partitions, next to the model of them. A subclass says where."""

    runner: ClassVar[asyncio.Runner]
    opened: ClassVar[StoreUnderTest]

    @property
    def store(self) -> MetadataStore:
        return self.opened.store

    @initialize()
    def create(self) -> None:
        self.partitions = self.runner.run(create_partitions(self.store, PARTITIONS))
        first = self.runner.run(self.store.allocate_producer_ids(2))
        self.producers = [NO_PRODUCER_ID, first, first + 1, FOREIGN]
        self.model = {
            partition: PartitionModel(forgotten=first - 1, next_producer_id=first + 2)
            for partition in self.partitions
        }
        self.unsent: list[str] = []
        self.committed: list[Committed] = []

    @rule()
    def reserve(self) -> None:
        self.unsent.append(self.runner.run(reserved(self.store)))

    @precondition(lambda self: self.unsent)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        path = self.unsent.pop(data.draw(st.integers(0, len(self.unsent) - 1)))
        batches: list[BatchCommit] = []
        expected: list[str | int] = []
        position = 0
        for partition in self.partitions:
            for _ in range(data.draw(st.integers(0, 4), label="batches")):
                position += data.draw(st.sampled_from([0, 0, 0, 50]), label="gap")
                batch = self.draw_batch(data, partition, position)
                position += batch.length
                batches.append(batch)
                expected.append(self.model[partition].append(batch))
        answer = self.runner.run(self.store.commit_object(path, position, batches))
        assert [short(outcome) for outcome in answer] == expected
        self.committed.append(Committed(path, batches, expected))

    def draw_batch(self, data: st.DataObject, partition: Partition, position: int) -> BatchCommit:
        records = data.draw(st.integers(1, 3), label="records")
        producer = data.draw(st.sampled_from(self.producers), label="producer")
        if producer == NO_PRODUCER_ID:
            return a_batch(partition, position, records=records)
        known = self.model[partition].producers.get(producer)
        if known is None:
            epoch = data.draw(st.integers(0, 1), label="epoch")
            sequence = data.draw(st.sampled_from([0, 7, SEQUENCES - 2]), label="sequence")
        elif data.draw(st.booleans(), label="in order"):
            epoch, sequence = known.epoch, known.next_sequence
        elif data.draw(st.booleans(), label="again"):
            epoch = known.epoch
            sequence, last, _ = data.draw(st.sampled_from(known.batches), label="which")
            records = (last - sequence) % SEQUENCES + 1
        else:
            epoch = max(0, known.epoch + data.draw(st.integers(-1, 1), label="epoch step"))
            sequence = data.draw(st.integers(0, 9), label="sequence")
        return a_batch(
            partition,
            position,
            records=records,
            producer=producer,
            epoch=epoch,
            sequence=sequence,
        )

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def repeat_after_a_lost_answer(self, data: st.DataObject) -> None:
        earlier = data.draw(st.sampled_from(self.committed), label="earlier")
        again = self.runner.run(self.store.commit_object(earlier.path, 0, earlier.batches))
        assert [short(outcome) for outcome in again] == earlier.answer

    @rule()
    def forget_producers(self) -> None:
        _, following = self.runner.run(self.store.expire_producers(None, 0, MANY))
        assert following is None
        for model in self.model.values():
            model.forget()

    @precondition(lambda self: self.unsent)
    @rule()
    def give_up(self) -> None:
        path = self.unsent.pop()
        self.runner.run(self.opened.doom(path))
        with pytest.raises(CommitOutcomeUnknown):
            self.runner.run(self.store.commit_object(path, 9, [a_batch(self.partitions[0], 0)]))

    @invariant()
    def logs_have_no_gap(self) -> None:
        for partition in self.partitions:
            entries = self.runner.run(whole_log(self.store, partition))
            end = entries[-1].end_offset + 1 if entries else 0
            assert end == self.model[partition].high_watermark


def test_answers_equal_the_model_whatever_happens(
    kind_runner_store: tuple[str, asyncio.Runner, StoreUnderTest],
) -> None:
    kind, its_runner, its_store = kind_runner_store

    class Machine(LogMachine):
        runner = its_runner
        opened = its_store

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES[kind],
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
