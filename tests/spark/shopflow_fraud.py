"""What looks wrong in a log of order events, in plain Python."""

from collections import defaultdict
from collections.abc import Sequence

from spark.tables.fraud import Rules
from tests.spark.shopflow import Event
from tests.spark.shopflow_answers import Verdicts


def alerts(events: Sequence[Event], found: Verdicts, rules: Rules) -> dict[str, int | None]:
    """Return the alerts by id, each with the number of payments that made it."""
    raised: dict[str, int | None] = {}
    paid: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        verdict = found.of[event.partition, event.offset]
        if verdict not in {"counted", "late"}:
            continue
        assert event.amount is not None
        if event.amount >= rules.large_amount:
            raised[f"large:{event.event_id}"] = None
        if verdict == "counted":
            paid[event.key].append(event)
            most = _most_around(event, paid[event.key], rules)
            if most >= rules.rapid_count:
                raised[f"rapid:{event.event_id}"] = most
    return raised


def _most_around(event: Event, paid: list[Event], rules: Rules) -> int:
    """Return the most payments in a span that ends with one of them and holds the event."""
    times = [each.event_time for each in paid]
    ends = [
        time for time in times if event.event_time <= time < event.event_time + rules.rapid_within
    ]
    return max(sum(end - rules.rapid_within < time <= end for time in times) for end in ends)
