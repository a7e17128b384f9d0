"""The API table, and what an unexpected exception in a handler does.

Every API is one row here and one file in broker/apis; ApiVersions answers from this table, so what
is advertised is what works.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.static.protocol import Payload

from broker.apis import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k18_api_versions,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k24_add_partitions_to_txn,
    k25_add_offsets_to_txn,
    k26_end_txn,
    k27_write_txn_markers,
    k28_txn_offset_commit,
    k29_describe_acls,
    k30_create_acls,
    k31_delete_acls,
    k32_describe_configs,
    k33_alter_configs,
    k34_alter_replica_log_dirs,
    k35_describe_log_dirs,
    k37_create_partitions,
    k38_create_delegation_token,
    k39_renew_delegation_token,
    k40_expire_delegation_token,
    k41_describe_delegation_token,
    k42_delete_groups,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k45_alter_partition_reassignments,
    k46_list_partition_reassignments,
    k47_offset_delete,
    k48_describe_client_quotas,
    k49_alter_client_quotas,
    k50_describe_user_scram_credentials,
    k51_alter_user_scram_credentials,
    k55_describe_quorum,
    k57_update_features,
    k60_describe_cluster,
    k61_describe_producers,
    k64_unregister_broker,
    k65_describe_transactions,
    k66_list_transactions,
    k68_consumer_group_heartbeat,
    k69_consumer_group_describe,
    k71_get_telemetry_subscriptions,
    k72_push_telemetry,
    k74_list_config_resources,
    k75_describe_topic_partitions,
)
from broker.connection import CloseConnection, Connection
from broker.metrics import BrokerMetrics
from broker.ordered_answers import Answer, Reply
from broker.refusals import CONDITIONS, code_of
from broker.requests import Request
from broker.services import Services
from protocol.codec import encode_response, error_response, read_request_header
from protocol.errors import MalformedRequest, UnsupportedVersion

log = structlog.get_logger()

Later = Awaitable[Payload] | Awaitable[Answer]
"""For what may take long: the connection's next requests begin meanwhile."""

Handler = Callable[[Request], Awaitable[Payload | Answer | Later]]


@dataclass(frozen=True, slots=True)
class Api:
    """One row: the versions that are advertised, and who answers them."""

    key: int
    low: int
    high: int
    handle: Handler

    @property
    def name(self) -> str:
        return api_key_map[self.key]


APIS: Final = {
    api.key: api
    for api in (
        Api(0, 0, 13, k00_produce.handle),  # v0-2 are refused; KAFKA-18659 tells why they are named
        Api(1, 4, 18, k01_fetch.handle),
        Api(2, 1, 11, k02_list_offsets.handle),
        Api(3, 0, 13, k03_metadata.handle),
        Api(8, 2, 10, k08_offset_commit.handle),
        Api(9, 1, 10, k09_offset_fetch.handle),
        Api(10, 0, 6, k10_find_coordinator.handle),
        Api(11, 0, 9, k11_join_group.handle),
        Api(12, 0, 4, k12_heartbeat.handle),
        Api(13, 0, 5, k13_leave_group.handle),
        Api(14, 0, 5, k14_sync_group.handle),
        Api(15, 0, 6, k15_describe_groups.handle),
        Api(16, 0, 5, k16_list_groups.handle),
        Api(18, 0, 4, k18_api_versions.handle),
        Api(19, 2, 7, k19_create_topics.handle),
        Api(20, 1, 6, k20_delete_topics.handle),
        Api(21, 0, 2, k21_delete_records.handle),
        Api(22, 0, 5, k22_init_producer_id.handle),
        Api(23, 2, 4, k23_offset_for_leader_epoch.handle),
        Api(24, 0, 5, k24_add_partitions_to_txn.handle),
        Api(25, 0, 4, k25_add_offsets_to_txn.handle),
        Api(26, 0, 5, k26_end_txn.handle),
        Api(27, 1, 2, k27_write_txn_markers.handle),
        Api(28, 0, 5, k28_txn_offset_commit.handle),
        Api(29, 1, 3, k29_describe_acls.handle),
        Api(30, 1, 3, k30_create_acls.handle),
        Api(31, 1, 3, k31_delete_acls.handle),
        Api(32, 1, 4, k32_describe_configs.handle),
        Api(33, 0, 2, k33_alter_configs.handle),
        Api(34, 1, 2, k34_alter_replica_log_dirs.handle),
        Api(35, 1, 5, k35_describe_log_dirs.handle),
        Api(37, 0, 3, k37_create_partitions.handle),
        Api(38, 1, 3, k38_create_delegation_token.handle),
        Api(39, 1, 2, k39_renew_delegation_token.handle),
        Api(40, 1, 2, k40_expire_delegation_token.handle),
        Api(41, 1, 3, k41_describe_delegation_token.handle),
        Api(42, 0, 2, k42_delete_groups.handle),
        Api(43, 0, 2, k43_elect_leaders.handle),
        Api(44, 0, 1, k44_incremental_alter_configs.handle),
        Api(45, 0, 1, k45_alter_partition_reassignments.handle),
        Api(46, 0, 0, k46_list_partition_reassignments.handle),
        Api(47, 0, 0, k47_offset_delete.handle),
        Api(48, 0, 1, k48_describe_client_quotas.handle),
        Api(49, 0, 1, k49_alter_client_quotas.handle),
        Api(50, 0, 0, k50_describe_user_scram_credentials.handle),
        Api(51, 0, 0, k51_alter_user_scram_credentials.handle),
        Api(55, 0, 2, k55_describe_quorum.handle),
        Api(57, 0, 2, k57_update_features.handle),
        Api(60, 0, 2, k60_describe_cluster.handle),
        Api(61, 0, 0, k61_describe_producers.handle),
        Api(64, 0, 0, k64_unregister_broker.handle),
        Api(65, 0, 0, k65_describe_transactions.handle),
        Api(66, 0, 2, k66_list_transactions.handle),
        Api(68, 0, 1, k68_consumer_group_heartbeat.handle),
        Api(69, 0, 1, k69_consumer_group_describe.handle),
        Api(71, 0, 0, k71_get_telemetry_subscriptions.handle),
        Api(72, 0, 0, k72_push_telemetry.handle),
        Api(74, 0, 1, k74_list_config_resources.handle),
        Api(75, 0, 0, k75_describe_topic_partitions.handle),
    )
}


