"""Handlers that go through all that a request names give others their turns meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from kio.schema.errors import ErrorCode

from broker.api_guards import on_cluster
from broker.api_table import APIS
from broker.apis.k09_offset_fetch import MAX_BEGUN
from broker.cluster import Node
from broker.configs.broker_configs import read_broker_config
from broker.gradual import MANY
from broker.network.client_session import ClientSession
from broker.network.memory import MemoryBudget
from broker.requests import LARGE_BYTES, Request
from broker.services import Services
from broker.topic_names import TopicNames
from protocol.acl import Operation
from protocol.codec import RequestHeader, request_type
from tests.support.wire import build, milliseconds, request_entities

TURNS: Final = 20
TOPIC: Final = 2
GROUP: Final = 32
NAMES: Final = tuple(f"name-{number}" for number in range(TURNS * MANY))

ACL: Final[Mapping[str, object]] = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER: Final[Mapping[str, object]] = {
    "resource_type_filter": 2,
    "resource_name_filter": "t",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 3,
    "permission_type": 3,
}

BODIES: Final[Mapping[int, Callable[[Any], Mapping[str, object]]]] = {
    9: lambda kinds: {
        "groups": each(
            kinds,
            "OffsetFetchRequestGroup",
            "group_id",
            member_id=None,
            member_epoch=-1,
            topics=None,
        ),
        "require_stable": False,
    },
    10: lambda _: {"key_type": 0, "coordinator_keys": NAMES},
    13: lambda kinds: {
        "group_id": "g",
        "members": each(kinds, "MemberIdentity", "member_id", group_instance_id=None, reason=None),
    },
    19: lambda kinds: {
        "topics": each(
            kinds,
            "CreatableTopic",
            "name",
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=(),
        ),
        "timeout": milliseconds(1_000),
        "validate_only": True,
    },
    20: lambda kinds: {
        "topics": each(kinds, "DeleteTopicState", "name", topic_id=None),
        "timeout": milliseconds(1_000),
    },
    23: lambda kinds: {
        "replica_id": -1,
        "topics": (
            kinds.OffsetForLeaderTopic(
                topic="t",
                partitions=(kinds.OffsetForLeaderPartition(partition=0, leader_epoch=0),)
                * len(NAMES),
            ),
        ),
    },
    30: lambda kinds: {"creations": (kinds.AclCreation(**ACL),) * len(NAMES)},
    31: lambda kinds: {"filters": (kinds.DeleteAclsFilter(**FILTER),) * len(NAMES)},
    33: lambda kinds: altered(kinds, NAMES, "name"),
    34: lambda kinds: {
        "dirs": (
            kinds.AlterReplicaLogDir(
                path="/other",
                topics=each(kinds, "AlterReplicaLogDirTopic", "name", partitions=(0,)),
            ),
        )
    },
    42: lambda _: {"groups_names": NAMES},
    43: lambda kinds: {
        "election_type": 0,
        "topic_partitions": each(kinds, "TopicPartitions", "topic", partitions=(0,)),
        "timeout": milliseconds(1_000),
    },
    44: lambda kinds: altered(kinds, NAMES, "name"),
    50: lambda kinds: {"users": each(kinds, "UserName", "name")},
    51: lambda kinds: {
        "deletions": each(kinds, "ScramCredentialDeletion", "name", mechanism=1),
        "upsertions": (),
    },
    55: lambda kinds: {
        "topics": each(
            kinds, "TopicData", "topic_name", partitions=(kinds.PartitionData(partition_index=0),)
        )
    },
    69: lambda _: {"group_ids": NAMES, "include_authorized_operations": False},
    75: lambda kinds: {
        "topics": each(kinds, "TopicRequest", "name"),
        "response_partition_limit": 2_000,
        "cursor": None,
    },
}
"""A request of each API that names as many things as many turns have."""

ASIDE: Final = {13, 51, 55}
"""Handled by threads for the most part."""


def each(kinds: Any, kind: str, field: str, **others: object) -> tuple[object, ...]:
    return tuple(build(kinds, kind, **{field: name}, **others) for name in NAMES)


def altered(
    kinds: Any, resources: Iterable[str], *configs: str, resource_type: int = 2
) -> Mapping[str, object]:
    """Return what changes the same configs, which nobody knows, of each resource."""
    return {
        "resources": tuple(
            kinds.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=resource,
                configs=tuple(
                    build(kinds, "AlterableConfig", name=name, config_operation=1, value="")
                    for name in configs
                ),
            )
            for resource in resources
        ),
        "validate_only": False,
    }


class Copy(SimpleNamespace):
    """Of what is in Postgres."""

    __hash__ = object.__hash__  # type: ignore[assignment] # one is not another


class World:
    """A broker without topics, groups and credentials, for clients that may do all, or nothing.

    Nobody can go through all of its topics, however few a request names.
    """

    def __init__(self, *, allows: bool = True) -> None:
        node = Node(node_id=0, host="localhost", port=9092)
        cluster = SimpleNamespace(
            node_id=0,
            brokers=SimpleNamespace(is_cut_off=False),
            coordinator=lambda _: node,
        )
        cluster.frozen = lambda: cluster
        self.services = SimpleNamespace(
            cluster=cluster,
            authorizer=SimpleNamespace(enabled=not allows, allows=lambda *_: allows),
            audit=SimpleNamespace(denied=lambda *_, **__: None),
            topics=Copy(find=nothing, refresh=nothing, get=lambda _: None, names=TopicNames()),
            groups=SimpleNamespace(
                find=answered(None),
                handle=answered(None),
                may_fetch=answered(False),
                delete=answered(ErrorCode.group_id_not_found),
            ),
            entity_configs=Copy(refresh=nothing, alter=nothing, get=lambda *_: {}),
            config_writes=SimpleNamespace(run=lambda write: write()),
            log_dir=SimpleNamespace(name="/"),
            config=read_broker_config({}),
            memory=MemoryBudget(-1),
        )

    async def turns(
        self,
        api_key: int,
        handle: Callable[[Request], Awaitable[Any]],
        body: Callable[[Any], Mapping[str, object]] | None = None,
    ) -> int:
        """Answer a request, that of BODIES for one; return the turns that others had meanwhile."""
        request = self._request(api_key, body or BODIES[api_key])
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        result = await handle(request)
        if isinstance(result, Awaitable):
            result = await result
        counting.cancel()
        assert result is not None
        return turns

    def _request(self, api_key: int, body: Callable[[Any], Mapping[str, object]]) -> Request:
        version = APIS[api_key].high
        kinds = request_entities(api_key, version)
        return Request(
            header=RequestHeader(
                api_key=api_key, api_version=version, correlation_id=1, client_id="", body=0
            ),
            frame=bytearray(LARGE_BYTES + 1),
            services=cast("Services", self.services),
            peer="127.0.0.1:1",
            session=ClientSession(),
            give_back=lambda: None,
            body=request_type(api_key, version)(**body(kinds)),
        )


async def nothing(*_: object) -> None:
    """Find nothing, and have nothing to do."""


def answered(outcome: object) -> Callable[..., Awaitable[object]]:
    """Return what a group is asked with, and has answered at once."""

    def ask(*_: object, **__: object) -> Awaitable[object]:
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(outcome)
        return answer

    return ask


@pytest.mark.parametrize("api_key", sorted(BODIES.keys() - ASIDE))
async def test_they_let_others_have_turns_between(api_key: int) -> None:
    assert await World().turns(api_key, APIS[api_key].handle) >= TURNS


@pytest.mark.parametrize("api_key", sorted(ASIDE))
async def test_they_have_a_thread_do_what_changes_nothing(api_key: int) -> None:
    assert await World().turns(api_key, APIS[api_key].handle) > 0


@pytest.mark.parametrize("api_key", [30, 31, 34, 43, 51])
async def test_so_it_is_for_clients_that_may_not_ask_at_all(api_key: int) -> None:
    api, world = APIS[api_key], World(allows=False)
    assert isinstance(api.access, Operation)
    assert await world.turns(api_key, on_cluster(api.handle, api.access, api.refuse)) > 0


async def test_few_groups_wait_at_a_time_for_their_offsets_to_be_fetched() -> None:
    # Given groups that have to be loaded
    world, loop = World(), asyncio.get_running_loop()
    counts, most = Counter[str](), Counter[str]()

    async def loaded() -> bool:
        await asyncio.sleep(0)
        counts["waiting"] -= 1
        return False

    def may_fetch(*_: object, **__: object) -> Awaitable[bool]:
        nonlocal most
        if not counts["begun in one turn"]:
            loop.call_soon(counts.pop, "begun in one turn")
        counts.update(["waiting", "begun in one turn"])
        most |= counts
        return loaded()

    world.services.groups.may_fetch = may_fetch

    # When a request names very many
    await world.turns(9, APIS[9].handle)

    # Then few of them wait at a time, and others have turns while these are begun
    assert counts["waiting"] == 0
    assert most == {"waiting": MAX_BEGUN, "begun in one turn": MANY}


@pytest.mark.parametrize("allows", [True, False])
@pytest.mark.parametrize(
    ("resources", "kind"),
    [(("again",) * len(NAMES), 2), (NAMES, 1), (NAMES, 2)],
    ids=["repeated", "of no type", "unknown"],
)
@pytest.mark.parametrize("api_key", [33, 44])
async def test_so_it_is_with_resources_that_cannot_be_altered(
    api_key: int, resources: Sequence[str], kind: int, *, allows: bool
) -> None:
    turns = await World(allows=allows).turns(
        api_key,
        APIS[api_key].handle,
        lambda kinds: altered(kinds, resources, "name", resource_type=kind),
    )
    assert turns >= TURNS


@pytest.mark.parametrize("kind", [TOPIC, GROUP])
@pytest.mark.parametrize("api_key", [33, 44])
async def test_postgres_is_asked_once_for_all_resources(api_key: int, kind: int) -> None:
    # Given copies that it takes a question to bring up to date
    world, asked = World(), Counter[str]()

    async def refresh() -> None:
        asked["refresh"] += 1

    world.services.topics.refresh = world.services.entity_configs.refresh = refresh

    # When a request alters many, then they are brought up to date once
    await world.turns(
        api_key,
        APIS[api_key].handle,
        lambda kinds: altered(kinds, NAMES[:100], "name", resource_type=kind),
    )
    assert asked["refresh"] == 1


@pytest.mark.parametrize(("api_key", "kind"), [(33, 16), (44, 16), (44, 8)])
async def test_of_one_resource_a_thread_looks_at_very_many_configs(api_key: int, kind: int) -> None:
    turns = await World().turns(
        api_key,
        APIS[api_key].handle,
        lambda kinds: altered(kinds, ["0"], *NAMES, resource_type=kind),
    )
    assert turns > 0
