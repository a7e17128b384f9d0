"""What tests of SQL know of the orders that they ask for."""

from collections.abc import Callable

from pyspark.sql import DataFrame

NOON_MS = 1_750_000_000_000
"""When order 0 was made; the others follow a second apart."""

Ask = Callable[..., DataFrame]
"""Plans a query."""
