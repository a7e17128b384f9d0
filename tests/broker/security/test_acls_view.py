"""ACLs as people see them in the database."""

import asyncpg

from broker.security.acls import acl_changes
from protocol.acl import (
    AccessRule,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from storage.metadata.metadata_postgres import PostgresMetadata
from storage.postgres.postgres_connection import Connection
from tests.support.postgres import create_database


async def test_people_see_acls_and_no_secret() -> None:
    postgres_dsn = await create_database()
    # Given ACLs with names that are hard to take apart, credentials, and a quota
    acls = [
        Acl(
            ResourcePattern(ResourceType.GROUP, PatternType.PREFIXED, "a:b c\n"),
            AccessRule("User:CN=x, O=y z", "::1", Operation.DESCRIBE_CONFIGS, Permission.DENY),
        ),
        Acl(
            ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "*"),
            AccessRule("User:alice", "*", Operation.READ, Permission.ALLOW),
        ),
    ]
    quota = Entity(EntityKind.CLIENT_QUOTA, "user=alice")
    store = await PostgresMetadata.open(postgres_dsn)
    await store.alter_entity_configs(
        [
            *acl_changes(created=acls),
            EntityChange(entity=Entity(EntityKind.SCRAM, "alice"), changes={"SCRAM": "secret"}),
            EntityChange(entity=quota, changes={"request_percentage": "200"}),
        ]
    )
    await store.close()

    # When they are looked up in the public schema, then ACLs are there, and the quota alone
    connection: Connection = await asyncpg.connect(postgres_dsn)
    rows = await connection.fetch("SELECT * FROM streamhouse.acls ORDER BY resource_type")
    assert [tuple(row) for row in rows] == [
        ("group", "prefixed", "a:b c\n", "User:CN=x, O=y z", "::1", "describe-configs", "deny"),
        ("topic", "literal", "*", "User:alice", "*", "read", "allow"),
    ]
    rows = await connection.fetch("SELECT kind, name FROM streamhouse.entity_configs")
    assert [tuple(row) for row in rows] == [("client-quota", "user=alice")]
    await connection.close()
