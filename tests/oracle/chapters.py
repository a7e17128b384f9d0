"""All calls, in the order in which they are made; a chapter needs nothing of another one."""

import re
from collections.abc import Sequence
from typing import Final

from tests.oracle import (
    calls_cluster,
    calls_configs,
    calls_groups,
    calls_quotas,
    calls_records,
    calls_topics,
    calls_transactions,
)
from tests.oracle.calls import Call

CHAPTERS: Final = (
    calls_topics.CALLS,
    calls_records.CALLS,
    calls_groups.CALLS,
    calls_transactions.CALLS,
    calls_configs.CALLS,
    calls_quotas.CALLS,
    calls_cluster.CALLS,
)


def chosen_calls(only: str) -> Sequence[Call]:
    """Return the calls whose names match, and those that they need.

    Args:
        only: a regular expression; empty for all calls.
    """
    chosen: list[Call] = []
    for chapter in CHAPTERS:
        if any(re.search(only, call.name) for call in chapter):
            chosen += [call for call in chapter if call.given or re.search(only, call.name)]
    return chosen
