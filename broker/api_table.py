"""The API table: every API that is advertised, in which versions, who answers it, and who may ask.

Every API is one row here and one file in broker/apis; ApiVersions answers from this table, so what
is advertised is what works.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from kio.schema.index import api_key_map

from broker.api_guards import audited, on_cluster
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
    k17_sasl_handshake,
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
    k36_sasl_authenticate,
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
from broker.handlers import Handler, Refuse
from broker.security.audit_changes import CHANGES
from protocol.acl import Operation


class Access(Enum):
    """What ACLs have to do with a request that is not about the cluster as a whole.

    Attributes:
        OPEN: nothing; whoever is connected may ask it.
        BY_RESOURCE: the handler asks for each resource that the request names.
    """

    OPEN = auto()
    BY_RESOURCE = auto()


@dataclass(frozen=True, slots=True)
class Api:
    """One row: the versions that are advertised, who answers them, and who may ask.

    Attributes:
        access: an operation is one on the cluster, without which nothing of it is answered.
        refuse: what is answered then, if an empty answer with an error code will not do.
        gradual: whether the handler goes through any number of elements without keeping the event
            loop, and waits for no client meanwhile; others refuse what cannot be decoded at once.
    """

    key: int
    low: int
    high: int
    handle: Handler
    access: Access | Operation
    refuse: Refuse | None = None
    gradual: bool = False

    @property
    def name(self) -> str:
        return api_key_map[self.key]


APIS: Final = {
    api.key: api
    for api in (
        Api(
            0, 0, 13, k00_produce.handle, Access.BY_RESOURCE
        ),  # v0-2 are refused; KAFKA-18659 tells why they are named
        Api(1, 4, 18, k01_fetch.handle, Access.BY_RESOURCE),
        Api(2, 1, 11, k02_list_offsets.handle, Access.BY_RESOURCE, gradual=True),
        Api(3, 0, 13, k03_metadata.handle, Access.BY_RESOURCE, gradual=True),
        Api(8, 2, 10, k08_offset_commit.handle, Access.BY_RESOURCE, gradual=True),
        Api(9, 1, 10, k09_offset_fetch.handle, Access.BY_RESOURCE, gradual=True),
        Api(10, 0, 6, k10_find_coordinator.handle, Access.BY_RESOURCE, gradual=True),
        Api(11, 0, 9, k11_join_group.handle, Access.BY_RESOURCE),
        Api(12, 0, 4, k12_heartbeat.handle, Access.BY_RESOURCE),
        Api(13, 0, 5, k13_leave_group.handle, Access.BY_RESOURCE),
        Api(14, 0, 5, k14_sync_group.handle, Access.BY_RESOURCE),
        Api(15, 0, 6, k15_describe_groups.handle, Access.BY_RESOURCE),
        Api(16, 0, 5, k16_list_groups.handle, Access.BY_RESOURCE),
        Api(17, 0, 1, k17_sasl_handshake.handle, Access.OPEN),
        Api(18, 0, 4, k18_api_versions.handle, Access.OPEN),
        Api(19, 2, 7, k19_create_topics.handle, Access.BY_RESOURCE, gradual=True),
        Api(20, 1, 6, k20_delete_topics.handle, Access.BY_RESOURCE, gradual=True),
        Api(21, 0, 2, k21_delete_records.handle, Access.BY_RESOURCE, gradual=True),
        Api(22, 0, 5, k22_init_producer_id.handle, Access.BY_RESOURCE),
        Api(23, 2, 4, k23_offset_for_leader_epoch.handle, Access.BY_RESOURCE, gradual=True),
        Api(24, 0, 5, k24_add_partitions_to_txn.handle, Access.BY_RESOURCE, gradual=True),
        Api(25, 0, 4, k25_add_offsets_to_txn.handle, Access.BY_RESOURCE),
        Api(26, 0, 5, k26_end_txn.handle, Access.BY_RESOURCE),
        Api(27, 1, 2, k27_write_txn_markers.handle, Access.BY_RESOURCE, gradual=True),
        Api(28, 0, 5, k28_txn_offset_commit.handle, Access.BY_RESOURCE, gradual=True),
        Api(29, 1, 3, k29_describe_acls.handle, Operation.DESCRIBE),
        Api(30, 1, 3, k30_create_acls.handle, Operation.ALTER, k30_create_acls.refuse),
        Api(31, 1, 3, k31_delete_acls.handle, Operation.ALTER, k31_delete_acls.refuse),
        Api(32, 1, 4, k32_describe_configs.handle, Access.BY_RESOURCE, gradual=True),
        Api(33, 0, 2, k33_alter_configs.handle, Access.BY_RESOURCE, gradual=True),
        Api(
            *(34, 1, 2, k34_alter_replica_log_dirs.handle),
            Operation.ALTER,
            k34_alter_replica_log_dirs.refuse,
            gradual=True,
        ),
        Api(
            *(35, 1, 5, k35_describe_log_dirs.handle),
            Operation.DESCRIBE,
            k35_describe_log_dirs.refuse,
        ),
        Api(36, 0, 2, k36_sasl_authenticate.handle, Access.OPEN),
        Api(37, 0, 3, k37_create_partitions.handle, Access.BY_RESOURCE, gradual=True),
        Api(38, 1, 3, k38_create_delegation_token.handle, Access.BY_RESOURCE),
        Api(39, 1, 2, k39_renew_delegation_token.handle, Access.BY_RESOURCE),
        Api(40, 1, 2, k40_expire_delegation_token.handle, Access.BY_RESOURCE),
        Api(41, 1, 3, k41_describe_delegation_token.handle, Access.BY_RESOURCE),
        Api(42, 0, 2, k42_delete_groups.handle, Access.BY_RESOURCE),
        Api(
            *(43, 0, 2, k43_elect_leaders.handle),
            Operation.ALTER,
            k43_elect_leaders.refuse,
            gradual=True,
        ),
        Api(44, 0, 1, k44_incremental_alter_configs.handle, Access.BY_RESOURCE, gradual=True),
        Api(
            *(45, 0, 1, k45_alter_partition_reassignments.handle),
            Operation.ALTER,
            k45_alter_partition_reassignments.refuse,
            gradual=True,
        ),
        Api(46, 0, 0, k46_list_partition_reassignments.handle, Operation.DESCRIBE),
        Api(47, 0, 0, k47_offset_delete.handle, Access.BY_RESOURCE, gradual=True),
        Api(
            *(48, 0, 1, k48_describe_client_quotas.handle),
            Operation.DESCRIBE_CONFIGS,
            k48_describe_client_quotas.refuse,
        ),
        Api(
            *(49, 0, 1, k49_alter_client_quotas.handle),
            Operation.ALTER_CONFIGS,
            k49_alter_client_quotas.refuse,
            gradual=True,
        ),
        Api(50, 0, 0, k50_describe_user_scram_credentials.handle, Operation.DESCRIBE),
        Api(
            *(51, 0, 0, k51_alter_user_scram_credentials.handle),
            Operation.ALTER,
            k51_alter_user_scram_credentials.refuse,
        ),
        Api(55, 0, 2, k55_describe_quorum.handle, Operation.DESCRIBE),
        Api(57, 0, 2, k57_update_features.handle, Operation.ALTER),
        Api(60, 0, 2, k60_describe_cluster.handle, Access.BY_RESOURCE),
        Api(61, 0, 0, k61_describe_producers.handle, Access.BY_RESOURCE, gradual=True),
        Api(64, 0, 0, k64_unregister_broker.handle, Operation.ALTER),
        Api(65, 0, 0, k65_describe_transactions.handle, Access.BY_RESOURCE, gradual=True),
        Api(66, 0, 2, k66_list_transactions.handle, Access.BY_RESOURCE),
        Api(68, 0, 1, k68_consumer_group_heartbeat.handle, Access.BY_RESOURCE),
        Api(69, 0, 1, k69_consumer_group_describe.handle, Access.BY_RESOURCE),
        Api(71, 0, 0, k71_get_telemetry_subscriptions.handle, Access.OPEN),
        Api(72, 0, 0, k72_push_telemetry.handle, Access.OPEN),
        Api(74, 0, 1, k74_list_config_resources.handle, Operation.DESCRIBE_CONFIGS),
        Api(75, 0, 0, k75_describe_topic_partitions.handle, Access.BY_RESOURCE, gradual=True),
    )
}


def _handler(api: Api) -> Handler:
    handle = audited(api.handle) if api.key in CHANGES else api.handle
    if isinstance(api.access, Operation):
        return on_cluster(handle, api.access, api.refuse)
    return handle


HANDLERS: Final = {key: _handler(api) for key, api in APIS.items()}
"""Who answers a request of each API, with what is done around it."""


def is_supported(api_key: int, version: int) -> bool:
    api = APIS.get(api_key)
    if api is None or not api.low <= version <= api.high:
        return False
    return api_key != k00_produce.API_KEY or version >= k00_produce.OLDEST
