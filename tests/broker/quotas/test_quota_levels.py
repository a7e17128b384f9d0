"""Which quota counts for whom: the order of KIP-55, quota by quota."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.configs.entity_configs import EntityConfigs
from broker.quotas.quota_entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    USER,
    QuotaEntity,
)
from broker.quotas.quota_levels import Found, Levels, client_quota, ip_quota
from broker.quotas.quota_table import QuotaTable
from tests.support.fakes.metadata import MemoryMetadata

DEFAULT = None
# The most specific first; the rate of each is its place.
LEVELS: list[tuple[dict[str, str | None], tuple[str, str]]] = [
    ({USER: "ann", CLIENT_ID: "etl"}, ("ann", "etl")),
    ({USER: "ann", CLIENT_ID: DEFAULT}, ("ann", "etl")),
    ({USER: "ann"}, ("ann", "")),
    ({USER: DEFAULT, CLIENT_ID: "etl"}, ("ann", "etl")),
    ({USER: DEFAULT, CLIENT_ID: DEFAULT}, ("ann", "etl")),
    ({USER: DEFAULT}, ("ann", "")),
    ({CLIENT_ID: "etl"}, ("", "etl")),
    ({CLIENT_ID: DEFAULT}, ("", "etl")),
]


def entity(parts: dict[str, str | None]) -> QuotaEntity:
    return QuotaEntity.of(parts.items())


def table() -> QuotaTable:
    return QuotaTable(EntityConfigs(MemoryMetadata(Random(1))))


def levels_of(entities: Mapping[QuotaEntity, Mapping[str, float]]) -> Levels:
    made = table()
    for each, quotas in entities.items():
        made.put(each, quotas)
    return made.levels


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_specific_level_that_is_set_counts(first: int) -> None:
    # Given all levels from some one on
    levels = levels_of(
        {
            entity(parts): {PRODUCER_BYTE_RATE: float(rate)}
            for rate, (parts, _) in enumerate(LEVELS)
            if rate >= first
        }
    )

    # Then that one counts, and is shared by those whom its level makes no difference between
    found = client_quota(levels[PRODUCER_BYTE_RATE], "ann", "etl")
    assert found == Found(float(first), *LEVELS[first][1])


def test_a_level_that_does_not_set_a_quota_leaves_it_to_the_next() -> None:
    levels = levels_of(
        {
            entity({USER: "ann"}): {CONSUMER_BYTE_RATE: 1.0},
            entity({CLIENT_ID: "etl"}): {PRODUCER_BYTE_RATE: 2.0},
        }
    )
    assert client_quota(levels[CONSUMER_BYTE_RATE], "ann", "etl") == Found(1.0, "ann", "")
    assert client_quota(levels[PRODUCER_BYTE_RATE], "ann", "etl") == Found(2.0, "", "etl")
    assert client_quota(levels[PRODUCER_BYTE_RATE], "ann", "other") is None


def test_a_client_without_an_id_has_the_default() -> None:
    levels = levels_of({entity({CLIENT_ID: DEFAULT}): {PRODUCER_BYTE_RATE: 1.0}})
    assert client_quota(levels[PRODUCER_BYTE_RATE], "ann", "") == Found(1.0, "", "")


def test_addresses_count_in_whatever_form_they_are_written() -> None:
    levels = levels_of(
        {
            entity({IP: DEFAULT}): {CONNECTION_CREATION_RATE: 1.0},
            entity({IP: "0:0:0:0:0:0:0:1"}): {CONNECTION_CREATION_RATE: 2.0},
            entity({IP: "::ffff:1.2.3.4"}): {CONNECTION_CREATION_RATE: 3.0},
        }
    )[CONNECTION_CREATION_RATE]
    assert ip_quota(levels, "::1") == 2
    assert ip_quota(levels, "1.2.3.4") == 3
    assert ip_quota(levels, "10.0.0.1") == 1


ADDRESSES = ("::1", "0:0:0:0:0:0:0:1", "1.2.3.4", "::ffff:1.2.3.4", DEFAULT)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [entity({IP: name}) for name in ADDRESSES] + [entity(parts) for parts, _ in LEVELS]
            ),
            st.dictionaries(st.sampled_from("pc"), st.floats(1, 9), max_size=2),
        ),
        max_size=20,
    )
)
def test_changes_leave_what_there_would_be_without_their_history(
    changes: list[tuple[QuotaEntity, dict[str, float]]],
) -> None:
    # Given quotas that are set, changed and removed, of addresses in several forms, too
    changed = table()
    for each, quotas in changes:
        changed.put(each, quotas)

    # Then there is what a table has that only ever knew the outcome
    assert dict(changed.entities) == {
        each: quotas for each, quotas in dict(changes).items() if quotas
    }
    assert changed.levels == levels_of(changed.entities)
