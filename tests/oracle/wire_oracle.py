"""The whole corpus replayed to this broker and to Apache Kafka, and what came of it.

    python -m tests.oracle.wire_oracle HERE KAFKA ["k19 *"]

prints the differences between two running brokers (HOST:PORT each) that the list lacks, for the
cases that the pattern names. Each run has names of its own, so it can be repeated.
"""

import asyncio
import fnmatch
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.oracle.corpus import CASES
from tests.oracle.wire_cases import Case, given
from tests.oracle.wire_differences import Difference, differences, listed_differences
from tests.oracle.wire_masks import error_codes
from tests.oracle.wire_replay import Answer, CaseReplay, Replay, Run, Versions, replay
from tests.oracle.wire_values import Memory
from tests.support.wire import WireClient, request_entities

API_VERSIONS: Final = 18
GROUP, TRANSACTION = 0, 1
OLDEST: Final = {0: 3}  # versions before this are advertised, and refused (KAFKA-18659)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Both replays.

    Attributes:
        versions: of the APIs that both brokers advertise, as far as their ranges overlap.
        not_here: APIs that only Apache Kafka advertises.
        failed: what went wrong in cases that could not be replayed.
    """

    here: Replay
    kafka: Replay
    versions: Versions
    not_here: frozenset[int]
    failed: tuple[str, ...]

    @property
    def differences(self) -> list[Difference]:
        return differences(self.here, self.kafka)

    def answers(self, api_key: int, version: int) -> list[Answer]:
        """Return Apache Kafka's answers to an API's own requests at a version, if well formed."""
        return [
            answer
            for (key, name, at), answers in self.kafka.items()
            for answer in answers
            if key == api_key
            and at == version
            and answer.api_key == api_key
            and not name.startswith("frame:")
        ]


Compared = tuple[Outcome, Sequence[Difference]]
"""Both replays, and what differs in them."""


def is_error(answer: Answer) -> bool:
    """Whether it refuses anything; what is no answer of an API does."""
    return isinstance(answer.plain, str) or bool(error_codes(answer.plain))


async def replay_to_both(
    here: str,
    kafka: str,
    cases: Sequence[Case] = CASES,
    *,
    oldest_too: Callable[[int], bool] = lambda _: True,
) -> Outcome:
    """Replay the corpus to two running brokers.

    Args:
        here: HOST:PORT of one of them.
        kafka: of the other.
        cases: of the corpus.
        oldest_too: whether an API's cases are replayed at its lowest version, and not only at its
            highest.
    """
    ours, theirs = await asyncio.gather(_advertised(here), _advertised(kafka))
    versions = {
        key: (
            max(ours[key][0], theirs[key][0], OLDEST.get(key, 0)),
            min(ours[key][1], theirs[key][1]),
        )
        for key in ours.keys() & theirs.keys()
    }
    versions = {
        key: (low if oldest_too(key) else high, high) for key, (low, high) in versions.items()
    }
    name = uuid.uuid4().hex[:4]
    runs = [Run(bootstrap, versions, name) for bootstrap in (here, kafka)]
    await asyncio.gather(*map(_wake, runs))
    answers = await asyncio.gather(*(replay(run, cases) for run in runs))
    (ours_replayed, ours_failed), (theirs_replayed, theirs_failed) = answers
    return Outcome(
        here=ours_replayed,
        kafka=theirs_replayed,
        failed=(*ours_failed, *theirs_failed),
        versions=versions,
        not_here=frozenset(theirs.keys() - ours.keys()),
    )


async def _advertised(bootstrap: str) -> dict[int, tuple[int, int]]:
    async with await WireClient.connect(bootstrap) as client:
        module = request_entities(API_VERSIONS, 3)
        request = module.ApiVersionsRequest(
            client_software_name="oracle", client_software_version="1"
        )
        found: Any = (await client.ask(request)).api_keys
    return {one.api_key: (one.min_version, one.max_version) for one in found}


async def _wake(run: Run) -> None:
    """Have the coordinators ready: Apache Kafka makes their topics when first asked for one."""
    steps = tuple(
        given(10, key_type=kind, coordinator_keys=["~"], until={"coordinators.0.error_code": 0})
        for kind in (GROUP, TRANSACTION)
    )
    steps += (given(22, transactional_id="~", transaction_timeout=60_000),)
    steps += (given(42, groups_names=[]),)
    case = Case(api_key=10, name="wake", steps=steps)
    await CaseReplay(run, case, 0, Memory(here=f"wake-{run.name}")).run()


def print_report(
    compare: Callable[[str, str, Sequence[Case]], Coroutine[Any, Any, Compared]],
    is_listed: Callable[[Difference], bool],
) -> None:
    """Compare the brokers of the command line, and print what no list has."""
    here, kafka, *patterns = sys.argv[1:]
    pattern = patterns[0] if patterns else "*"
    cases = [one for one in CASES if fnmatch.fnmatch(f"k{one.api_key} {one.name}", pattern)]
    began_s = time.monotonic()
    outcome, found = asyncio.run(compare(here, kafka, cases))
    for one in found:
        if not is_listed(one):
            print(one)  # noqa: T201
    for failure in outcome.failed:
        print(failure)  # noqa: T201
    took_s = time.monotonic() - began_s
    print(f"{len(cases)} cases, {len(found)} differences, {took_s:.1f} s")  # noqa: T201


def main() -> None:
    async def compare(here: str, kafka: str, cases: Sequence[Case]) -> Compared:
        outcome = await replay_to_both(here, kafka, cases)
        return outcome, outcome.differences

    listed = listed_differences()
    print_report(compare, lambda found: any(row.covers(found) for row in listed))


if __name__ == "__main__":
    main()
