"""Who asks the requests of the table of access, and what the manager prepares and sees."""

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from protocol.acl import Operation, Permission, ResourceType
from tests.broker.security.access_rows import ELSEWHERE, NEW, WHO_BEFORE, G, Row, T, X
from tests.oracle.wire_frames import frame_of
from tests.oracle.wire_values import Batch, Memory
from tests.support.access import Rule, create_acls, management
from tests.support.wire import API_VERSIONS, WireClient

NO_ACL, ALLOWED, FIRST_DENIED = 1, 2, 3
"""The last numbers of the addresses that a row's clients come from."""

AT_ONCE: Final = 8

OPEN_FOR_MS: Final = 900_000
"""The most that is allowed: transactions stay open until their row's turn comes."""

Asked = tuple[int, int, Mapping[str, Any]]
"""API, version, values."""

PREPARED: Final[Sequence[Asked]] = (
    (
        19,
        7,
        {
            "topics": [{"name": T, "num_partitions": 1, "replication_factor": 1}],
            "timeout": 10_000,
        },
    ),
    (
        0,
        12,
        {
            "acks": -1,
            "timeout": 10_000,
            "topic_data": [{"name": T, "partition_data": [{"records": Batch()}]}],
        },
    ),
    (
        8,
        9,
        {
            "group_id": G,
            "generation_id_or_member_epoch": -1,
            "topics": [{"name": T, "partitions": [{"committed_offset": 7}]}],
        },
    ),
)
"""What is done for each row."""

ANY_ACL: Final = {"pattern_type_filter": 1, "operation": 1, "permission_type": 1}
VIEWS: Final[Sequence[Asked]] = (
    (3, 12, {"topics": [{"name": T}, {"name": NEW}], "allow_auto_topic_creation": False}),
    (2, 7, {"topics": [{"name": T, "partitions": [{"timestamp": -1}]}]}),
    (2, 7, {"topics": [{"name": T, "partitions": [{"timestamp": -2}]}]}),
    (9, 8, {"groups": [{"group_id": G, "topics": None}]}),
    (15, 5, {"groups": [G, NEW]}),
    (69, 1, {"group_ids": [G, NEW]}),
    (29, 3, ANY_ACL | {"resource_type_filter": 1, "principal_filter": "User:~"}),
    (29, 3, ANY_ACL | {"resource_type_filter": 3, "resource_name_filter": G}),
    (32, 4, {"resources": [{"resource_type": 2, "resource_name": T}]}),
    (48, 1, {"components": [{"entity_type": "user", "match": "u-~"}]}),
    (50, 0, {"users": [{"name": "u-~"}]}),
    (61, 0, {"topics": [{"name": T, "partition_indexes": [0]}]}),
    (65, 0, {"transactional_ids": [X]}),
)
"""What the manager looks at: whatever a request of a row changes is among it."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer: the frame, and the response that the codec reads from it."""

    frame: bytes
    response: Any


class RowClient:
    """The clients of one row, and the manager on behalf of it."""

    def __init__(self, bootstrap: str, row: Row, number: int) -> None:
        self._bootstrap = bootstrap
        self._row = row
        self._number = number
        self.memory = Memory(here=f"row-{number}-of-k{row.api_key}")

    def rules(self) -> Iterator[Rule]:
        """Return the ACLs of the row's clients: its needs; and these with one of them denied."""
        for need in self._row.needs:
            for last in range(ALLOWED, FIRST_DENIED + len(self._row.needs)):
                yield self._rule(last, need.operation, need.resource_type, need.name)
        for at, need in enumerate(self._row.needs):
            yield dataclasses.replace(
                self._rule(FIRST_DENIED + at, need.operation, need.resource_type, need.name),
                permission=Permission.DENY,
            )
        group = self.memory.resolve(G)
        yield Rule(
            host=ELSEWHERE,
            operation=Operation.READ,
            resource_type=ResourceType.GROUP,
            name=group,
        )

    def _rule(self, last: int, operation: Operation, kind: ResourceType, name: str) -> Rule:
        return Rule(
            host=self._host(last),
            operation=operation,
            resource_type=kind,
            name=self.memory.resolve(name),
        )

    def _host(self, last: int) -> str:
        return f"127.1.{self._number}.{last}"

    async def prepare(self) -> None:
        """Make what the row's requests are about."""
        async with await WireClient.connect(self._bootstrap) as manager:
            for asked in PREPARED:
                answer = await self._ask(manager, asked)
                assert not codes_of(answer.response), answer
            await self.identify(manager)

    async def identify(self, manager: WireClient) -> None:
        """Give x-~ its producer id and epoch, and have a transaction open if the row needs one."""
        values = {"transactional_id": X, "transaction_timeout": OPEN_FOR_MS}
        response = (await self._ask(manager, (22, 4, values))).response
        assert response.error_code == ErrorCode.none, response
        self.memory.saved["producer_id"] = response.producer_id
        self.memory.saved["producer_epoch"] = response.producer_epoch
        if self._row.opens:
            topics = {"v3_and_below_topics": [{"name": T, "partitions": [0]}]}
            answer = await self._ask(manager, (24, 3, WHO_BEFORE | topics))
            assert not codes_of(answer.response), answer

    async def ask(self, last: int, version: int) -> Answered:
        """Send the row's request from an address of its own."""
        return read_answer(self._row.api_key, version, await self.send(last, version))

    async def send(self, last: int, version: int) -> bytes:
        """Do the same, and leave the answer as it comes."""
        host = self._host(last)
        async with await WireClient.connect(self._bootstrap, local_host=host) as client:
            return await self._send(client, (self._row.api_key, version, self._row.values))

    async def state(self) -> list[bytes]:
        """Return what the manager sees."""
        async with await WireClient.connect(self._bootstrap) as manager:
            return [await self._send(manager, asked) for asked in VIEWS]

    async def _ask(self, client: WireClient, asked: Asked) -> Answered:
        api_key, version, _ = asked
        return read_answer(api_key, version, await self._send(client, asked))

    async def _send(self, client: WireClient, asked: Asked) -> bytes:
        api_key, version, values = asked
        frame, _ = frame_of(api_key, version, self.memory.resolve(values), 0)
        await client.send(frame)
        return await client.receive_frame()


def read_answer(api_key: int, version: int, frame: bytes) -> Answered:
    """Return an answer as the codec reads it."""
    kind: Any = load_response_schema(api_key, version)
    start = 5 if kind.__flexible__ and api_key != API_VERSIONS else 4
    response, _ = entity_reader(kind)(frame, start)
    return Answered(frame, response)


async def prepare_all(bootstrap: str, rows: Sequence[RowClient]) -> None:
    """Make what all rows are about, and their ACLs, after which nobody else may do anything."""
    async with await WireClient.connect(bootstrap) as manager:
        await create_acls(manager, management())
        await create_acls(manager, [rule for row in rows for rule in row.rules()])
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(row: RowClient) -> None:
        async with turns:
            await row.prepare()

    await asyncio.gather(*map(in_turn, rows))


def at(answer: Any, path: str) -> Any:
    """Return a value inside an answer, by names and indexes."""
    for part in path.split("."):
        answer = answer[int(part)] if part.isdigit() else getattr(answer, part)
    return answer


def codes_of(answer: Any) -> list[ErrorCode]:
    """Return all error codes of an answer that are errors."""
    if isinstance(answer, tuple):
        return [code for one in answer for code in codes_of(one)]
    if not dataclasses.is_dataclass(answer):
        return []
    found = []
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if field.name.endswith("error_code") and value != ErrorCode.none:
            found.append(ErrorCode(value))
        found += codes_of(value)
    return found
