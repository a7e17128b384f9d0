"""Log end offsets from a broker's metrics page; the Kafka protocol has no request for them.

LEO = high watermark + records in the write buffer of the owning broker: acknowledged to nobody,
readable by nobody, interesting to whoever wonders where a message is.
"""

import re
from collections.abc import Collection
from http.client import OK
from typing import Final

from streamctl.broker_http import HttpRefused, HttpUnreachable, get_page
from streamctl.group_state import PartitionName

GAUGE: Final = "streamhouse_partition_log_end_offset"
_TIMEOUT_S: Final = 2.0

# Topic names need no escapes, so a sample of ours is read without a parser for all of Prometheus.
_SAMPLE = re.compile(
    rf"^{GAUGE}\{{(?P<labels>[^}}]*)\}}[ \t]+(?P<value>[0-9][0-9.eE+]*)[ \t]*$", re.MULTILINE
)
_LABEL = re.compile(r'([a-z_]+)="([^"]*)"')


def log_end_offsets(http: str, topics: Collection[str]) -> dict[PartitionName, int]:
    """Return the LEO of those partitions of topics that one of the brokers owns.

    Args:
        http: HOST:PORT of one or more brokers, separated by commas.
        topics: their names; a broker tells of all topics at once, however few are asked for.

    Returns:
        By partition; none of a broker that does not answer with metrics.

    Raises:
        UsageError: `http` is something else.
    """
    ends: dict[PartitionName, int] = {}
    for address in http.split(","):
        for match in _SAMPLE.finditer(_metrics_page(address.strip())):
            labels = dict(_LABEL.findall(match["labels"]))
            if labels.get("topic") in topics and labels.get("partition", "").isdecimal():
                partition = labels["topic"], int(labels["partition"])
                end = int(float(match["value"]))
                ends[partition] = max(end, ends.get(partition, 0))  # who owned it has an older one
    return ends


def _metrics_page(http: str) -> str:
    try:
        status, page = get_page(http, "/metrics", answer_s=_TIMEOUT_S)
    except (HttpUnreachable, HttpRefused):
        return ""
    return page if status == OK else ""
