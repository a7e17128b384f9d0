"""Three groups in a row copy topic to topic to topic while their members are killed."""

from collections import Counter
from dataclasses import dataclass
from itertools import cycle, islice, pairwise

from tests.groups.conftest import NewTopic
from tests.groups.copies import Place, copies_in, reads, record_counts_of
from tests.groups.history import check, ownerships, report
from tests.groups.member import Member
from tests.groups.members import Members
from tests.groups.producing import numbered_records

PARTITIONS = 4
HOPS = 3
KILLS = 3
RATE = 300
SESSION_MS = 6_000
"""Each kill waits for it, and none of the others may be taken for dead that only stalls."""


@dataclass(slots=True)
class Hop:
    """One group, which copies `source` to `target` record by record."""

    members: Members
    source: str
    target: str
    assignor: str
    started: int = 0

    def start(self) -> None:
        self.started += 1
        self.members.start(
            "librdkafka",
            name=f"{self.source}-{self.started}",
            topic=self.source,
            group=self.source,
            copy_to=self.target,
            assignor=self.assignor,
            session_ms=SESSION_MS,
        )

    @property
    def all(self) -> list[Member]:
        return [member for member in self.members.all if member.settings.topic == self.source]

    @property
    def running(self) -> list[Member]:
        return [member for member in self.all if member.runs]

    def replace_killed_member(self) -> None:
        """Kill -9 the oldest member in the midst of its work, and start another one."""
        victim = self.running[0]
        committed = len(victim.said("committed"))
        self.members.until(
            lambda: len(victim.said("committed")) > committed + 2, f"commits of {victim.name}"
        )
        victim.kill()
        self.start()
        self.members.until_shared(PARTITIONS, among=self.running)

    def finish(self, wanted: set[Place]) -> None:
        """Return when all of `wanted` was read and copied, and all members have left."""
        self.members.until(lambda: wanted <= reads(ownerships(self.all)).keys(), "end of a hop")
        for member in self.running:
            member.stop()


def test_a_chain_of_groups_loses_nothing_and_repeats_only_what_was_not_committed(
    members: Members, topic_of: NewTopic
) -> None:
    # Given four topics, and between each two of them a group of two members that copies
    topics = [topic_of(PARTITIONS) for _ in range(HOPS + 1)]
    assignors = ("range", "cooperative-sticky", "roundrobin")
    hops = [
        Hop(members, source, target, assignor)
        for (source, target), assignor in zip(pairwise(topics), assignors, strict=True)
    ]
    with numbered_records(members.bootstrap, topics[0], PARTITIONS, rate=RATE) as records:
        for hop in hops:
            hop.start()
            hop.start()
        for hop in hops:
            members.until_shared(PARTITIONS, among=hop.running)

        # When members of each group are killed in the midst of it, and replaced
        for hop in islice(cycle(hops), KILLS):
            hop.replace_killed_member()
        records.stop()

    # Then, hop by hop, every record arrives
    values = set(records.places.values())
    places: set[Place] = set(records.places)
    for hop in hops:
        hop.finish(places)
        copies = copies_in(members.bootstrap, hop.target, PARTITIONS)
        assert {value for _, value in copies.values()} == values
        # and a record that came twice was read twice, for which no commit had covered it
        owners = ownerships(hop.all)
        found = check(owners, record_counts_of(places))
        assert not found, report(found)
        copied = Counter(source for source, _ in copies.values())
        assert copied.keys() == places
        assert copied <= reads(owners)
        places = set(copies)
