"""What DescribeConfigs makes for names that a client has made up."""

from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from kio.schema.errors import ErrorCode

from broker.apis.k32_describe_configs import MAX_WITHOUT_CONFIGS, handle
from broker.configs.broker_configs import read_broker_config
from broker.configs.config_resources import ConfigResource
from broker.requests import Request
from protocol.codec import response_types
from storage.metadata.entity_configs import EntityKind
from tests.support.wire import build, request_entities

API_KEY: Final = 32
VERSION: Final = 4
OWN: Final = {
    (EntityKind.GROUP, "own"): {"consumer.session.timeout.ms": "50000"},
    (EntityKind.CLIENT_METRICS, "own"): {"metrics": "a."},
}
"""What is set."""


class Stored:
    """The part of the broker's copy that is asked."""

    async def refresh(self) -> None:
        """Have no news."""

    def get(self, kind: EntityKind, name: str) -> Mapping[str, str]:
        return OWN.get((kind, name), {})


async def described(*named: tuple[ConfigResource, str]) -> list[Any]:
    """Return the results of a request that names these."""
    kinds = request_entities(API_KEY, VERSION)
    resources = tuple(
        build(
            kinds,
            "DescribeConfigsResource",
            resource_type=kind,
            resource_name=name,
            configuration_keys=None,
        )
        for kind, name in named
    )
    body = build(
        kinds,
        "DescribeConfigsRequest",
        resources=resources,
        include_synonyms=True,
        include_documentation=True,
    )
    services = SimpleNamespace(config=read_broker_config({}), entity_configs=Stored())
    request = SimpleNamespace(
        services=services,
        types=response_types(API_KEY, VERSION),
        decode=lambda: body,
        authorize=lambda *_: None,
    )
    response: Any = await handle(cast("Request", request))
    return list(response.results)


@pytest.mark.parametrize("kind", [ConfigResource.GROUP, ConfigResource.CLIENT_METRICS])
async def test_names_of_which_nothing_is_set_share_what_is_told(kind: ConfigResource) -> None:
    # When one of which something is set is described between two others
    one, own, two = await described((kind, "one"), (kind, "own"), (kind, "two"))

    # Then those are told the same, made once, and it is told what is its own
    assert len(one.configs) == len(own.configs) > 1
    assert all(a is b for a, b in zip(one.configs, two.configs, strict=True))
    assert {config.value for config in own.configs} - {config.value for config in one.configs}


async def test_a_request_is_told_of_so_many_names_of_which_nothing_is_set() -> None:
    # When a client makes up more names than that, of both types
    groups = [(ConfigResource.GROUP, f"group-{at}") for at in range(MAX_WITHOUT_CONFIGS)]
    others = [(ConfigResource.CLIENT_METRICS, f"other-{at}") for at in range(MAX_WITHOUT_CONFIGS)]
    results = await described(*groups, *others, (ConfigResource.GROUP, "own"))

    # Then the first are described, the rest are refused, and what is set is told all the same
    assert Counter(result.error_code for result in results[:-1]) == {
        ErrorCode.none: MAX_WITHOUT_CONFIGS,
        ErrorCode.invalid_request: MAX_WITHOUT_CONFIGS,
    }
    assert results[len(groups) - 1].error_code is ErrorCode.none
    assert results[len(groups)].configs == ()
    assert results[-1].error_code is ErrorCode.none
