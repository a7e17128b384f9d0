"""What a directory promises beyond the contract of all object stores."""

import asyncio
import errno
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage.config import MiB
from storage.errors import ObjectStoreUnavailable, ObjectUnreadable
from storage.objects.disk_room import RESERVE_BYTES
from storage.objects.incoming_folder import INCOMING, close_incoming, open_incoming
from storage.objects.objects_directory import DirectoryStore
from storage.objects.store_check import check_store
from storage.objects.store_health import UNAVAILABLE_FAILURES, StoreState
from storage.objects.store_traffic import StoreTraffic
from storage.reading.read_buffers import LEAST_BYTES
from tests.contracts.object_stores import content, directory_store, sizes

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65_534
COME_AND_GO = 100
AT_A_TIME = 4

CRASH_WHILE_PUTTING = """
import asyncio, os, signal, sys
from pathlib import Path
from storage.objects.objects_directory import DirectoryStore

async def main() -> None:
    store = await DirectoryStore.open(Path(sys.argv[1]))
    os.fdatasync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
    await store.put("wal/lost", [b"x" * 1000])

asyncio.run(main())
"""


def unfinished_files(root: Path) -> list[Path]:
    return [path for path in (root / INCOMING).rglob("*") if path.is_file()]


def folders_of_stores(root: Path) -> list[Path]:
    return list((root / INCOMING).iterdir())


async def test_a_store_whose_folder_somebody_removed_can_be_closed(tmp_path: Path) -> None:
    # Given an open store, and somebody who takes what is unfinished for rubbish
    store = await DirectoryStore.open(tmp_path)
    shutil.rmtree(tmp_path / INCOMING)

    # When its broker ends, for that or another reason, then that is all there is to tell of
    await store.close()


async def test_one_that_is_read_and_not_written_is_unavailable(tmp_path: Path) -> None:
    # Given a store that nothing can be written to any more
    traffic = StoreTraffic()
    store = await DirectoryStore.open(tmp_path, traffic)
    await store.put("mark", [b"x"])
    shutil.rmtree(tmp_path / INCOMING)
    for at in range(UNAVAILABLE_FAILURES):
        with pytest.raises(ObjectStoreUnavailable):
            await store.put(f"wal/{at}", [b"x"])

    # When somebody asks whether the broker is ready, again and again, then it is not
    for _ in range(2 * UNAVAILABLE_FAILURES):
        assert await check_store(store, "mark", traffic) is StoreState.UNAVAILABLE
    await store.close()


def test_no_other_user_of_the_machine_gets_into_a_new_store(tmp_path: Path) -> None:
    # Given a folder that everybody may pass, and a mask that takes nothing away
    tmp_path.chmod(0o755)
    root, mask = tmp_path / "data" / "objects", os.umask(0)
    try:
        # When a store is made in it
        close_incoming(*open_incoming(root))
    finally:
        os.umask(mask)

    # Then nobody else may pass its own folder, and so come to what is below
    assert root.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    close_incoming(*open_incoming(tmp_path))
    assert tmp_path.stat().st_mode & 0o777 == 0o750


async def test_what_a_crash_left_is_removed_by_the_next_open(tmp_path: Path) -> None:
    # Given a broker that was killed while it put an object, and another that lives
    async with directory_store(tmp_path) as neighbour:
        crash = [sys.executable, "-c", CRASH_WHILE_PUTTING, str(tmp_path)]
        process = await asyncio.create_subprocess_exec(*crash, cwd=REPOSITORY)
        assert await process.wait() == -signal.SIGKILL
        assert len(unfinished_files(tmp_path)) == 1

        # When the store is opened again
        async with directory_store(tmp_path) as store:
            # Then the unfinished file is gone, it was no object, and the neighbour still works
            assert unfinished_files(tmp_path) == []
            assert await sizes(store) == {}
            await neighbour.put("wal/1", [b"from the neighbour"])
            assert await content(store, "wal/1", 18) == b"from the neighbour"

    # And stores that are closed in good order leave nothing at all
    assert folders_of_stores(tmp_path) == []


async def test_stores_that_come_and_go_at_a_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    # Given threads that open one directory and close it, again and again
    def come_and_go() -> None:
        for _ in range(COME_AND_GO):
            close_incoming(*open_incoming(tmp_path))

    # When they do so at a time, nobody finds what another one is about to remove
    await asyncio.gather(*(asyncio.to_thread(come_and_go) for _ in range(AT_A_TIME)))

    # Then nothing is left
    assert folders_of_stores(tmp_path) == []


