"""A consumer that commits by itself closes quickly."""

import pytest

from tests.groups.asking import committed
from tests.groups.conftest import NewTopic
from tests.groups.members import Members
from tests.groups.producing import numbered_records
from tests.groups.settings import Protocol
from tests.support.host import Stopwatch

CLOSED_S = 2.0
ENOUGH = 100


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_librdkafka_consumer_with_auto_commit_closes_quickly(
    protocol: Protocol, members: Members, topic_of: NewTopic
) -> None:
    # Given a consumer in the midst of reading, whose last commit is some records ago
    topic = topic_of(1)
    with numbered_records(members.bootstrap, topic, 1):
        reading = members.start(
            "librdkafka",
            name="reading",
            topic=topic,
            group=topic,
            protocol=protocol,
            assignor="range",
            auto_commit=True,
            commit_ms=5_000,
        )
        members.until(lambda: len(reading.read().get(0, ())) > ENOUGH, "reading")

        # When it is closed
        stopwatch = Stopwatch()
        closed = reading.stop()
        late_s = stopwatch.waited_s()

    # Then that is quick, and what it has read is committed
    assert closed.fields["took_s"] < CLOSED_S + late_s
    assert committed(members.bootstrap, topic) == {0: reading.read()[0][-1] + 1}
