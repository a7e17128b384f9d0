"""Checking passwords of PLAIN: nobody stops the broker or others with it, or learns who exists."""

import asyncio
import hashlib
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.configs.entity_configs import EntityConfigs
from broker.security import sasl_passwords
from broker.security.sasl_credentials import Credentials
from broker.security.sasl_passwords import Passwords
from broker.turns import Turns
from protocol.scram import ScramCredential, ScramMechanism
from storage.metadata.entity_configs import Entity, EntityChange, EntityKind
from tests.support.fakes.metadata import MemoryMetadata

HOST = "192.0.2.1"
SHA_256 = ScramMechanism.SCRAM_SHA_256
SHA_512 = ScramMechanism.SCRAM_SHA_512


async def credentials_of(**users: dict[ScramMechanism, int]) -> Credentials:
    """Return credentials of users: iterations by mechanism; the password of all is "secret"."""
    configs = EntityConfigs(MemoryMetadata(Random(7)))
    credentials = Credentials(configs)
    await credentials.prepare()
    for user, kinds in users.items():
        stored = {one.sasl_name: credential(one, rounds) for one, rounds in kinds.items()}
        change = EntityChange(entity=Entity(EntityKind.SCRAM, user), changes=stored)
        await configs.alter([change])
    return credentials


def credential(mechanism: ScramMechanism, rounds: int) -> str:
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, b"secret", b"salt", rounds)
    return ScramCredential.from_salted_password(
        mechanism, salt=b"salt", salted_password=salted, iterations=rounds
    ).encode()


async def test_checking_passwords_does_not_stop_the_loop() -> None:
    # Given a credential that takes long to check
    passwords, turns = Passwords(await credentials_of(slow={SHA_256: 400_000})), 0

    # When it is checked, then the loop has many turns meanwhile
    checking = asyncio.create_task(passwords.check("slow", b"secret", HOST))
    while not checking.done():
        turns += 1
        await asyncio.sleep(0)
    assert await checking
    assert turns > 100
    passwords.close()


async def test_a_guesser_with_many_connections_does_not_keep_others_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[object] = []
    fits = sasl_passwords._fits

    def counted(*given: Any) -> bool:
        checked.append(given)
        return fits(*given)

    monkeypatch.setattr(sasl_passwords, "_fits", counted)

    # Given somebody who guesses on 200 connections at once
    passwords = Passwords(await credentials_of(alice={SHA_256: 20_000}))
    guess = b"guess"
    guesses = [
        asyncio.create_task(passwords.check("alice", guess, "203.0.113.9")) for _ in range(200)
    ]
    await asyncio.sleep(0)

    # When somebody else logs in, then that waits for a guess or two, not for all of them
    assert await passwords.check("alice", b"secret", HOST)
    assert sum(one.done() for one in guesses) < 10

    # And guesses whose connections are gone are not checked
    for one in guesses:
        one.cancel()
    await asyncio.gather(*guesses, return_exceptions=True)
    checked.clear()
    assert await passwords.check("alice", b"secret", "203.0.113.9")
    assert len(checked) <= 2, "its own, and one that had its turn already"
    passwords.close()


@pytest.mark.parametrize(
    "users",
    [
        {},
        {"a": {SHA_512: 8192}},
        {"a": {SHA_256: 4096, SHA_512: 16384}, "b": {SHA_512: 4096}, "c": {SHA_256: 8192}},
    ],
)
async def test_the_password_of_somebody_unknown_takes_as_long_as_one_of_others(
    users: dict[str, dict[ScramMechanism, int]],
) -> None:
    # Given users with one mechanism or with both
    credentials = await credentials_of(**users)
    checked = {(min(one), one[min(one)]) for one in users.values()} or {(SHA_256, 4096)}

    # When somebody unknown logs in, then it is by a mechanism and iterations that somebody has
    made_up = set()
    for at in range(200):
        mechanism, found = credentials.find_any(f"nobody-{at}")
        assert found is None
        made_up.add((mechanism, credentials.make_up(f"nobody-{at}", mechanism).iterations))
    assert made_up == checked


async def test_a_credential_that_cannot_be_read_keeps_nobody_else_out() -> None:
    credentials = await credentials_of(alice={SHA_256: 4096})
    entity = Entity(EntityKind.SCRAM, "broken")
    change = EntityChange(entity=entity, changes={SHA_256.sasl_name: "iterations=many"})
    await credentials._configs.alter([change])
    passwords = Passwords(credentials)
    assert await passwords.check("alice", b"secret", HOST)
    assert not await passwords.check("nobody", b"secret", HOST)
    with pytest.raises(ValueError, match="cannot be read"):
        await passwords.check("broken", b"secret", HOST)
    passwords.close()


@given(
    comers=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30),
    places=st.integers(1, 2),
)
async def test_turns_are_had_by_few_at_a_time_whoever_leaves(
    comers: list[tuple[str, bool]], places: int
) -> None:
    turns, holding = Turns(places), 0

    async def come(host: str) -> None:
        nonlocal holding
        async with turns.of(host):
            holding += 1
            try:
                assert holding <= places
                await asyncio.sleep(0)
            finally:
                holding -= 1

    tasks = [asyncio.create_task(come(host)) for host, _ in comers]
    await asyncio.sleep(0)
    for task, (_, leaves) in zip(tasks, comers, strict=True):
        if leaves and task is not tasks[0]:
            task.cancel()
        await asyncio.sleep(0)
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    assert not turns._waiting
    assert turns._free == places
