"""What can be wrong with listeners as they are given, told before the broker begins."""

from collections.abc import Sequence

from broker.network.listeners import Listener, SecurityProtocol, parse_listener
from broker.security.security_config import SecurityConfig
from broker.security.tls_contexts import TlsProblems, make_contexts


def address_problems(listen: Sequence[str], advertise: Sequence[str]) -> list[str]:
    """Return what is wrong with the addresses, each of which is one."""
    if len(advertise) > len(listen):
        return [f"advertise: {len(advertise)} addresses for {len(listen)} listen"]
    listeners, told = _parsed(listen), _parsed(advertise)
    problems = [
        f"advertise: {there} is for {here}, which speaks {here.protocol}; use"
        f" {Listener(here.protocol, there.address)}"
        for here, there in zip(listeners, told, strict=False)
        if here.protocol != there.protocol
    ]
    problems += [
        f"listen: clients cannot connect to {listener}; say what they connect to with --advertise"
        for listener in listeners[len(told) :]
        if listener.address.host in ("0.0.0.0", "::")  # noqa: S104  # compared, not bound
    ]
    return problems


def tls_problems(
    protocols: Sequence[SecurityProtocol], config: SecurityConfig, key_password: str
) -> list[str]:
    """Return what keeps listeners from using TLS; nothing if none of them does."""
    if not any(protocol.uses_tls for protocol in protocols):
        return []
    try:
        make_contexts(config, key_password)
    except TlsProblems as error:
        return error.problems
    return []


def _parsed(texts: Sequence[str]) -> list[Listener]:
    return [parse_listener(text) for text in texts]
