"""What IncrementalAlterConfigs may set of log levels (KIP-412)."""

from collections.abc import Mapping, Sequence

from kio.schema.errors import ErrorCode

from broker.configs.config_changes import ConfigChange, ConfigOperation, refuse_ambiguous
from broker.configs.log_levels import LEVELS, LOGGERS, ROOT
from broker.refusals import Refusal
from storage.configs.config_types import shortened


def level_changes(changes: Sequence[ConfigChange]) -> Mapping[str, str | None]:
    """Return the new level of each logger, or None where it follows the root logger again.

    Raises:
        Refusal: INVALID_REQUEST for what nobody can do with a level, INVALID_CONFIG for a logger or
            a level that there is not.
    """
    refuse_ambiguous(changes)
    return {change.name: _level(change) for change in changes}


def _level(change: ConfigChange) -> str | None:
    if change.operation not in {ConfigOperation.SET, ConfigOperation.DELETE}:
        raise Refusal(ErrorCode.invalid_request, "Of log levels only SET and DELETE apply.")
    if change.name not in LOGGERS:
        raise Refusal(
            ErrorCode.invalid_config,
            f"There is no logger {shortened(change.name)}, but {', '.join(LOGGERS)}.",
        )
    if change.operation == ConfigOperation.DELETE:
        if change.name == ROOT:
            raise Refusal(ErrorCode.invalid_request, "The level of the root logger must be set.")
        return None
    if change.value not in LEVELS:
        raise Refusal(
            ErrorCode.invalid_config,
            f"{shortened(change.value or '')!r} is no level of {change.name}:"
            f" use one of {', '.join(LEVELS)}.",
        )
    return change.value
