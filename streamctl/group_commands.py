"""streamctl group list | delete; describe and reset have files of their own."""

from typing import Annotated, Final

import typer
from rich.text import Text

from streamctl.cluster import Cluster
from streamctl.confirmation import confirm_deletion
from streamctl.connection import Connection
from streamctl.errors import Failure
from streamctl.group_describe import describe, state_cell
from streamctl.group_reset import reset
from streamctl.group_state import GroupListing
from streamctl.groups import GroupInUse, Groups
from streamctl.names import GroupArguments, check_group_names
from streamctl.options import FormatOption, connected, flag
from streamctl.output import (
    UNKNOWN,
    Format,
    counted,
    note,
    print_done,
    print_json,
    results,
    table,
)
from streamctl.printable import printable_text

_WITHOUT_MEMBERS: Final = "Empty"

app = typer.Typer(no_args_is_help=True, help="Look at, reset and delete consumer groups.")


@app.command(name="list")
@connected
def list_groups(connection: Connection, *, output: FormatOption = Format.TABLE) -> None:
    """List the consumer groups of the cluster.

    TYPE is the protocol that the members speak: Classic, or Consumer (KIP-848). MEMBERS is a dash
    where you may not describe the group. Ends with 1 if a broker did not tell its groups.

    Examples:
      streamctl group list
      streamctl group list --format json | jq -r '.[] | select(.members == 0).group_id'
    """
    cluster = Cluster(connection)
    cluster.identity()
    groups = Groups(cluster.requests)
    listed, errors = groups.listing()
    members, refusals = _members(groups, listed)
    present = [group for group in listed if group.group_id in members]  # others went meanwhile
    if output is Format.JSON:
        print_json(
            [
                {
                    "group_id": group.group_id,
                    "type": group.type,
                    "state": group.state,
                    "members": members[group.group_id],
                }
                for group in present
            ]
        )
    elif present:
        _print(present, members)
    elif not errors:
        note("no groups yet; join one: streamctl consume --topic user-events --group analytics")
    if refusals:
        said = "; ".join(filter(None, (refusals[0].message, refusals[0].fix)))
        note(f"members of {counted(len(refusals), 'group')} are not told: {said}")
    for error in errors:
        note(f"not all groups are shown: {error}")
    if errors:
        raise typer.Exit(1)


app.command()(describe)  # here: help lists commands as they are registered
app.command()(reset)


@app.command()
@connected
def delete(
    connection: Connection,
    *,
    names: GroupArguments,
    yes: Annotated[bool, flag("--yes", "-y", text="Do not ask.")] = False,
) -> None:
    """Delete groups with their committed offsets, for good.

    A group that has members is not deleted: stop its consumers first.

    Examples:
      streamctl group delete analytics
      streamctl group delete scratch-1 scratch-2 --yes
    """
    check_group_names(names)
    wanted = list(dict.fromkeys(names))
    cluster = Cluster(connection)
    cluster.identity()
    groups = Groups(cluster.requests)
    for group in groups.existing(wanted):  # all must be free before the first one goes
        if group.members:
            raise GroupInUse(group.group_id, group.members)
    confirm_deletion(f"Delete {', '.join(wanted)} and every offset committed there?", yes=yes)
    for group_id in wanted:
        groups.delete(group_id)
        print_done(f"deleted group {group_id}")


def _members(
    groups: Groups, listed: list[GroupListing]
) -> tuple[dict[str, int | None], list[Failure]]:
    """Return how many members groups have that are still there, and why some are not told."""
    members: dict[str, int | None] = {
        group.group_id: 0 for group in listed if group.state == _WITHOUT_MEMBERS
    }
    states, refused = groups.states_told(
        group.group_id for group in listed if group.group_id not in members
    )
    members |= {group_id: len(state.members) for group_id, state in states.items()}
    members |= dict.fromkeys(refused)
    return members, list(refused.values())


def _print(groups: list[GroupListing], members: dict[str, int | None]) -> None:
    listing = table("GROUP", "TYPE", "STATE", "MEMBERS", numbers=("MEMBERS",))
    for group in groups:
        count = members[group.group_id]
        listing.add_row(
            Text(printable_text(group.group_id)),
            Text(group.type),
            state_cell(group.state),
            UNKNOWN if count is None else Text(str(count), style="" if count else "dim"),
        )
    results().print(listing)
