"""The table of access: every API, what it asks ACLs for, and how it refuses."""

from typing import Final

from tests.broker.security.access_cluster import CLUSTER_ROWS
from tests.broker.security.access_data import DATA_ROWS
from tests.broker.security.access_groups import GROUP_ROWS
from tests.broker.security.access_rows import Row
from tests.broker.security.access_topics import TOPIC_ROWS
from tests.broker.security.access_transactions import TRANSACTION_ROWS

OPEN_ROWS: Final = (
    Row(api_key=17, values={"mechanism": "PLAIN"}),
    Row(api_key=18, values={"client_software_name": "a", "client_software_version": "1"}),
    Row(api_key=36, values={"auth_bytes": b"\0u\0p"}),
    Row(api_key=71),
    Row(api_key=72),
)
"""Whoever is connected may ask them."""

TOKEN_ROWS: Final = (
    Row(api_key=38, values={"max_lifetime": -1}),
    Row(api_key=39, values={"hmac": b"no token", "renew_period": 1000}),
    Row(api_key=40, values={"hmac": b"no token", "expiry_time_period": -1}),
    Row(api_key=41, values={"owners": None}),
)
"""There are no tokens here, for nobody."""

ROWS: Final = (
    *DATA_ROWS,
    *GROUP_ROWS,
    *TRANSACTION_ROWS,
    *TOPIC_ROWS,
    *CLUSTER_ROWS,
    *OPEN_ROWS,
    *TOKEN_ROWS,
)
