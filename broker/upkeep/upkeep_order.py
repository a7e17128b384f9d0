"""What a broker tells its upkeep process when it starts it: one line of JSON on its standard input.

Not the command line and not the environment: a DSN has a password, and what was given in a file or
a flag has to count there, too.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from storage.config import PostgresConfig, UpkeepConfig

if TYPE_CHECKING:  # at run time half of what the process would import, for nothing that it uses
    from broker.config import Settings
    from broker.configs.broker_configs import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOrder:
    """All that the process is started with.

    Attributes:
        set: broker configs that were set, by Kafka's names.
    """

    dsn: str = field(repr=False)
    store_url: str
    pool: PostgresConfig
    upkeep: UpkeepConfig
    set: Mapping[str, str]

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def read_order(line: bytes) -> UpkeepOrder:
    """Return the order that `to_line` has written."""
    values = json.loads(line)
    return UpkeepOrder(
        dsn=values["dsn"],
        store_url=values["store_url"],
        pool=PostgresConfig(**values["pool"]),
        upkeep=UpkeepConfig(**values["upkeep"]),
        set=values["set"],
    )


def upkeep_order(settings: "Settings", config: "BrokerConfig", dsn: str) -> UpkeepOrder | None:
    """Return what the upkeep process of this broker is started with; None if it has none.

    Of the workers of one command the first has it.
    """
    if settings.worker or not settings.upkeep.enabled:
        return None
    return UpkeepOrder(
        dsn=dsn,
        store_url=settings.store_url,
        pool=settings.pool,
        upkeep=settings.upkeep,
        set=dict(config.explicit),
    )