def is_supported(api_key: int, version: int) -> bool:
    api = APIS.get(api_key)
    if api is None or not api.low <= version <= api.high:
        return False
    return api_key != k00_produce.API_KEY or version >= k00_produce.OLDEST


class Dispatch:
    """Finds the handler of a frame and turns what it returns, or raises, into an answer."""

    def __init__(self, services: Services, metrics: BrokerMetrics) -> None:
        self._services = services
        self._metrics = metrics
        self._observers = {key: metrics.observer(api.name) for key, api in APIS.items()}

    async def dispatch(
        self, frame: bytearray, connection: Connection, give_back: Callable[[], None]
    ) -> Reply:
        """Answer one frame, now or by an awaitable; `give_back` stops counting its memory.

        Raises:
            CloseConnection, MalformedRequest, UnsupportedVersion: it gets no answer.
        """
        began_s, size = time.monotonic(), len(frame)
        header = read_request_header(frame, is_supported)
        quota, quotas = None, self._services.quotas
        if quotas.active:
            api = APIS[header.api_key].name
            quota = quotas.use(connection, header.client_id, api, size)
        request = Request(
            header=header,
            frame=frame,
            services=self._services,
            peer=connection.peer,
            session=connection.session,
            give_back=give_back,
            quota=quota,
        )
        reply = await self._guarded(request, APIS[header.api_key].handle(request))
        if isinstance(reply, Awaitable):
            return self._later(request, reply, began_s, size)
        self._observers[header.api_key](size, time.monotonic() - began_s)
        return reply

    async def _later(
        self, request: Request, reply: Awaitable[Payload | Answer], began_s: float, size: int
    ) -> Answer:
        answer = await self._guarded(request, reply)
        assert not isinstance(answer, Awaitable)  # only a handler's first result may be one
        observe = self._observers[request.header.api_key]
        observe(size, time.monotonic() - began_s)
        return answer

    async def _guarded(
        self, request: Request, work: Awaitable[Payload | Answer | Later]
    ) -> Answer | Later:
        header, quota = request.header, request.quota
        try:
            if quota is not None:
                result = await quota.metered(work)
                return result if isinstance(result, Awaitable) else quota.answer(header, result)
            result = await work
            if result is None or isinstance(result, bytes | Sequence | Awaitable):
                return result
            return encode_response(header.correlation_id, result)
        except (CloseConnection, MalformedRequest, UnsupportedVersion):
            raise
        except CONDITIONS as condition:
            return self._error(request, code_of(condition))
        except Exception:  # here and in group_writes.py: a bug costs this request, not the broker
            log.exception(
                "bug in a handler",
                api=APIS[header.api_key].name,
                version=header.api_version,
                client_id=header.client_id,
                peer=request.peer,
            )
            return self._error(request, ErrorCode.unknown_server_error)

    def _error(self, request: Request, code: ErrorCode) -> Answer:
        header = request.header
        self._metrics.error(APIS[header.api_key].name, code.name)
        response = error_response(header.api_key, header.api_version, code)
        if response is None:
            raise CloseConnection(f"{APIS[header.api_key].name} has no place for {code.name}")
        if request.quota is not None:
            return request.quota.answer(header, response)
        return encode_response(header.correlation_id, response)
