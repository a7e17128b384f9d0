"""One request creates, or deletes, as many ACLs as with Kafka's controller, or none."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, cast

from kio.schema.errors import ErrorCode

from broker.apis import k30_create_acls, k31_delete_acls
from broker.configs.entity_configs import MAX_CHANGES
from broker.requests import Request
from protocol.codec import response_types
from tests.broker.admin.wire import Api
from tests.broker.security.acl_wire import TOPIC
from tests.broker.security.acl_world import World, allow
from tests.broker.security.cluster_requests import CREATION, FILTER

CREATE: Final = Api(30, 3)
DELETE: Final = Api(31, 3)
TOPICS: Final = [f"topic-{number}" for number in range(MAX_CHANGES + 1)]


def asked(world: World, api: Api, **body: Any) -> Request:
    """Return a request that reaches a handler."""

    async def aside(work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    request = SimpleNamespace(
        decode=lambda: api.request(**body),
        types=response_types(api.key, api.version),
        services=SimpleNamespace(entity_configs=world.configs, authorizer=world.authorizer),
        aside=aside,
    )
    return cast("Request", request)


async def test_too_many_are_not_created() -> None:
    world = World()
    creations = tuple(
        CREATE.part("AclCreation", **{**CREATION, "resource_type": TOPIC, "resource_name": name})
        for name in TOPICS
    )
    answer: Any = await k30_create_acls.handle(asked(world, CREATE, creations=creations))
    assert {one.error_code for one in answer.results} == {ErrorCode.policy_violation}
    assert len(world.authorizer.acls) == 0


async def test_too_many_are_not_deleted() -> None:
    # Given more ACLs than one request may delete
    world = World()
    await world.create(*map(allow, TOPICS[:-1]))
    await world.create(allow(TOPICS[-1]))

    # When filters match all of them, then each is refused, and nothing is deleted
    everything = DELETE.part("DeleteAclsFilter", **{**FILTER, "resource_name_filter": None})
    answer: Any = await k31_delete_acls.handle(asked(world, DELETE, filters=(everything,) * 2))
    codes = [one.error_code for one in answer.filter_results]
    assert codes == [ErrorCode.invalid_request] * 2
    assert len(world.authorizer.acls) == len(TOPICS)

    # And when one of them is gone, the others can go
    await world.delete(allow(TOPICS[0]))
    answer = await k31_delete_acls.handle(asked(world, DELETE, filters=(everything,)))
    assert [len(one.matching_acls) for one in answer.filter_results] == [MAX_CHANGES]
    assert len(world.authorizer.acls) == 0
