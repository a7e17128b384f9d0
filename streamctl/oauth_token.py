"""A token for OAUTHBEARER, by the grant client_credentials (RFC 6749, 4.4).

The properties are those of librdkafka's method `oidc`.
"""

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote_plus, urlencode, urlsplit

from streamctl.errors import Failure, UsageError

TIMEOUT_S: Final = 10.0
MAX_BYTES: Final = 1024 * 1024
_PREFIX: Final = "sasl.oauthbearer."


def fetch_token(properties: Mapping[str, str]) -> str:
    """Return a token of the provider that the properties name.

    Raises:
        UsageError: a property is missing.
        Failure: the provider gives no token.
    """
    if properties.get(f"{_PREFIX}method", "default").lower() != "oidc":
        raise UsageError(
            "SASL OAUTHBEARER needs a provider of tokens",
            fix=f"set {_PREFIX}method=oidc, …token.endpoint.url, …client.id and …client.secret",
        )
    url, client, secret = (
        _needed(properties, name) for name in ("token.endpoint.url", "client.id", "client.secret")
    )
    if urlsplit(url).scheme not in ("https", "http"):
        raise UsageError(f"{_PREFIX}token.endpoint.url must be an https:// URL")
    form = {"grant_type": "client_credentials"}
    if scope := properties.get(f"{_PREFIX}scope"):
        form["scope"] = scope
    login = base64.b64encode(f"{quote_plus(client)}:{quote_plus(secret)}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
    request = urllib.request.Request(url, urlencode(form).encode(), headers)  # noqa: S310 (checked)
    answer = _ask(request, _context(properties))
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token:
        raise Failure(f"{url} answers without a token")
    return token


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for a failure: the secret would follow it to wherever it leads."""

    def redirect_request(self, *_: object) -> None:
        return None


def _ask(request: urllib.request.Request, context: ssl.SSLContext) -> object:
    url = request.full_url
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return json.loads(answer.read(MAX_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        fix = f"check {_PREFIX}client.id and …client.secret" if error.code in (400, 401) else ""
        raise Failure(f"{url} gives no token: it answers {error.code}", fix=fix) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise Failure(f"{url} gives no token: {reason}") from error
    except ValueError as error:
        raise Failure(f"{url} answers with no JSON") from error


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return whom to trust: https.ca.location, a file or a directory, or the machine's own list."""
    place = properties.get("https.ca.location")
    try:
        if not place or place == "probe":
            return ssl.create_default_context(cadata=properties.get("https.ca.pem"))
        if Path(place).is_dir():
            return ssl.create_default_context(capath=place)
        return ssl.create_default_context(cafile=place)
    except OSError as error:
        raise Failure(f"TLS: {error}", fix="check https.ca.location") from error


def _needed(properties: Mapping[str, str], name: str) -> str:
    value = properties.get(f"{_PREFIX}{name}") or properties.get(
        f"{_PREFIX}client.credentials.{name}"
    )
    if not value:
        raise UsageError(f"SASL OAUTHBEARER needs {_PREFIX}{name}")
    return value
