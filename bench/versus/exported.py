"""What this broker tells of itself at /metrics."""

import re
import urllib.request
from collections.abc import Mapping
from typing import Final

from bench.results import MeasurementFailed
from bench.versus.running import Running

HTTP_S: Final = 10.0


def exported(running: Running, metrics: Mapping[str, str]) -> Mapping[str, float]:
    """Return the values of metrics without labels, added up over all workers.

    Args:
        running: one of our brokers.
        metrics: by the names that the values shall have.

    Raises:
        MeasurementFailed: one of them is not there.
    """
    values = dict.fromkeys(metrics, 0.0)
    for address in running.http.split(","):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=HTTP_S) as answer:
            page = answer.read().decode()
        for name, metric in metrics.items():
            found = re.search(rf"^{metric} (\S+)$", page, re.MULTILINE)
            if found is None:
                raise MeasurementFailed(f"no {metric} at {address}")
            values[name] += float(found[1])
    return values
