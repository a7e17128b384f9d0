"""What the corpus is made of: cases, each a short sequence of steps with state of its own.

A case belongs to one API and is replayed at its lowest and at its highest version. Steps of other
APIs use the highest version that both brokers have.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.oracle.wire_values import Saved

MAIN: Final = "main"

PATIENT_MS: Final = 120_000
"""Times that requests give a broker, unless a case is about them: no busy machine takes as long."""

Path = str
"""Names and indexes through an answer, joined by dots: "topics.0.topic_id"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request whose answer is compared.

    Attributes:
        version: instead of the one that the case is replayed at.
        save: names for values of the answer.
        on: the connection, by a name of the case's choosing; behind @ the address it comes from.
        until: ask again until the answer has these values, for what takes a moment to be seen
            everywhere; what comes last is compared.
        own: compare only those elements of these arrays that name something of this case.
        answered: False for requests that get no answer.
        change: what is done to the finished frame, without its size, which is made right again.
    """

    api_key: int
    values: Mapping[str, Any]
    version: int | None = None
    save: Mapping[str, Path] = field(default_factory=dict)
    on: str = MAIN
    until: Mapping[Path, Any] = field(default_factory=dict)
    own: Sequence[str] = ()
    answered: bool = True
    change: Callable[[bytes], bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A request that has to succeed; it is sent again until it does. Its answer is not compared."""

    api_key: int
    values: Mapping[str, Any]
    version: int | None = None
    save: Mapping[str, Path] = field(default_factory=dict)
    on: str = MAIN
    until: Mapping[Path, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Send a request that is not answered before something else happens."""

    asked: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Take the answer to what was begun on a connection."""

    on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """A frame that is no proper request.

    Attributes:
        content: from the request header on.
        size: what the frame claims to hold, in bytes, if that is not so.
    """

    content: bytes
    size: int | None = None
    on: str = MAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Steps that are done once for all cases that begin with them, and that none of them undoes.

    What they make has the same names in each of these cases.
    """

    name: str
    steps: tuple[Given, ...]


Step = Ask | Given | Begin | Finish | Bytes | Common


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of the corpus.

    Attributes:
        name: unique within its API.
        versions: instead of the lowest and the highest that both brokers have.
        alone: it changes or reads what other cases see, so nothing runs at the same time.
    """

    api_key: int
    name: str
    steps: tuple[Step, ...]
    versions: tuple[int, ...] | None = None
    alone: bool = False


def case(
    api_key: int,
    name: str,
    *steps: Step | Sequence[Step],
    versions: tuple[int, ...] | None = None,
    alone: bool = False,
) -> Case:
    """Return a case; steps that belong together may come as a sequence."""
    flat: list[Step] = []
    for step in steps:
        flat += step if isinstance(step, Sequence) else (step,)
    return Case(api_key=api_key, name=name, steps=tuple(flat), versions=versions, alone=alone)


def ask(
    api_key: int,
    *,
    at: int | None = None,
    save: Mapping[str, Path] | None = None,
    on: str = MAIN,
    until: Mapping[Path, Any] | None = None,
    own: Sequence[str] = (),
    answered: bool = True,
    change: Callable[[bytes], bytes] | None = None,
    **values: Any,
) -> Ask:
    """Return a request whose answer is compared; `values` are its fields."""
    return Ask(
        api_key=api_key,
        values=values,
        version=at,
        save=save or {},
        on=on,
        until=until or {},
        own=own,
        answered=answered,
        change=change,
    )


def given(
    api_key: int,
    *,
    at: int | None = None,
    save: Mapping[str, Path] | None = None,
    on: str = MAIN,
    until: Mapping[Path, Any] | None = None,
    **values: Any,
) -> Given:
    """Return a request that has to succeed."""
    return Given(
        api_key=api_key, values=values, version=at, save=save or {}, on=on, until=until or {}
    )


def topic(name: str = "t-~", partitions: int = 1, **configs: str) -> tuple[Given, ...]:
    """Create a topic, wait until its leaders serve, and save its id under its name."""
    create = given(
        19,
        topics=[
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": 1,
                "configs": [
                    {"name": key.replace("_", "."), "value": value}
                    for key, value in configs.items()
                ],
            }
        ],
        timeout=PATIENT_MS,
    )
    leaders = {f"topics.0.partitions.{at}.error_code": 0 for at in range(partitions)}
    wait = given(
        3,
        topics=[{"name": name}],
        allow_auto_topic_creation=False,
        save={name: "topics.0.topic_id"},
        until={"topics.0.error_code": 0} | leaders,
    )
    ends = [{"partition_index": at, "timestamp": -1} for at in range(partitions)]
    serve = given(2, replica_id=-1, topics=[{"name": name, "partitions": ends}])
    return create, wait, serve


COMMON: Final = Common(name="common", steps=topic())
"""An empty topic t-~ that stays so."""

PAIR: Final = Common(name="pair", steps=topic(partitions=2))
"""One with two partitions."""


def topic_id(name: str = "t-~") -> Saved:
    """Return the id of a topic that was created by `topic`."""
    return Saved(name)
