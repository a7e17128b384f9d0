"""ApiVersions: which features of the cluster clients are told of (KIP-584)."""

from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from tests.support.wire import WireClient, build, request_entities

FEATURES: Final = {
    "group.version": (1, 1),
    "metadata.version": (30, 30),
    "transaction.version": (2, 2),
}


async def ask(wire: WireClient, version: int) -> Any:
    module = request_entities(18, version)
    names = {"client_software_name": "test", "client_software_version": "1.0"}
    return await wire.ask(build(module, "ApiVersionsRequest", **names))


@pytest.mark.parametrize("version", [3, 4])
async def test_producers_are_told_to_get_an_epoch_for_each_transaction(
    wire: WireClient, version: int
) -> None:
    """Clients of KIP-890 look for transaction.version 2, if its epoch is not -1."""
    response = await ask(wire, version)
    finalized = {
        one.name: (one.min_version_level, one.max_version_level)
        for one in response.finalized_features
    }
    assert finalized == FEATURES
    assert response.finalized_features_epoch == 0


@pytest.mark.parametrize("version", [3, 4])
async def test_no_other_level_than_the_one_in_force_is_there(
    wire: WireClient, version: int
) -> None:
    """Java clients before v4 fail at a lowest level of 0 (KAFKA-17492), and none is."""
    supported = {
        one.name: (one.min_version, one.max_version)
        for one in (await ask(wire, version)).supported_features
    }
    assert supported == FEATURES


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_old_clients_hear_nothing_of_features(wire: WireClient, version: int) -> None:
    response = await ask(wire, version)
    assert response.error_code is ErrorCode.none
    assert not hasattr(response, "finalized_features")
    ranges = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    wanted = {22: (0, 5), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5)}
    assert {key: ranges[key] for key in wanted} == wanted
    assert {key: ranges[key] for key in (61, 65, 66)} == {61: (0, 0), 65: (0, 0), 66: (0, 2)}
