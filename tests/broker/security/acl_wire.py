"""The ACL and config APIs as tests ask them."""

from typing import Any

from kio.schema.errors import ErrorCode

from broker.api_table import APIS
from tests.broker.admin.wire import Api, Wire
from tests.broker.security.cluster_requests import CREATION, FILTER

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NONE, DENIED = ErrorCode.none, ErrorCode.cluster_authorization_failed
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 2, 3, 4, 5, 6, 7
ALL, READ, WRITE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 7, 8, 10, 11
DENY, ALLOW = 2, 3


def create(wire: Wire, *several: dict[str, Any], version: int = 3, **one: Any) -> list[ErrorCode]:
    api = Api(30, version)
    creations = tuple(api.part("AclCreation", **{**CREATION, **each}) for each in several or (one,))
    results = wire.ask(api.request(creations=creations)).results
    assert all(bool(each.error_message) == bool(each.error_code.value) for each in results)
    return [each.error_code for each in results]


Described = set[tuple[int, int, str, str, str, int, int]]


def describe(wire: Wire, *, version: int = 3, **wanted: Any) -> Described:
    answer = wire.ask(Api(29, version).request(**{**FILTER, **wanted}))
    assert answer.error_code is NONE
    found = [
        (
            *(resource.resource_type, resource.pattern_type, resource.resource_name),
            *(acl.principal, acl.host, acl.operation, acl.permission_type),
        )
        for resource in answer.resources
        for acl in resource.acls
    ]
    assert len(found) == len(set(found))
    return set(found)


def delete(wire: Wire, *several: dict[str, Any], version: int = 3) -> list[ErrorCode | Described]:
    api = Api(31, version)
    filters = tuple(api.part("DeleteAclsFilter", **{**FILTER, **each}) for each in several)
    return [
        {
            (
                *(acl.resource_type, acl.pattern_type, acl.resource_name),
                *(acl.principal, acl.host, acl.operation, acl.permission_type),
            )
            for acl in result.matching_acls
        }
        if result.error_code is NONE
        else result.error_code
        for result in wire.ask(api.request(filters=filters)).filter_results
    ]


def configs_of(wire: Wire, resource_type: int, name: str) -> ErrorCode:
    api = Api(32, 4)
    resource = api.part(
        "DescribeConfigsResource",
        resource_type=resource_type,
        resource_name=name,
        configuration_keys=(),
    )
    asked = api.request(resources=(resource,), include_synonyms=False, include_documentation=False)
    (result,) = wire.ask(asked).results
    code: ErrorCode = result.error_code
    return code


def alter_configs(wire: Wire, key: int, resource_type: int, name: str) -> ErrorCode:
    api = Api(key, APIS[key].high)
    resource = api.part(
        "AlterConfigsResource", resource_type=resource_type, resource_name=name, configs=()
    )
    (result,) = wire.ask(api.request(resources=(resource,), validate_only=True)).responses
    code: ErrorCode = result.error_code
    return code
