"""A Postgres with TLS and passwords, as a database service has them: Debian's, on a TCP port.

The server inside the wheel is built without OpenSSL, so it cannot be this one.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from storage.postgres.postgres_binaries import ENVIRONMENT, SystemUser, let_pass, server_user
from storage.postgres.postgres_process import read_pid_file
from tests.clients.processes import program
from tests.crash.processes import PATIENCE_S, until
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.postgres import short_directory

USER: Final = "streamhouse"
PASSWORD: Final = "correct/horse?battery#staple%40@:"
CERTIFICATE_USER: Final = "by_certificate"
NAME: Final = "localhost"
"""The only one that the server's certificate has; 127.0.0.1 is a wrong one."""

_INSTALLED: Final = Path("/usr/lib/postgresql")
_ACCESS: Final = f"""
local all all trust
hostssl all {CERTIFICATE_USER} 127.0.0.1/32 cert
host all {USER} 127.0.0.1/32 scram-sha-256
"""


class TlsPostgres:
    """A running server; its certificate is for NAME, and it trusts its authority's clients."""

    def __init__(self, home: Path, authority: Authority) -> None:
        self.port = free_port()
        self._directory = home / "database"
        self._home = home
        self._authority = authority
        self._server: subprocess.Popen[bytes] | None = None
        self._user: SystemUser | None = None

    def dsn(self, options: str, *, host: str = NAME, user: str = USER) -> str:
        """Return an address; `options` are those of TLS."""
        login = f"{USER}:{quote(PASSWORD, safe='')}" if user == USER else user
        return f"postgresql://{login}@{host}:{self.port}/postgres?{options}"

    def start(self) -> None:
        self._directory.mkdir(mode=0o700)
        self._user = server_user(self._directory)
        if self._user is not None:
            os.chown(self._directory, self._user.uid, self._user.gid)
            let_pass(self._user, self._directory)
        self._run("initdb", "-D", str(self._directory), "-U", USER, "--auth=trust", "-E", "UTF8")
        self._write_certificates()
        (self._directory / "pg_hba.conf").write_text(_ACCESS)
        with (self._directory / "postgresql.conf").open("a") as config:
            config.write("ssl = on\n")  # an argument could not be changed while it runs
        settings = (
            *("listen_addresses=127.0.0.1", f"port={self.port}", "fsync=off"),
            *("ssl_ca_file=authority.pem", f"unix_socket_directories={self._directory}"),
            "password_encryption=scram-sha-256",
        )
        options = [word for setting in settings for word in ("-c", setting)]
        self._server = self._spawn("postgres", "-D", str(self._directory), *options)
        until(self._ready, f"Postgres: {self._home / 'server.log'}")
        quoted = PASSWORD.replace("'", "''")
        self.execute(f"ALTER USER {USER} PASSWORD '{quoted}'; CREATE USER {CERTIFICATE_USER}")

    def set_tls(self, *, on: bool) -> None:
        """Speak TLS from now on, or do not."""
        wanted = "on" if on else "off"
        self.execute(f"ALTER SYSTEM SET ssl = {wanted}")
        self.execute("SELECT pg_reload_conf()")
        until(lambda: self.execute("SHOW ssl").strip() == wanted or None, "ssl")

    def execute(self, statement: str) -> str:
        """Run statements over the local socket; return what they print."""
        where = ("-h", self._directory, "-p", str(self.port), "-U", USER)
        said = subprocess.run(
            [_program("psql"), *where, "-Atc", statement, "postgres"],
            check=True,
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
        )
        return said.stdout

    def end(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()

    def _ready(self) -> bool | None:
        assert self._server is not None
        assert self._server.poll() is None, (self._home / "server.log").read_text()
        return True if read_pid_file(self._directory)[7:8] == ["ready   "] else None

    def _write_certificates(self) -> None:
        certificate = self._authority.issue(f"CN={NAME}", names=[NAME])
        files = [
            certificate.write_certificate(self._directory / "server.crt"),
            certificate.write_key(self._directory / "server.key"),
            self._authority.write_truststore(self._directory / "authority.pem"),
        ]
        for file in files if self._user else ():
            assert self._user is not None
            os.chown(file, self._user.uid, self._user.gid)

    def _run(self, name: str, *arguments: str) -> None:
        assert self._spawn(name, *arguments).wait(PATIENCE_S) == 0

    def _spawn(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        with (self._home / "server.log").open("ab") as output:
            return subprocess.Popen(
                [_program(name), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,
                user=self._user.uid if self._user else None,
                group=self._user.gid if self._user else None,
                extra_groups=[] if self._user else None,
            )


def _program(name: str) -> Path:
    """Return one of the newest version that is installed; Debian's package is, if none is."""
    found = sorted(_INSTALLED.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    if not found and shutil.which(name):
        return Path(str(shutil.which(name)))
    if not found:
        program("pg_lsclusters", debian_package="postgresql")
        return _program(name)
    return found[-1]


@contextmanager
def tls_postgres(authority: Authority) -> Iterator[TlsPostgres]:
    """Run a server for the length of a block."""
    with short_directory() as home:
        server = TlsPostgres(home, authority)
        try:
            server.start()
            yield server
        finally:
            server.end()
