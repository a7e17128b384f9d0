"""A classic group and one of KIP-848 on the same topic, for tools that are to treat them alike."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.clients.topics import new_topic
from tests.groups.members import Members

COUNT: Final = 20
# the first record; then one a minute. Whole seconds: none is lost on the way to milliseconds
BEFORE: Final = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """A group of each type, both on one topic with COUNT records in its only partition."""

    topic: str
    classic: str
    consumer: str

    @property
    def named(self) -> tuple[str, ...]:
        return ("--group", self.classic, "--group", self.consumer)

    @property
    def on_topic(self) -> tuple[str, ...]:
        return (*self.named, "--topic", self.topic)


def new_groups(members: Members, confluent: Confluent) -> Groups:
    """Return two groups with one member each that has read and committed everything."""
    topic = new_topic(confluent, "tool")
    times = [BEFORE + timedelta(minutes=number) for number in range(COUNT)]
    records = [
        SentRecord(key=None, value=b"%d" % number, timestamp_ms=int(time.timestamp() * 1000))
        for number, time in enumerate(times)
    ]
    confluent.produce(topic, records)
    groups = Groups(topic=topic, classic=f"{topic}-classic", consumer=f"{topic}-consumer")
    for group, protocol, assignor in (
        (groups.classic, "classic", "range"),
        (groups.consumer, "consumer", "uniform"),
    ):
        settings = {"topic": topic, "group": group, "protocol": protocol, "assignor": assignor}
        members.start("librdkafka", name=f"client-of-{group}", **settings)
    started = members.all[-2:]

    def all_committed() -> bool:
        return all(
            any(event.offsets == {0: COUNT} for event in one.said("committed")) for one in started
        )

    members.until(all_committed, "commit of everything")
    return groups
