"""Options of a read: Kafka's names and meanings, and what a log without brokers can do besides.

    subscribe | subscribePattern | assign   exactly one; as Spark's Kafka source takes them
    startingOffsets, endingOffsets          earliest, latest, or JSON {"topic": {"0": 17}};
                                            in JSON -2 is the earliest, -1 the latest
    startingTimestamp, endingTimestamp      ms: the first record of that time or later
    startingOffsetsByTimestamp,             JSON {"topic": {"0": 1700000000000}}: the same,
    endingOffsetsByTimestamp                for each partition
    startingOffsetsByTimestampStrategy      error (default) or latest, if no record is so late
    minPartitions                           as many tasks at least
    maxRecordsPerPartition                  records (offsets) of a task at most
    failOnDataLoss                          true (default) or false
    includeHeaders                          false (default) or true
    isolationLevel                          read_committed (default) or read_uncommitted
    fromTimestamp, untilTimestamp           ms: records of that time, wherever they are in the
                                            log; `until` is the first not wanted

Where both are given, a timestamp wins over offsets, as it does in Spark. An option that nobody
knows is refused: one that is misspelt would give other records than were asked for.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from spark.log_location import DATA, POSTGRES, STORE

EARLIEST: Final = -2
LATEST: Final = -1

LOCATION_OPTIONS: Final = frozenset((POSTGRES, STORE, DATA))
READ_OPTIONS: Final = frozenset(
    (
        *("subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets"),
        *("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp"),
        *("endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "minPartitions"),
        *("maxRecordsPerPartition", "failOnDataLoss", "includeHeaders", "isolationLevel"),
        *("fromTimestamp", "untilTimestamp"),
    )
)

OfPartitions = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Which partitions are read; one of the three is set.

    Attributes:
        names: topics, all partitions of each.
        pattern: of the whole name of a topic.
        partitions: these, and no others.
    """

    names: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None
    partitions: frozenset[tuple[str, int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One end of what is read, of each partition.

    Attributes:
        option: that said it; for messages.
        offset: of all partitions: EARLIEST or LATEST.
        offsets: by topic and partition, of all that are read; or EARLIEST, LATEST.
        timestamp_ms: of all partitions: their first record of that time or later.
        timestamps_ms: the same, by topic and partition.
    """

    option: str
    offset: int | None = None
    offsets: OfPartitions | None = None
    timestamp_ms: int | None = None
    timestamps_ms: OfPartitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a read was asked for.

    Attributes:
        latest_if_too_late: a starting timestamp behind the last record means the end.
        timestamps_ms: first timestamp wanted, and one past the last; None: no limit.
    """

    topics: Topics
    starting: Bound
    ending: Bound
    latest_if_too_late: bool
    min_partitions: int | None
    max_records: int | None
    fail_on_data_loss: bool
    include_headers: bool
    read_committed: bool
    timestamps_ms: tuple[int | None, int | None]

    @classmethod
    def of(
        cls,
        options: Mapping[str, str],
        *,
        streaming: bool = False,
        others: Collection[str] = (),
    ) -> "ReadOptions":
        """Return what options say; their names are told apart without regard to case.

        Args:
            options: of the reader.
            streaming: a query that goes on: it may start at the latest offset, which is its
                default, and has no end.
            others: names of options that are somebody else's to read.

        Raises:
            ValueError: one cannot be, or is unknown; the message names it.
        """
        given = {name.lower(): value for name, value in options.items()}
        _refuse_unknown(given, [*READ_OPTIONS, *LOCATION_OPTIONS, *others])
        starting = _bound(given, "starting", LATEST if streaming else EARLIEST)
        ending = _bound(given, "ending", LATEST)
        if not streaming:
            _refuse(starting, LATEST, "latest (-1)")
        elif ending != Bound(option="endingOffsets", offset=LATEST):
            raise ValueError(f"option {ending.option}: a streaming query has no end")
        _refuse(ending, EARLIEST, "earliest (-2)")
        return cls(
            topics=_topics(given),
            starting=starting,
            ending=ending,
            latest_if_too_late=_choice(
                given, "startingOffsetsByTimestampStrategy", ("error", "latest")
            )
            == "latest",
            min_partitions=_integer(given, "minPartitions", least=1),
            max_records=_integer(given, "maxRecordsPerPartition", least=1),
            fail_on_data_loss=_choice(given, "failOnDataLoss", ("true", "false")) == "true",
            include_headers=wants_headers(given),
            read_committed=_choice(given, "isolationLevel", ("read_committed", "read_uncommitted"))
            == "read_committed",
            timestamps_ms=(
                _integer(given, "fromTimestamp", least=None),
                _integer(given, "untilTimestamp", least=None),
            ),
        )


def wants_headers(options: Mapping[str, str]) -> bool:
    """Return whether there is a column of headers.

    Raises:
        ValueError: includeHeaders is neither true nor false.
    """
    given = {name.lower(): value for name, value in options.items()}
    return _choice(given, "includeHeaders", ("false", "true")) == "true"


def _refuse_unknown(given: Mapping[str, str], known: Collection[str]) -> None:
    names = {name.lower(): name for name in known}
    for name in given:
        if name in names:
            continue
        near = get_close_matches(name, names, n=1)
        hint = f"; did you mean {names[near[0]]}?" if near else ""
        raise ValueError(f"option {name} is not known to format streamhouse{hint}")


def _topics(given: Mapping[str, str]) -> Topics:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
    if len(chosen) != 1:
        raise ValueError("set exactly one of the options subscribe, subscribePattern and assign")
    value = given[chosen[0].lower()]
    match chosen[0]:
        case "subscribe":
            names = frozenset(name.strip() for name in value.split(",") if name.strip())
            if not names:
                raise ValueError("option subscribe: no topic is named")
            return Topics(names=names)
        case "subscribePattern":
            try:
                return Topics(pattern=re.compile(value))
            except re.error as error:
                raise ValueError(f"option subscribePattern: {error}") from error
        case _:
            return Topics(partitions=_assigned(value))


def _assigned(text: str) -> frozenset[tuple[str, int]]:
    form = 'option assign: use JSON like {"topic": [0, 1]}'
    try:
        topics = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(form) from error
    if not isinstance(topics, dict) or not all(isinstance(each, list) for each in topics.values()):
        raise ValueError(form)
    pairs = [(topic, number) for topic, numbers in topics.items() for number in numbers]
    if not pairs or not all(type(number) is int for _, number in pairs):
        raise ValueError(form)
    return frozenset(pairs)


def _bound(given: Mapping[str, str], end: str, default: int) -> Bound:
    """Return what the three options of one end say; the first of them that is there wins."""
    option = f"{end}Timestamp"
    if option.lower() in given:
        return Bound(option=option, timestamp_ms=_integer(given, option, least=0))
    option = f"{end}OffsetsByTimestamp"
    if option.lower() in given:
        return Bound(option=option, timestamps_ms=_of_partitions(given[option.lower()], option))
    option = f"{end}Offsets"
    value = given.get(option.lower())
    if value is None:
        return Bound(option=option, offset=default)
    word = value.strip().lower()
    if word in {"earliest", "latest"}:
        return Bound(option=option, offset=EARLIEST if word == "earliest" else LATEST)
    return Bound(option=option, offsets=_of_partitions(value, option))


def _of_partitions(text: str, option: str) -> OfPartitions:
    form = f'option {option}: use JSON like {{"topic": {{"0": 23}}}}'
    try:
        topics = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(form) from error
    if not isinstance(topics, dict) or not all(isinstance(each, dict) for each in topics.values()):
        raise ValueError(form)
    try:
        found = {
            (topic, int(number)): value
            for topic, numbers in topics.items()
            for number, value in numbers.items()
        }
    except ValueError as error:
        raise ValueError(form) from error
    if not all(type(value) is int and value >= EARLIEST for value in found.values()):
        raise ValueError(form)
    return found


def _refuse(bound: Bound, offset: int, word: str) -> None:
    """Refuse an end at which a bounded read would have nothing to read."""
    if bound.offset == offset or (bound.offsets and offset in bound.offsets.values()):
        raise ValueError(f"option {bound.option}: {word} cannot be there in a batch query")


def _integer(given: Mapping[str, str], option: str, *, least: int | None) -> int | None:
    value = given.get(option.lower())
    if value is None:
        return None
    try:
        number = int(value)
    except ValueError as error:
        raise ValueError(f"option {option}: {value!r} is no whole number") from error
    if least is not None and number < least:
        raise ValueError(f"option {option}: {number} is less than {least}")
    return number


def _choice(given: Mapping[str, str], option: str, choices: tuple[str, str]) -> str:
    """Return which of two it is; the first one is the default."""
    value = given.get(option.lower(), choices[0]).strip().lower()
    if value not in choices:
        raise ValueError(f"option {option}: {value!r} is neither {choices[0]} nor {choices[1]}")
    return value
