"""Quotas of users, clients and addresses, and the SCRAM credentials that users log in with."""

from typing import Final

from tests.oracle.calls import calls_of

_configs: Final = calls_of("configs")


_CLIENT: Final = "--entity-type clients --entity-name $run-client"
_USER: Final = "--entity-type users --entity-name $run-user"
_ADDRESS: Final = "--entity-type ips --entity-name 192.0.2.1"
_BOTH: Final = f"{_USER} {_CLIENT}"

CALLS: Final = (
    _configs(
        "quotas-client",
        f"{_CLIENT} --alter --add-config producer_byte_rate=1048576,consumer_byte_rate=2097152",
        "^Completed updating",
    ),
    _configs("quotas-client-describe", f"{_CLIENT} --describe", "producer_byte_rate"),
    _configs(
        "quotas-user", f"{_USER} --alter --add-config request_percentage=50", "^Completed updating"
    ),
    _configs("quotas-user-describe", f"{_USER} --describe", "request_percentage"),
    _configs(
        "quotas-both",
        f"{_BOTH} --alter --add-config controller_mutation_rate=10",
        "^Completed updating",
    ),
    _configs("quotas-both-describe", f"{_BOTH} --describe", "controller_mutation_rate"),
    _configs(
        "quotas-default-user",
        "--entity-type users --entity-default --alter --add-config producer_byte_rate=4194304",
        "^Completed updating",
    ),
    _configs("quotas-users-describe", "--entity-type users --describe", "default user"),
    _configs(
        "quotas-default-client",
        "--entity-type clients --entity-default --alter --add-config consumer_byte_rate=4194304",
        "^Completed updating",
    ),
    _configs("quotas-clients-describe", "--entity-type clients --describe", "default client"),
    _configs(
        "quotas-address",
        f"{_ADDRESS} --alter --add-config connection_creation_rate=100",
        "^Completed updating",
    ),
    _configs("quotas-addresses-describe", "--entity-type ips --describe", "192.0.2.1"),
    _configs(
        "quotas-default-address",
        "--entity-type ips --entity-default --alter --add-config connection_creation_rate=200",
        "^Completed updating",
    ),
    _configs(
        "quotas-users-and-clients",
        "--entity-type users --entity-type clients --describe",
        "controller_mutation_rate",
    ),
    _configs(
        "quotas-client-unknown",
        "--entity-type clients --entity-name $run-no --describe",
        "exit code 0",
    ),
    _configs(
        "quotas-odd-name",
        f"{_CLIENT} --alter --add-config odd_rate=1",
        "Unexpected config names",
        code=1,
    ),
    _configs(
        "quotas-odd-name-deleted",
        f"{_CLIENT} --alter --delete-config odd_rate",
        "Unexpected config names",
        code=1,
    ),
    _configs(
        "quotas-bad-value",
        f"{_CLIENT} --alter --add-config producer_byte_rate=fast",
        "Cannot parse quota",
        code=1,
    ),
    _configs(
        "quotas-negative",
        f"{_CLIENT} --alter --add-config producer_byte_rate=-1",
        "InvalidRequestException",
        code=1,
    ),
    _configs(
        "quotas-wrong-entity",
        f"{_ADDRESS} --alter --add-config producer_byte_rate=1",
        "Unexpected config names",
        code=1,
    ),
    _configs(
        "quotas-bad-address",
        "--entity-type ips --entity-name no.such.host.invalid"
        " --alter --add-config connection_creation_rate=1",
        "must be a valid IP",
        code=1,
    ),
    _configs(
        "quotas-client-delete",
        f"{_CLIENT} --alter --delete-config producer_byte_rate,consumer_byte_rate",
        "^Completed updating",
    ),
    _configs("quotas-client-describe-deleted", f"{_CLIENT} --describe", "exit code 0"),
    _configs(
        "quotas-delete-unset",
        f"{_CLIENT} --alter --delete-config producer_byte_rate",
        "Invalid config",
        code=1,
    ),
    _configs(
        "quotas-default-user-delete",
        "--entity-type users --entity-default --alter --delete-config producer_byte_rate",
        "^Completed updating",
    ),
    _configs(
        "scram-alter",
        f"{_USER} --alter --add-config 'SCRAM-SHA-256=[iterations=8192,password=secret]'",
        "^Completed updating",
    ),
    _configs("scram-describe", f"{_USER} --describe", "SCRAM-SHA-256"),
    _configs("scram-describe-all", "--entity-type users --describe", "SCRAM-SHA-256"),
    _configs(
        "scram-describe-unknown",
        "--entity-type users --entity-name $run-no --describe",
        "exit code 0",
    ),
    _configs(
        "scram-too-few-iterations",
        f"{_USER} --alter --add-config 'SCRAM-SHA-256=[iterations=10,password=secret]'",
        "less than the minimum",
        code=1,
    ),
    _configs(
        "scram-with-quota",
        f"{_USER} --alter --add-config 'SCRAM-SHA-256=[password=secret],producer_byte_rate=1'",
        "Cannot alter both",
        code=1,
    ),
    _configs(
        "scram-alter-second",
        f"{_USER} --alter --add-config 'SCRAM-SHA-512=[password=secret]'",
        "^Completed updating",
    ),
    _configs(
        "scram-delete", f"{_USER} --alter --delete-config SCRAM-SHA-256", "^Completed updating"
    ),
    _configs(
        "scram-delete-again",
        f"{_USER} --alter --delete-config SCRAM-SHA-256",
        "ResourceNotFoundException",
        code=1,
    ),
    _configs("scram-describe-deleted", f"{_USER} --describe", "SCRAM-SHA-512"),
    _configs("scram-delete-second", f"{_USER} --alter --delete-config SCRAM-SHA-512", "^Completed"),
)
