"""ApiVersions: v0-4. v3 client software name (KIP-511), features (KIP-584).

An unsupported version is answered in the v0 schema with UNSUPPORTED_VERSION and our range, so that
any client can find a version to go on with; its body is not parsed.
"""

import re
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from broker.features import FEATURES, FEATURES_EPOCH
from broker.requests import NOT_THROTTLED, Request
from protocol.codec import API_VERSIONS, ResponseTypes, response_types

_FIRST_SOFTWARE_NAME: Final = 3
_FIRST_FEATURES: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(request: Request) -> Payload:
    """List what dispatch can answer."""
    this = request.services.advertised[API_VERSIONS]
    if not this.low <= request.version <= this.high:
        types = response_types(API_VERSIONS, 0)
        only = types.ApiVersion(api_key=this.key, min_version=this.low, max_version=this.high)
        code = ErrorCode.unsupported_version
        refusal: Payload = types.ApiVersionsResponse(error_code=code, api_keys=(only,))
        return refusal
    types = request.types
    body = request.decode()
    code = ErrorCode.none
    api_keys = tuple(
        types.ApiVersion(api_key=api.key, min_version=api.low, max_version=api.high)
        for _, api in sorted(request.services.advertised.items())
    )
    if request.version >= _FIRST_SOFTWARE_NAME:
        names = (body.client_software_name, body.client_software_version)
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            code, api_keys = ErrorCode.invalid_request, ()
        else:
            request.session.software_name, request.session.software_version = names
    tells_features = request.version >= _FIRST_FEATURES and code is ErrorCode.none
    features = _features(types) if tells_features else {}
    response: Payload = types.ApiVersionsResponse(
        error_code=code, api_keys=api_keys, throttle_time=NOT_THROTTLED, **features
    )
    return response


def _features(types: ResponseTypes) -> dict[str, Any]:
    """Return the fields of the features.

    None has a lowest level of 0, which clients before v4 cannot read (KAFKA-17492).
    """
    supported = [
        types.SupportedFeatureKey(name=name, min_version=level, max_version=level)
        for name, level in FEATURES.items()
    ]
    finalized = [
        types.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
        for name, level in FEATURES.items()
    ]
    return {
        "supported_features": tuple(supported),
        "finalized_features_epoch": FEATURES_EPOCH,
        "finalized_features": tuple(finalized),
    }