@pytest.fixture
def read_only_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory that this process cannot write; root becomes nobody, as it may write anywhere."""
    user = os.geteuid()
    tmp_path.chmod(0o555)
    if user == 0:
        os.seteuid(NOBODY)
    yield tmp_path
    os.seteuid(user)
    tmp_path.chmod(0o755)


async def test_a_directory_that_cannot_be_written_is_a_clear_error(
    read_only_directory: Path,
) -> None:
    # Given a directory without write permission
    root = read_only_directory / "objects"

    # When a store is opened there, then the error names the place, the reason and the remedy
    with pytest.raises(ObjectStoreUnavailable, match=r"Permission denied.*write perm") as error:
        await DirectoryStore.open(root)
    assert str(root) in str(error.value)


@pytest.mark.parametrize("reason", [errno.EPERM, errno.EIO])
async def test_a_file_that_cannot_be_removed_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    # Given three objects, one of which the file system does not let go
    async with directory_store(tmp_path) as store:
        for path in ("wal/0", "wal/1", "wal/2"):
            await store.put(path, [b"x"])
        unlink = Path.unlink

        def refuse_one(path: Path, missing_ok: bool = False) -> None:
            if path.name == "1":
                raise OSError(reason, os.strerror(reason), str(path))
            unlink(path, missing_ok)

        monkeypatch.setattr(Path, "unlink", refuse_one)

        # When all are deleted, then it alone is left, and the answer says why
        refused = await store.delete(["wal/0", "wal/1", "wal/2"])
        assert list(refused) == ["wal/1"]
        assert os.strerror(reason) in refused["wal/1"]
        assert await sizes(store) == {"wal/1": 1}


def fail_next_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a folder not be flushed; Linux tells that once, and the next flush has nothing to do."""
    fsync, failures = os.fsync, [errno.EIO]

    def fail_once(file: int) -> None:
        if failures:
            raise OSError(failures[0], os.strerror(failures.pop()))
        fsync(file)

    monkeypatch.setattr(os, "fsync", fail_once)


async def test_a_name_that_could_not_be_flushed_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an object whose bytes were flushed, and its name was not
    async with directory_store(tmp_path) as store:
        await store.put("wal/0", [b"x"])
        fail_next_flush(monkeypatch)
        with pytest.raises(ObjectStoreUnavailable, match=os.strerror(errno.EIO)):
            await store.put("wal/1", [b"x"])
        named = (tmp_path / "wal" / "1").stat().st_ino

        # When it is put again, then there is something to flush: its name has another file
        await store.put("wal/1", [b"x"])
        assert (tmp_path / "wal" / "1").stat().st_ino != named
        assert await content(store, "wal/1", 1) == b"x"


async def test_a_folder_whose_name_could_not_be_flushed_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a new folder whose name was not flushed
    async with directory_store(tmp_path) as store:
        fail_next_flush(monkeypatch)
        with pytest.raises(ObjectStoreUnavailable, match=os.strerror(errno.EIO)):
            await store.put("wal/1", [b"x"])

        # Then it is not there, so that there is something to flush when it is
        assert not (tmp_path / "wal").exists()
        await store.put("wal/1", [b"x"])
        assert await content(store, "wal/1", 1) == b"x"


@pytest.mark.parametrize("reads_once", [False, True])
async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, reads_once: bool) -> None:
    # Given a file whose bytes the kernel does not give out (it calls that EIO)
    async with directory_store(tmp_path, reads_once=reads_once) as store:
        await store.put("wal/1", [b"x"])
        (tmp_path / "wal" / "0").symlink_to("/proc/self/mem")
        length = 2 * LEAST_BYTES  # so that it goes past the page cache, if it is read once

        # When it is read, then it alone cannot be, and the store is well
        with pytest.raises(ObjectUnreadable, match=rf"wal/0.*{os.strerror(errno.EIO)}"):
            await store.get("wal/0", 0, length)
        assert await content(store, "wal/1", 1) == b"x"


@pytest.mark.parametrize("reason", [errno.EROFS, errno.EIO])
async def test_a_disk_that_nobody_can_write_is_unavailable_to_those_who_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    # Given a disk that the system has made read-only, or that fails
    async with directory_store(tmp_path) as store:
        await store.put("wal/1", [b"x"])

        def refuse(path: Path, missing_ok: bool = False) -> None:
            raise OSError(reason, os.strerror(reason), str(path))

        # When something is deleted, then it may be tried again as soon as it can be
        with monkeypatch.context() as read_only:
            read_only.setattr(Path, "unlink", refuse)
            with pytest.raises(ObjectStoreUnavailable, match=os.strerror(reason)):
                await store.delete(["wal/1"])
        assert await store.delete(["wal/1"]) == {}


async def test_a_file_in_the_place_of_the_directory_is_a_clear_error(tmp_path: Path) -> None:
    # Given a file where the directory should be, or above it
    (tmp_path / "objects").write_text("a file")

    # When a store is opened there, then the error names it
    for root in (tmp_path / "objects", tmp_path / "objects" / "deeper"):
        with pytest.raises(ObjectStoreUnavailable, match="objects"):
            await DirectoryStore.open(root)


