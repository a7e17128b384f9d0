"""Folders of a directory store: they come and go with what is in them, whoever else uses them."""

import errno
import os
from pathlib import Path

import pytest

from storage.errors import ObjectStoreUnavailable
from storage.objects.incoming_folder import INCOMING
from storage.objects.object_put import TRIES
from storage.objects.open_folder import OpenFolder
from tests.contracts.object_stores import directory_store, sizes


def folders_below(root: Path) -> set[str]:
    """Return the folders of objects, those that keep none and those above them among them."""
    found = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_dir())
    return {path for path in found if not path.startswith(INCOMING)}


async def test_the_folders_of_what_was_built_go_with_the_last_object_in_them(
    tmp_path: Path,
) -> None:
    # Given a topic of two partitions, one of another topic, and what is not built yet
    built = [f"topics/{place}/segments/1.seg" for place in ("a/partitions/0", "a/partitions/1")]
    async with directory_store(tmp_path) as store:
        for path in (*built, "topics/b/partitions/0/segments/1.seg", "wal/ab/1"):
            await store.put(path, [b"x"])

        # When an object of it is deleted, then the other partition's folders stay
        await store.delete(built[:1])
        assert "topics/a/partitions/0" not in folders_below(tmp_path)
        assert await sizes(store, "topics/a/") == {built[1]: 1}

        # And when all are, also what was deleted before, then those of the other topic do, and
        # all of what is written again and again
        await store.delete([*built, "wal/ab/1"])
        b = {"topics/b", "topics/b/partitions", "topics/b/partitions/0"}
        kept = {"topics", *b, "topics/b/partitions/0/segments", "wal", "wal/ab"}
        assert folders_below(tmp_path) == kept


async def test_who_lists_objects_removes_folders_that_older_versions_left(tmp_path: Path) -> None:
    # Given folders without an object, some of them not to be removed, and folders of an object
    for left in ("topics/a/partitions/0/segments", "topics/a/partitions/1/segments", "wal/ab"):
        (tmp_path / left).mkdir(parents=True)
    async with directory_store(tmp_path) as store:
        await store.put("topics/b/1", [b"x"])

        # When the objects are listed
        assert await sizes(store) == {"topics/b/1": 1}

        # Then the next one who does it goes through none but those that are of use
        assert folders_below(tmp_path) == {"topics", "topics/b", "wal", "wal/ab"}


async def test_a_put_finds_out_that_others_removed_the_folders_above(tmp_path: Path) -> None:
    # Given a store that knows folders, all of which another one has removed
    async with directory_store(tmp_path) as store, directory_store(tmp_path) as other:
        await store.put("topics/a/partitions/0/segments/1.seg", [b"x"])
        await other.delete(["topics/a/partitions/0/segments/1.seg"])

        # When an object goes to a folder beside, then they are made again
        await store.put("topics/a/partitions/1/segments/1.seg", [b"x"])
        assert await sizes(other) == {"topics/a/partitions/1/segments/1.seg": 1}


async def test_folders_that_others_made_again_are_made_durable_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given folders that a store made durable, removed, and made again by who did not flush them
    folder = tmp_path / "topics" / "a" / "partitions"
    async with directory_store(tmp_path) as store, directory_store(tmp_path) as other:
        await store.put("topics/a/partitions/0", [b"x"])
        await other.delete(["topics/a/partitions/0"])
        folder.mkdir(parents=True)
        flushed: list[Path] = []
        monkeypatch.setattr(
            os, "fsync", lambda file: flushed.append(Path(f"/proc/self/fd/{file}").readlink())
        )

        # When the next object goes there, then all of their names are flushed, and then its own
        await store.put("topics/a/partitions/1", [b"x"])
        assert flushed == [tmp_path, tmp_path / "topics", tmp_path / "topics" / "a", folder]


@pytest.mark.parametrize("error_number", [errno.ENOENT, errno.ESTALE])
@pytest.mark.parametrize("times", [TRIES - 1, TRIES])
async def test_a_put_loses_a_few_times_against_those_who_remove_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, error_number: int
) -> None:
    # Given somebody who removes the folder each time that a put has opened it
    link, left = OpenFolder.link, [tmp_path / "topics" / "a"] * times

    def after_it_was_removed(folder: OpenFolder, file: Path, name: str) -> bool:
        if left:
            left.pop().rmdir()
            raise OSError(error_number, os.strerror(error_number))
        return link(folder, file, name)

    monkeypatch.setattr(OpenFolder, "link", after_it_was_removed)
    async with directory_store(tmp_path) as store:
        # When that happens rather often, then it is stored; if for ever, then not, which is told
        if times < TRIES:
            await store.put("topics/a/1", [b"x"])
        else:
            with pytest.raises(ObjectStoreUnavailable, match=os.strerror(error_number)):
                await store.put("topics/a/1", [b"x"])
            await store.put("topics/a/1", [b"x"])
        assert await sizes(store) == {"topics/a/1": 1}
