"""Client quotas: DescribeClientQuotas, AlterClientQuotas."""

from typing import Any, Final

from tests.oracle.wire_cases import Step, ask, case, given
from tests.oracle.wire_values import NULL

DESCRIBE_QUOTAS: Final = 48
ALTER_QUOTAS: Final = 49
EXACT, DEFAULT, ANY_NAME = 0, 1, 2


def _entity(**names: str | None) -> list[dict[str, Any]]:
    """Return an entity: `user="alice"`; None is the default entity, - in a type is _ here."""
    return [
        {"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in names.items()
    ]


def _set(entity: list[dict[str, Any]], *ops: tuple[str, float], **said: Any) -> Step:
    entry = {"entity": entity, "ops": [{"key": key, "value": value} for key, value in ops]}
    return ask(ALTER_QUOTAS, **{"entries": [entry], **said})


def _unset(entity: list[dict[str, Any]], *keys: str) -> Step:
    entry = {"entity": entity, "ops": [{"key": key, "remove": True} for key in keys]}
    return ask(ALTER_QUOTAS, entries=[entry])


def _having(entity: list[dict[str, Any]], *ops: tuple[str, float]) -> Step:
    entry = {"entity": entity, "ops": [{"key": key, "value": value} for key, value in ops]}
    return given(ALTER_QUOTAS, entries=[entry])


def _component(kind: str, how: int, name: str | None = None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": how, "match": name}


def _quotas(*components: dict[str, Any], **said: Any) -> Step:
    return ask(DESCRIBE_QUOTAS, **{"components": components, "strict": False, **said})


USER: Final = _entity(user="u-~")
MANY: Final = 1e12
BYTES: Final = ("producer_byte_rate", MANY)
LIMITED: Final = _having(USER, BYTES)
FOUND: Final = {"entries.0.values.0.value": MANY}


QUOTA_CASES: Final = (
    case(
        DESCRIBE_QUOTAS,
        "of a user",
        LIMITED,
        _quotas(_component("user", EXACT, "u-~"), until=FOUND),
    ),
    case(
        DESCRIBE_QUOTAS,
        "of a user and its clients",
        _having(_entity(user="u-~", client_id="c-~"), BYTES),
        _quotas(_component("user", EXACT, "u-~"), until=FOUND),
        _quotas(_component("user", EXACT, "u-~"), strict=True),
        _quotas(
            _component("user", EXACT, "u-~"), _component("client-id", EXACT, "c-~"), strict=True
        ),
        _quotas(_component("user", EXACT, "u-~"), _component("client-id", ANY_NAME)),
    ),
    case(
        DESCRIBE_QUOTAS,
        "of any user",
        LIMITED,
        _quotas(_component("user", EXACT, "u-~"), until=FOUND),
        _quotas(_component("user", ANY_NAME), own=["entries"]),
    ),
    case(DESCRIBE_QUOTAS, "of an unknown user", _quotas(_component("user", EXACT, "no-~"))),
    case(DESCRIBE_QUOTAS, "of an unknown type", _quotas(_component("planet", EXACT, "mars"))),
    case(DESCRIBE_QUOTAS, "without a type", _quotas(_component("", EXACT, "mars"))),
    case(
        DESCRIBE_QUOTAS,
        "in an unknown way",
        _quotas(_component("user", 9, "u-~")),
        _quotas(_component("user", -1, "u-~")),
    ),
    case(
        DESCRIBE_QUOTAS,
        "exactly nobody",
        _quotas(_component("user", EXACT, None)),
        _quotas(_component("user", DEFAULT, "u-~")),
        _quotas(_component("user", ANY_NAME, "u-~")),
    ),
    case(
        DESCRIBE_QUOTAS,
        "the same type twice",
        _quotas(_component("user", EXACT, "u-~"), _component("user", EXACT, "v-~")),
    ),
    case(
        DESCRIBE_QUOTAS,
        "an address and a user",
        _quotas(_component("ip", EXACT, "127.0.0.1"), _component("user", EXACT, "u-~")),
    ),
    case(DESCRIBE_QUOTAS, "null components", _quotas(components=NULL)),
    case(ALTER_QUOTAS, "of a user", _set(USER, BYTES)),
    case(
        ALTER_QUOTAS,
        "of a user and a client",
        _set(_entity(user="u-~", client_id="c-~"), BYTES, ("consumer_byte_rate", MANY)),
    ),
    case(
        ALTER_QUOTAS,
        "a dry run",
        _set(USER, BYTES, validate_only=True),
        _quotas(_component("user", EXACT, "u-~")),
    ),
    case(
        ALTER_QUOTAS,
        "gone",
        LIMITED,
        _unset(USER, "producer_byte_rate"),
        ask(DESCRIBE_QUOTAS, components=[_component("user", EXACT, "u-~")], until={"entries": ()}),
    ),
    case(ALTER_QUOTAS, "gone before it was there", _unset(USER, "producer_byte_rate")),
    case(
        ALTER_QUOTAS,
        "an unknown quota",
        _set(USER, ("beers_per_minute", 2.0)),
        _set(USER, ("", 2.0)),
        _unset(USER, "beers_per_minute"),
    ),
    case(
        ALTER_QUOTAS,
        "values out of range",
        *(_set(USER, ("producer_byte_rate", value)) for value in (-1.0, 0.0, 0.5, 1e30)),
    ),
    case(
        ALTER_QUOTAS,
        "shares out of range",
        _set(USER, ("request_percentage", -1.0)),
        _set(USER, ("request_percentage", 0.5)),
        _set(USER, ("controller_mutation_rate", 0.5)),
    ),
    case(
        ALTER_QUOTAS,
        "an unknown type",
        _set(_entity(planet="mars"), BYTES),
        _set(_entity(user="u-~", planet="mars"), BYTES),
    ),
    case(ALTER_QUOTAS, "nobody", _set([], BYTES)),
    case(ALTER_QUOTAS, "an empty name", _set(_entity(user=""), BYTES, validate_only=True)),
    case(
        ALTER_QUOTAS, "the same type twice", _set(_entity(user="u-~") + _entity(user="v-~"), BYTES)
    ),
    case(
        ALTER_QUOTAS,
        "an address",
        _set(_entity(ip="10.1.2.3"), ("connection_creation_rate", 1e6), validate_only=True),
    ),
    case(
        ALTER_QUOTAS,
        "what is no address",
        _set(_entity(ip="not an address"), ("connection_creation_rate", 1e6), validate_only=True),
    ),
    case(
        ALTER_QUOTAS,
        "an address and a user",
        _set(
            _entity(ip="10.1.2.3", user="u-~"),
            ("connection_creation_rate", 1e6),
            validate_only=True,
        ),
    ),
    case(
        ALTER_QUOTAS,
        "quotas of another type",
        _set(_entity(ip="10.1.2.3"), BYTES, validate_only=True),
        _set(USER, ("connection_creation_rate", 5.0), validate_only=True),
    ),
    case(ALTER_QUOTAS, "the same quota twice", _set(USER, BYTES, ("producer_byte_rate", 2e12))),
    case(
        ALTER_QUOTAS,
        "the same user twice",
        ask(
            ALTER_QUOTAS,
            entries=[
                {"entity": USER, "ops": [{"key": "producer_byte_rate", "value": value}]}
                for value in (MANY, MANY + 1)
            ],
        ),
    ),
    case(
        ALTER_QUOTAS,
        "good and bad together",
        ask(
            ALTER_QUOTAS,
            entries=[
                {"entity": USER, "ops": [{"key": key, "value": MANY}]}
                for key in ("beers_per_minute",)
            ]
            + [
                {
                    "entity": _entity(user="v-~"),
                    "ops": [{"key": "producer_byte_rate", "value": MANY}],
                }
            ],
        ),
    ),
    case(ALTER_QUOTAS, "no changes", _set(USER)),
    case(ALTER_QUOTAS, "nothing", ask(ALTER_QUOTAS, entries=[])),
    case(ALTER_QUOTAS, "null entries", ask(ALTER_QUOTAS, entries=NULL)),
)

CASES: Final = QUOTA_CASES
