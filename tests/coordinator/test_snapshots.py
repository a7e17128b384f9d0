"""A saved group is written down when that is needed, and is then of the moment of its save."""

from uuid import UUID

import pytest

from coordinator.consumer_document import write_member
from coordinator.consumer_member import Member
from coordinator.effects import Effect, Save
from coordinator.events import ConsumerHeartbeat
from coordinator.group import Group
from coordinator.snapshots import Document, GroupSnapshot
from tests.coordinator.classic_world import Runner
from tests.coordinator.consumer_simulation import catalog_of

CATALOG = catalog_of(1, {"t1": (UUID(int=1), 4)})


def new_group() -> Group:
    group = Group("g", Runner(initial_rebalance_delay_ms=0, max_size=10).config)
    group.start(now_ms=0)
    return group


def join(group: Group, member_id: str) -> GroupSnapshot:
    """Let a member join; return what is to be saved."""
    event = ConsumerHeartbeat(
        token=0,
        member_id=member_id,
        member_epoch=0,
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        principal="ANONYMOUS",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t1"],
        subscribed_topic_regex=None,
        server_assignor=None,
        owned_partitions=[],
        catalog=CATALOG,
    )
    return saved(group.handle(event, now_ms=0))


def saved(effects: list[Effect]) -> GroupSnapshot:
    (snapshot,) = [effect.group for effect in effects if isinstance(effect, Save)]
    return snapshot


def test_a_snapshot_is_of_its_moment_whenever_it_is_read() -> None:
    # Given two equal groups, one whose snapshots are read at once, one where they are read late
    at_once, late = new_group(), new_group()
    members = ("a", "b", "c")
    texts = [join(at_once, member_id).document.text for member_id in members]
    snapshots = [join(late, member_id) for member_id in members]

    # Then they tell the same
    assert [snapshot.document.text for snapshot in snapshots] == texts
    assert len(set(texts)) == 3


def test_members_are_written_down_when_somebody_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []

    def counted(member: Member) -> str:
        written.append(member.member_id)
        return write_member(member)

    monkeypatch.setattr("coordinator.consumer_members.write_member", counted)
    group = new_group()
    *_, last = [join(group, member_id) for member_id in ("a", "b", "c")]
    assert written == []
    assert last.document.text
    assert written == ["a", "b", "c"]


def test_documents_are_equal_by_their_text() -> None:
    document = Document(lambda: "{}")
    assert document == Document(lambda: "{}")
    assert hash(document) == hash(Document(lambda: "{}"))
    assert document != Document(lambda: "[]")
    assert repr(document) == "Document('{}')"
