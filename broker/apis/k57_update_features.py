"""UpdateFeatures: v0-2 (KIP-584). v1 upgrade types and validate_only, v2 one code for all.

A level that is what it shall be is accepted, any other is refused: levels never change. Not done:
the timeout, as there is nothing to wait for.

ACLs: ALTER on the cluster.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.features import FeatureUpdate, UpgradeType, check_updates
from broker.refusals import Refusal
from broker.requests import NOT_THROTTLED, Request

_FIRST_UPGRADE_TYPE: Final = 1
_LAST_WITH_RESULTS: Final = 1


async def handle(request: Request) -> Payload:
    """Check all updates; one that cannot be refuses them all."""
    updates = [_update(request, asked) for asked in request.decode().feature_updates]
    refusal = None
    try:
        check_updates(updates)
    except Refusal as refused:
        refusal = refused
    response: Payload = request.types.UpdateFeaturesResponse(
        throttle_time=NOT_THROTTLED,
        error_code=refusal.code if refusal else ErrorCode.none,
        error_message=str(refusal) if refusal else None,
        results=_results(request, [] if refusal else updates),
    )
    return response


def _results(request: Request, updates: list[FeatureUpdate]) -> tuple[object, ...]:
    if request.version > _LAST_WITH_RESULTS:
        return ()
    return tuple(
        request.types.UpdatableFeatureResult(
            feature=update.feature, error_code=ErrorCode.none, error_message=None
        )
        for update in updates
    )


def _update(request: Request, asked: Any) -> FeatureUpdate:
    if request.version >= _FIRST_UPGRADE_TYPE:
        upgrade_type = asked.upgrade_type
    else:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if asked.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(
        feature=asked.feature, level=asked.max_version_level, upgrade_type=upgrade_type
    )