async def test_a_put_flushes_the_file_and_every_folder_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store, and a record of what is flushed
    root = tmp_path / "deep" / "objects"
    flushed: list[Path] = []

    def recorded(file: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{file}").readlink())

    monkeypatch.setattr(os, "fsync", recorded)
    monkeypatch.setattr(os, "fdatasync", recorded)
    async with directory_store(root) as store:
        assert flushed == [tmp_path, tmp_path / "deep"]
        flushed.clear()

        # When an object is put into a new folder
        await store.put("wal/ab/1", [b"x"])

        # Then its bytes are flushed, and its name, and the names of the folders above
        file, *folders, name = flushed
        assert folders == [root, root / "wal"]
        assert file.parent.parent == root / INCOMING
        assert name == root / "wal" / "ab"
        flushed.clear()

        # And when the folder is known and the object is there already, its name is flushed again:
        # whoever made it may have crashed before that
        await store.put("wal/ab/1", [b"x"])
        assert flushed[1:] == [root / "wal" / "ab"]


async def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a file system that takes a few bytes at a time
    async with directory_store(tmp_path) as store:
        whole_write = os.writev

        def short_write(file: int, parts: Sequence[memoryview]) -> int:
            return whole_write(file, [b"".join(parts)[:7]])

        monkeypatch.setattr(os, "writev", short_write)

        # When an object is put
        await store.put("wal/1", [b"0123456789", b"abc", b"ABCDEFG"])

        # Then nothing of it is lost
        assert await content(store, "wal/1", 20) == b"0123456789abcABCDEFG"


async def test_a_full_disk_is_unavailable_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a disk that is full
    async with directory_store(tmp_path) as store:

        def no_space(file: int) -> None:
            raise OSError(28, "No space left on device")

        # When an object is put, then it is refused, and no trace is left
        with monkeypatch.context() as full:
            full.setattr(os, "fdatasync", no_space)
            with pytest.raises(ObjectStoreUnavailable, match="No space"):
                await store.put("wal/1", [b"x"])
        assert await sizes(store) == {}
        assert unfinished_files(tmp_path) == []

        # And once there is space, it can be stored
        await store.put("wal/1", [b"x"])
        assert await sizes(store) == {"wal/1": 1}


async def test_objects_leave_room_for_postgres(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with directory_store(tmp_path) as store:
        await store.put("wal/1", [b"x"])

        # Given a disk of 10 GiB with room for an object and what is kept for Postgres
        def disk(_: Path) -> SimpleNamespace:
            blocks = (RESERVE_BYTES + MiB) // 4096
            return SimpleNamespace(f_frsize=4096, f_blocks=10 * 2**18, f_bavail=blocks)

        with monkeypatch.context() as small:
            small.setattr(os, "statvfs", disk)
            # When one that is larger is put, then it is refused, and one that is not is taken
            with pytest.raises(ObjectStoreUnavailable, match="No space left on device but 128 MiB"):
                await store.put("wal/2", [bytes(MiB + 1)])
            assert unfinished_files(tmp_path) == []
            await store.put("wal/2", [bytes(MiB)])

            # And objects can be read and deleted
            assert bytes(await store.get("wal/1", 0, 1)) == b"x"
            assert not await store.delete(["wal/1"])
        assert await sizes(store) == {"wal/2": MiB}


async def test_a_file_system_that_does_not_tell_its_size_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with directory_store(tmp_path) as store:
        with monkeypatch.context() as silent:
            nothing = SimpleNamespace(f_frsize=0, f_blocks=0, f_bavail=0)
            silent.setattr(os, "statvfs", lambda _: nothing)
            await store.put("wal/1", [b"x"])
        assert await sizes(store) == {"wal/1": 1}


async def test_a_system_without_threads_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with directory_store(tmp_path) as store:
        # Given a system that has no thread to give (pids.max)
        def refuse(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        # When something is put or read, then that may be tried again
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            for asked in (store.put("wal/1", [b"x"]), store.get("wal/1", 0, 1)):
                with pytest.raises(ObjectStoreUnavailable, match="start new thread"):
                    await asked
        await store.put("wal/1", [b"x"])
        assert await content(store, "wal/1", 1) == b"x"


async def test_a_folder_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    # Given a folder that the store knows, removed behind its back
    async with directory_store(tmp_path) as store:
        await store.put("wal/ab/1", [b"first"])
        shutil.rmtree(tmp_path / "wal")

        # When the next object goes there, then it is stored
        await store.put("wal/ab/2", [b"second"])
        assert await sizes(store) == {"wal/ab/2": 6}
