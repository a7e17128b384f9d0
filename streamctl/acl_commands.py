"""streamctl acl list | add | delete: who may do what (KIP-11, KIP-290)."""

from typing import Annotated, Final

import typer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not marked as re-exports
    AclBinding,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from rich.text import Text

from streamctl.acl_rules import (
    ANY_HOST,
    OPERATIONS,
    acl_filters,
    as_json,
    find_acls,
    named_resource,
    operation_of,
    principal_of,
    sentence,
)
from streamctl.arguments import not_empty
from streamctl.confirmation import confirm_deletion
from streamctl.connection import Connection
from streamctl.errors import Failure, UsageError
from streamctl.names import complete_groups, complete_topics
from streamctl.options import FormatOption, connected, flag
from streamctl.output import Format, counted, note, print_done, print_json, results, table
from streamctl.requests import REQUEST_TIMEOUT_S, Requests
from streamctl.wire import Wire

_WHAT: Final = "What"

app = typer.Typer(no_args_is_help=True, help="Who may do what: access control lists.")

Topic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        metavar="NAME",
        rich_help_panel=_WHAT,
        autocompletion=complete_topics,
        help="A topic; * is all.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="NAME",
        rich_help_panel=_WHAT,
        autocompletion=complete_groups,
        help="A consumer group.",
    ),
]
TransactionalId = Annotated[
    str | None,
    typer.Option("--transactional-id", metavar="ID", rich_help_panel=_WHAT, help="A producer's."),
]
OfCluster = Annotated[
    bool, typer.Option("--cluster", metavar="", rich_help_panel=_WHAT, help="The cluster itself.")
]
Prefixed = Annotated[
    bool,
    typer.Option(
        "--prefix", metavar="", rich_help_panel=_WHAT, help="All whose names begin like this."
    ),
]
Principal = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="Who; User:NAME is the same.")
]
Host = Annotated[
    str | None,
    typer.Option(
        "--host",
        parser=not_empty("--host"),
        metavar="ADDRESS",
        help="From where. Default: everywhere.",
    ),
]
Operation = Annotated[
    list[str] | None,
    typer.Option("--operation", metavar="NAME", help=f"{', '.join(OPERATIONS)}. Repeatable."),
]
Denied = Annotated[bool, flag("--deny", text="Forbid it; this counts before all that allows it.")]


@app.command(name="list")
@connected
def list_acls(
    connection: Connection,
    *,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    user: Principal = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List ACLs: all, or those that count for a topic or group, or that name a user.

    ACLs of User:* count for everybody, and --user '*' lists them.

    Examples:
      streamctl acl list
      streamctl acl list --topic user-events
      streamctl acl list --user alice --format json
    """
    resource = named_resource(topic, group, transactional_id, cluster=cluster)
    kind, name = resource or (ResourceType.ANY, None)
    # MATCH finds patterns that cover the name: literal, prefixed and *
    pattern = ResourcePatternType.MATCH if resource else ResourcePatternType.ANY
    filters = acl_filters(kind, name, pattern, user=user)
    with Wire.connect(connection) as wire:
        bindings = find_acls(wire, filters)
    if output is Format.JSON:
        print_json([as_json(one) for one in bindings])
    elif bindings:
        _print(bindings)
    else:
        note("no such ACLs; add one: streamctl acl add --user alice --operation read --topic NAME")


@app.command()
@connected
def add(
    connection: Connection,
    *,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    prefix: Prefixed = False,
    user: Principal = None,
    host: Host = None,
    operation: Operation = None,
    deny: Denied = False,
) -> None:
    r"""Let a user do something, or forbid it.

    What is there already stays as it is.

    Examples:
      streamctl acl add --user alice --operation read --topic user-events
      streamctl acl add --user alice --operation read --group analytics
      streamctl acl add --user etl --operation write --operation create \
          --topic raw. --prefix
      streamctl acl add --user mallory --deny --operation all --topic '*'
    """
    resource = named_resource(topic, group, transactional_id, cluster=cluster)
    if resource is None or user is None or not operation:
        raise UsageError(
            "an ACL names a user, operations and what they are for",
            fix="streamctl acl add --user alice --operation read --topic NAME",
        )
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
    bindings = [
        AclBinding(
            *(resource[0], resource[1], pattern, principal_of(user), host or ANY_HOST),
            *(one, permission),
        )
        for one in dict.fromkeys(map(operation_of, operation))
    ]
    requests = Requests(connection)
    asked = requests.client.create_acls(bindings, request_timeout=REQUEST_TIMEOUT_S)
    for binding, answer in asked.items():
        requests.wait(answer, "ACL", needs="alter --cluster")
        print_done(f"added: {sentence(binding)}")


@app.command()
@connected
def delete(
    connection: Connection,
    *,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    prefix: Prefixed = False,
    user: Principal = None,
    operation: Operation = None,
    yes: Annotated[bool, flag("--yes", "-y", text="Do not ask.")] = False,
) -> None:
    """Delete the ACLs that fit all that is given.

    Examples:
      streamctl acl delete --user alice --topic user-events
      streamctl acl delete --user alice --operation write --topic raw. --prefix --yes
    """
    resource = named_resource(topic, group, transactional_id, cluster=cluster)
    if resource is None and user is None:
        raise UsageError("whose ACLs, or which?", fix="give --user, --topic, --group …")
    kind, name = resource or (ResourceType.ANY, None)
    pattern = ResourcePatternType.ANY
    if resource:
        pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
    filters = acl_filters(kind, name, pattern, user=user, operations=operation or ())
    with Wire.connect(connection) as wire:
        found = find_acls(wire, filters)
    if not found:
        raise Failure("no ACL fits", fix="streamctl acl list shows all")
    confirm_deletion(
        f"Delete {counted(len(found), 'ACL')}?",
        yes=yes,
        show=lambda: _print(found),
    )
    requests = Requests(connection)
    asked = requests.client.delete_acls(filters, request_timeout=REQUEST_TIMEOUT_S)
    for answer in asked.values():
        for binding in requests.wait(answer, "ACLs", needs="alter --cluster"):
            print_done(f"deleted: {sentence(binding)}")


def _print(bindings: list[AclBinding]) -> None:
    listing = table("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "HOST")
    for binding in bindings:
        row = {key: str(value) for key, value in as_json(binding).items()}
        name = f"{row['name']}*" if row["pattern"] == "prefixed" else row["name"]
        listing.add_row(
            Text(row["principal"]),
            Text(row["permission"], style="green" if row["permission"] == "allow" else "red"),
            row["operation"],
            row["resource"],
            Text(name),
            Text(row["host"]),
        )
    results().print(listing)
