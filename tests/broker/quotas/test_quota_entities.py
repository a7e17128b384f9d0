"""Names of quota entities, and what can be asked for and set of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from broker.quotas.quota_changes import QuotaAlteration, plan_quotas
from broker.quotas.quota_entities import CLIENT_ID, IP, USER, QuotaEntity, check_entity, check_quota
from broker.quotas.quota_filters import MatchType, quota_filter
from broker.refusals import Refusal
from storage.metadata.entity_configs import EntityChange

NAMES = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.dictionaries(st.sampled_from([USER, CLIENT_ID]), NAMES, min_size=1), st.randoms())
def test_an_entity_is_what_its_name_says_in_whatever_order(
    parts: dict[str, str | None], random: object
) -> None:
    entity = QuotaEntity.of(parts.items())
    assert QuotaEntity.from_text(entity.text) == entity
    assert QuotaEntity.of(reversed(parts.items())).text == entity.text
    assert "\0" not in entity.text, "Postgres has no text with it"


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"group": "a"},
        {USER: ""},
        {USER: "a" * 257},
        {IP: "localhost"},
        {IP: "1.2.3.4", USER: "a"},
        {IP: None, CLIENT_ID: None},
    ],
)
def test_entities_that_cannot_have_quotas_are_refused(parts: dict[str, str | None]) -> None:
    with pytest.raises(Refusal) as refused:
        check_entity(QuotaEntity.of(parts.items()))
    assert refused.value.code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("kind", "key", "allowed", "refused"),
    [
        (USER, "producer_byte_rate", [1, 2.0**63], [0, -1, 0.5, 1e19, float("inf"), float("nan")]),
        (CLIENT_ID, "consumer_byte_rate", [1024], [1.5]),
        (USER, "request_percentage", [0.01, 1e6], [0, float("inf"), float("nan")]),
        (CLIENT_ID, "controller_mutation_rate", [0.1, 5], [0, float("nan")]),
        (IP, "connection_creation_rate", [1, 2**31 - 1], [0.5, 2**31]),
        (IP, "producer_byte_rate", [], [1]),
        (USER, "connection_creation_rate", [], [1]),
        (USER, "retention.ms", [], [1]),
    ],
)
def test_each_quota_has_its_entities_and_values(
    kind: str, key: str, allowed: list[float], refused: list[float]
) -> None:
    entity = QuotaEntity.of([(kind, None)])
    for value in allowed:
        check_quota(entity, key, value)
    for value in refused:
        with pytest.raises(Refusal):
            check_quota(entity, key, value)


def test_a_filter_tells_named_default_and_absent_parts_apart() -> None:
    # Given every kind of entity with a user
    named, default = QuotaEntity.of([(USER, "a")]), QuotaEntity.of([(USER, None)])
    both = QuotaEntity.of([(USER, "a"), (CLIENT_ID, None)])
    client = QuotaEntity.of([(CLIENT_ID, "c")])
    entities = [named, default, both, client]

    def matched(*components: tuple[str, int, str | None], strict: bool = False) -> object:
        asked = quota_filter(components, strict=strict)
        return [entity for entity in entities if asked.matches(entity)]

    # Then a filter finds those that have its parts, a strict one only if they have no others
    assert matched() == entities
    assert matched(strict=True) == []
    assert matched((USER, MatchType.ANY, None)) == [named, default, both]
    assert matched((USER, MatchType.ANY, None), strict=True) == [named, default]
    assert matched((USER, MatchType.DEFAULT, None)) == [default]
    assert matched((USER, MatchType.EXACT, "a")) == [named, both]
    assert matched((USER, 0, "a"), (CLIENT_ID, MatchType.DEFAULT, None), strict=True) == [both]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 0, "a")], ErrorCode.invalid_request),
        ([("group", 0, "a")], ErrorCode.unsupported_version),
        ([(USER, 2, None), (USER, 0, "a")], ErrorCode.invalid_request),
        ([(USER, 0, None)], ErrorCode.invalid_request),
        ([(USER, 1, "a")], ErrorCode.invalid_request),
        ([(USER, 2, "a")], ErrorCode.invalid_request),
        ([(USER, 3, None)], ErrorCode.invalid_request),
        ([(USER, 2, None), (IP, 2, None)], ErrorCode.invalid_request),
    ],
)
def test_filters_without_meaning_are_refused(
    components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    with pytest.raises(Refusal) as refused:
        quota_filter(components, strict=False)
    assert refused.value.code is code


async def test_what_comes_twice_is_not_done_and_others_are() -> None:
    # Given entities of which one comes twice, one with the same key twice, one that has a quota
    twice, keys, fine = (QuotaEntity.of([(USER, name)]) for name in ("twice", "keys", "fine"))
    rate = "producer_byte_rate"
    stored = {fine.text: {"unknown": "1.0"}}
    plans = await plan_quotas(
        [
            QuotaAlteration(entity=twice, operations=[(rate, 1.0)]),
            QuotaAlteration(entity=keys, operations=[(rate, 1.0), (rate, None)]),
            QuotaAlteration(entity=fine, operations=[(rate, 2.0), ("unknown", None)]),
            QuotaAlteration(entity=twice, operations=[(rate, 2.0)]),
        ],
        lambda name: stored.get(name, {}),
    )

    # Then each has one plan; what could not be set any more can be removed
    assert list(plans) == [twice, keys, fine]
    assert isinstance(plans[twice], Refusal)
    assert isinstance(plans[keys], Refusal)
    change = plans[fine]
    assert isinstance(change, EntityChange)
    assert change.changes == {rate: "2.0", "unknown": None}


async def test_what_is_so_already_is_no_change() -> None:
    # Given a quota, and another that was never set
    entity = QuotaEntity.of([(USER, "ann")])
    stored = {entity.text: {"producer_byte_rate": "1.0"}}
    operations = [("producer_byte_rate", 1.0), ("consumer_byte_rate", None)]

    # When one is set to what it is, and the other removed, then there is nothing to write
    alteration = QuotaAlteration(entity=entity, operations=operations)
    plans = await plan_quotas([alteration], stored.__getitem__)
    (change,) = plans.values()
    assert isinstance(change, EntityChange)
    assert change.changes == {}
