"""Credentials that cannot be had are trouble of the store, which somebody can mend; no bug."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from storage.errors import ObjectStoreUnavailable
from storage.objects import s3_credentials
from storage.objects.open_store import open_store
from tests.contracts.object_stores import fresh_s3_config, s3_store
from tests.support.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

SetProfile = Callable[[str], None]


@pytest.fixture
def set_profile(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SetProfile:
    """Return what says where a machine gets its credentials: it has none in its environment."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "ours")

    def set_profile(line: str) -> None:
        (tmp_path / "config").write_text(f"[profile ours]\n{line}\n")

    return set_profile


async def test_a_token_that_is_not_there_is_looked_for_again(
    s3_server: S3Server, set_profile: SetProfile, tmp_path: Path
) -> None:
    # Given a role whose token's file is not there yet
    token = tmp_path / "token"
    role = "role_arn = arn:aws:iam::123456789012:role/records"
    set_profile(f"{role}\nweb_identity_token_file = {token}")
    async with s3_store(replace(fresh_s3_config(s3_server), deadline_s=2.0)) as store:
        # When something is stored, then it is tried until the deadline, and the error tells why
        told = f"nothing in 2 s; .*No such file.*{re.escape(str(token))}.*AWS_WEB_IDENTITY_TOKEN"
        with pytest.raises(ObjectStoreUnavailable, match=told):
            await store.put("wal/1", [b"x"])


async def test_credentials_that_are_renewed_too_late_are_asked_for_again(
    s3_server: S3Server, set_profile: SetProfile
) -> None:
    # Given a program whose credentials have expired when it hands them out
    keys = '"AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": "2020-01-01T00:00:00Z"'
    set_profile(f"""credential_process = echo '{{"Version": 1, {keys}}}'""")
    async with s3_store(replace(fresh_s3_config(s3_server), deadline_s=2.0)) as store:
        # When something is stored, then it is tried until the deadline, and the error tells why
        with pytest.raises(ObjectStoreUnavailable, match=r"nothing in 2 s; .*still expired"):
            await store.put("wal/1", [b"x"])


@dataclass(frozen=True, slots=True)
class HangingProgram:
    """Tells credentials once, and never again. Attributes: expires_s is what they are good for."""

    directory: Path
    access_key: str
    secret_key: str
    expires_s: int

    def make(self) -> Path:
        path = self.directory / "program"
        expires = datetime.now(UTC) + timedelta(seconds=self.expires_s)
        keys = f'"AccessKeyId": "{self.access_key}", "SecretAccessKey": "{self.secret_key}"'
        told = f'{{"Version": 1, {keys}, "Expiration": "{expires.isoformat()}"}}'
        path.write_text(
            "#!/bin/sh\n"
            f"if [ -e {self._numbers} ]; then echo $$ >> {self._numbers}; exec sleep 600; fi\n"
            f"touch {self._numbers}\necho '{told}'\n"
        )
        path.chmod(0o755)
        return path

    @property
    def _numbers(self) -> Path:
        return self.directory / "numbers"

    def processes(self) -> list[str]:
        """Return those that hang, or did."""
        return self._numbers.read_text().split()

    def is_running(self) -> bool:
        return any(Path("/proc", number).exists() for number in self.processes())


async def test_a_program_that_hangs_is_started_once_and_ended(
    s3_server: S3Server,
    set_profile: SetProfile,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    # Given a program that hangs when credentials are to be renewed
    program = HangingProgram(tmp_path, ACCESS_KEY, SECRET_KEY, 60)
    set_profile(f"credential_process = {program.make()}")
    monkeypatch.setattr(s3_credentials, "WAIT_S", 0.2)
    monkeypatch.setattr(s3_credentials, "RENEWAL_S", 6.0)
    async with s3_store(replace(fresh_s3_config(s3_server), deadline_s=2.0)) as store:
        # When some ask for what needs them, then each is told what it waits for
        asks = [store.put(f"wal/{number}", [b"x"]) for number in range(3)]
        for failure in await asyncio.gather(*asks, return_exceptions=True):
            assert isinstance(failure, ObjectStoreUnavailable)
            told = r"nothing in 2 s; .*custom-process.*no answer yet.*AWS_PROFILE"
            assert re.search(told, str(failure)), failure

        # And there is one of it, which is gone when it is given up
        assert len(program.processes()) == 1
        while program.is_running():
            await asyncio.sleep(0.05)


async def test_credentials_that_are_good_for_a_while_are_used_while_a_program_hangs(
    s3_server: S3Server, set_profile: SetProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a program that hangs when credentials may be renewed, and need not yet
    program = HangingProgram(tmp_path, ACCESS_KEY, SECRET_KEY, 14 * 60)
    set_profile(f"credential_process = {program.make()}")
    monkeypatch.setattr(s3_credentials, "RENEWAL_S", 1.0)
    async with s3_store(fresh_s3_config(s3_server)) as store:
        # When something is stored, then it is, and the program is ended all the same
        await store.put("wal/1", [b"x"])
        while not program.processes():
            await asyncio.sleep(0.05)
        while program.is_running():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("program", "remedy"),
    [("echo nothing", "JSONDecodeError"), ("/nowhere/at/all", "No such file")],
)
async def test_a_program_that_tells_no_credentials_is_named(
    set_profile: SetProfile, program: str, remedy: str
) -> None:
    # Given a program that prints no JSON, or is not there
    set_profile(f"credential_process = {program}")

    # When the store is opened, then the error tells where to look
    with pytest.raises(ObjectStoreUnavailable, match=f"{remedy}.*AWS_PROFILE"):
        await open_store("s3://records")
