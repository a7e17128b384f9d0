"""The corpus replayed where ACLs decide: who has none, and who may only describe.

Everybody is ANONYMOUS, so ACLs tell clients apart by the address that they come from: 127.0.0.1
may do everything, and does what cases need. Before each of its requests that is to be compared (or
after one that is repeated until something is seen) the others send the same; their answers are what
is compared.

    python -m tests.oracle.wire_access HERE KAFKA ["k19 *"]

prints the differences between two running brokers (HOST:PORT each, with AUTHORIZER of
tests/support/access.py, and without any ACL) that the lists lack, for the cases that the pattern
names.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kio.schema.errors import ErrorCode

from protocol.acl import Operation, ResourceType
from tests.oracle.corpus import CASES
from tests.oracle.wire_cases import Ask, Case, Step
from tests.oracle.wire_differences import (
    Difference,
    Listed,
    differences,
    listed_differences,
)
from tests.oracle.wire_masks import Plain
from tests.oracle.wire_oracle import Outcome, print_report, replay_to_both
from tests.oracle.wire_replay import Answer, Replay
from tests.support.access import create_acls, everything, management
from tests.support.wire import WireClient, request_entities

LIST: Final = Path(__file__).with_name("wire_access_differences.md")
NOBODY: Final = "127.0.0.2"
READER: Final = "127.0.0.3"
OTHERWISE_BEFORE: Final = frozenset({3, 9, 10, 20, 24})
"""APIs whose oldest versions ask for other access, or have another place to say that there is none.

The others are replayed at their highest version only, for the sake of time.
"""
DESCRIBE_TOPIC_PARTITIONS: Final = 75
UNANSWERED: Final = frozenset({(50, "all users")})
"""Cases that Apache Kafka trips over so that it never answers who has no access."""

WHO: Final = {"without an ACL": NOBODY, "with DESCRIBE": READER}
SETTLE_S: Final = 120.0
PAUSE_S: Final = 0.02
DESCRIBED: Final = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One step of a case, and who does it.

    Attributes:
        number: of the step in the corpus.
        host: where it comes from; empty for what the case itself does.
    """

    number: int
    host: str
    step: Step


def access_cases(cases: Iterable[Case]) -> list[Case]:
    """Return the cases with the requests of the others in them; those of broken frames left out."""
    return [
        replace(case, steps=tuple(turn.step for turn in _turns(case.steps)))
        for case in cases
        if not case.name.startswith("frame:") and (case.api_key, case.name) not in UNANSWERED
    ]


def _turns(steps: Sequence[Step]) -> Iterator[Turn]:
    for number, step in enumerate(steps, 1):
        others: list[Turn] = []
        if isinstance(step, Ask) and step.answered and step.change is None:
            others += (
                Turn(number, host, replace(step, on=f"{step.on}@{host}", save={}, until={}))
                for host in WHO.values()
            )
        own = Turn(number, "", step)
        yield from (own, *others) if isinstance(step, Ask) and step.until else (*others, own)


def answers_of(who: str, replayed: Replay, cases: Iterable[Case]) -> Replay:
    """Return what somebody was answered, with the steps numbered as in the corpus."""
    turns = {(case.api_key, case.name): list(_turns(case.steps)) for case in cases}
    return {
        (api_key, name, version): [
            replace(answer, step=turn.number, plain=_in_order(answer))
            for answer in answers
            if (turn := turns[api_key, name][answer.step - 1]).host == WHO[who]
        ]
        for (api_key, name, version), answers in replayed.items()
    }


def _in_order(answer: Answer) -> Plain:
    """Return an answer; Apache Kafka describes the topics that it denies in no order."""
    if answer.api_key != DESCRIBE_TOPIC_PARTITIONS or not isinstance(answer.plain, Mapping):
        return answer.plain
    topics = sorted(answer.plain["topics"], key=lambda topic: str(topic["name"]))
    return {**answer.plain, "topics": topics}


async def allow(bootstrap: str) -> None:
    """Create the ACLs, and wait until the broker goes by them."""
    described = everything(READER, Operation.DESCRIBE, DESCRIBED)
    async with await WireClient.connect(bootstrap) as manager:
        await create_acls(manager, [*management(), *described])
    await _settle(bootstrap)


async def _settle(bootstrap: str) -> None:
    """Wait until the reader may describe a group, and nobody else may: all ACLs come at once."""
    module = request_entities(15, 5)
    request = module.DescribeGroupsRequest(groups=("none",), include_authorized_operations=False)
    expected = {READER: ErrorCode.none, NOBODY: ErrorCode.group_authorization_failed}
    deadline_s = time.monotonic() + SETTLE_S
    while True:
        codes = {}
        for host in expected:
            async with await WireClient.connect(bootstrap, local_host=host) as client:
                codes[host] = (await client.ask(request)).groups[0].error_code
        not_yet = {ErrorCode.coordinator_not_available, ErrorCode.not_coordinator}
        if codes == expected or (codes[NOBODY] == expected[NOBODY] and codes[READER] in not_yet):
            return
        assert time.monotonic() < deadline_s, codes
        await asyncio.sleep(PAUSE_S)


async def replay_with_access(
    here: str, kafka: str, cases: Sequence[Case] = CASES
) -> tuple[Outcome, list[Difference]]:
    """Replay the corpus to two running brokers; return what differs for those with few ACLs.

    Its differences name the case as in the corpus, and then who asked.
    """
    await asyncio.gather(allow(here), allow(kafka))
    outcome = await replay_to_both(
        here, kafka, access_cases(cases), oldest_too=OTHERWISE_BEFORE.__contains__
    )
    found = [
        replace(one, case=f"{one.case}, {who}")
        for who in WHO
        for one in differences(
            answers_of(who, outcome.here, cases), answers_of(who, outcome.kafka, cases)
        )
    ]
    return outcome, found


def is_listed(found: Difference, everywhere: Iterable[Listed], here: Iterable[Listed]) -> bool:
    """Whether a difference is meant to be: for everybody, or where ACLs decide."""
    for_all = replace(found, case=found.case.rpartition(", ")[0])
    return any(row.covers(for_all) for row in everywhere) or any(row.covers(found) for row in here)


def main() -> None:
    everywhere, access = listed_differences(), listed_differences(LIST)
    print_report(replay_with_access, lambda found: is_listed(found, everywhere, access))


if __name__ == "__main__":
    main()
