"""kafka-transactions, the stock tool, beside transactions of a stock producer (KIP-664)."""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.clients.confluent import Confluent
from tests.clients.java_tools import JavaTools
from tests.clients.processes import ProgramFailed
from tests.clients.topics import new_topic

CALL_S: Final = 90.0
TIMEOUT_MS: Final = 600_000
TABLE_CELL: Final = "\t"

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Transactions:
    """Attributes:
    prefix: of the transactional ids; so no other test's are like them.
    open: of a transaction with two records of partition 0.
    done: of one that was committed after one record of partition 1.
    """

    topic: str
    prefix: str
    open: str
    done: str


@pytest.fixture(scope="module")
def transactions(confluent: Confluent) -> Iterator[Transactions]:
    topic = new_topic(confluent, "transactions", partition_count=2)
    prefix = f"tool-{uuid.uuid4().hex[:8]}"
    made = Transactions(topic, prefix, f"{prefix}-open", f"{prefix}-done")

    def begun(transactional_id: str, partition: int, records: int) -> Producer:
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": TIMEOUT_MS}
        producer = Producer({"bootstrap.servers": confluent.bootstrap} | settings)
        producer.init_transactions(CALL_S)
        producer.begin_transaction()
        for number in range(records):
            producer.produce(topic, b"%d" % number, partition=partition)
        assert producer.flush(CALL_S) == 0
        return producer

    begun(made.done, 1, 1).commit_transaction(CALL_S)
    left_open = begun(made.open, 0, 2)
    yield made
    left_open.abort_transaction(CALL_S)


def rows(tools: JavaTools, *arguments: str) -> list[Row]:
    """Return the rows of the table that the tool prints, by the names of its columns."""
    header, *lines = tools.run("kafka-transactions", *arguments).stdout.splitlines()
    names = _cells(header)
    return [dict(zip(names, _cells(line), strict=True)) for line in lines]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.rstrip("\n").split(TABLE_CELL)[:-1]]


def test_transactions_are_listed(java_tools: JavaTools, transactions: Transactions) -> None:
    ours = ("--transactional-id-pattern", f"{transactions.prefix}-.*")
    with ThreadPoolExecutor(2) as threads:
        listed, running, everything = threads.map(
            lambda arguments: rows(java_tools, "list", *arguments),
            (ours, (*ours, "--duration-filter", "1"), ()),
        )

    states = {row["TransactionalId"]: row["TransactionState"] for row in listed}
    assert states == {transactions.open: "Ongoing", transactions.done: "CompleteCommit"}
    assert transactions.open in {row["TransactionalId"] for row in running}
    named = [row["TransactionalId"] for row in everything]
    assert [named.count(one) for one in states] == [1, 1]


def test_transactions_are_described(java_tools: JavaTools, transactions: Transactions) -> None:
    with ThreadPoolExecutor(2) as threads:
        (ongoing,), (done,) = threads.map(
            lambda one: rows(java_tools, "describe", "--transactional-id", one),
            (transactions.open, transactions.done),
        )
    assert ongoing["TransactionalId"] == transactions.open
    assert ongoing["TransactionState"] == "Ongoing"
    assert ongoing["TransactionTimeoutMs"] == f"{TIMEOUT_MS}"
    assert ongoing["TopicPartitions"] == f"{transactions.topic}-0"
    assert 0 <= int(ongoing["TransactionDurationMs"]) < TIMEOUT_MS
    assert done["TransactionState"] == "CompleteCommit"
    assert done["TopicPartitions"] == ""

    with pytest.raises(ProgramFailed, match="the ID could not be found"):
        rows(java_tools, "describe", "--transactional-id", f"{transactions.prefix}-no")


def test_producers_are_described(java_tools: JavaTools, transactions: Transactions) -> None:
    with ThreadPoolExecutor(2) as threads:
        (ongoing,), (done,) = threads.map(
            lambda partition: rows(
                java_tools,
                *("describe-producers", "--topic", transactions.topic, "--partition", partition),
            ),
            ("0", "1"),
        )
    assert (ongoing["CurrentTransactionStartOffset"], ongoing["LastSequence"]) == ("0", "1")
    assert done["CurrentTransactionStartOffset"] == "None"


def test_no_transaction_hangs(java_tools: JavaTools, transactions: Transactions) -> None:
    """What a partition knows to be open, its transactional id knows, too."""
    limit = ("--max-transaction-timeout", "0", "--topic", transactions.topic)
    assert rows(java_tools, "find-hanging", *limit) == []
