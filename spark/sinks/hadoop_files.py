"""Files where Spark itself keeps its own: any file system that it knows, by path or URL."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopFiles:
    """Small files and directories below one directory.

    Attributes:
        path: directory or URL.
    """

    session: SparkSession
    path: str

    def exists(self, name: str) -> bool:
        """Return whether there is a file or directory of that name."""
        files, target = self._at(name)
        return bool(files.exists(target))

    def names(self, directory: str) -> list[str]:
        """Return what is in a directory, in order; nothing if there is none."""
        files, target = self._at(directory)
        if not files.exists(target):
            return []
        return sorted(status.getPath().getName() for status in files.listStatus(target))

    def delete(self, name: str) -> None:
        """Delete a file, or a directory with all in it, if it is there."""
        files, target = self._at(name)
        files.delete(target, True)

    def read_text(self, name: str) -> str | None:
        """Return a file's text, or None if there is none."""
        files, target = self._at(name)
        if not files.exists(target):
            return None
        # not spark.read.text: it takes a name that begins with _ for a hidden file
        stream = files.open(target)
        try:
            text: str = self._java().org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text

    def write_text(self, name: str, text: str) -> None:
        """Write a file that is not there; who reads it finds all of it, or nothing.

        Raises:
            FileExistsError: somebody has written it. On S3 (s3a), where a rename replaces, that is
                not noticed of who does so at the same moment.
        """
        files, target = self._at(name)
        if files.getUri().getScheme() == "file":
            _write_local(Path(files.makeQualified(target).toUri().getPath()), text)
            return
        _, draft = self._at(_draft(name))
        stream = files.create(draft, False)
        stream.write(text.encode())
        stream.close()
        if files.exists(target) or not files.rename(draft, target):
            files.delete(draft, False)
            raise FileExistsError(f"{self.path}/{name} was written by another process meanwhile")

    def _at(self, name: str) -> tuple[Any, Any]:
        configuration = self.session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        target = self._java().org.apache.hadoop.fs.Path(f"{self.path}/{name}")
        return target.getFileSystem(configuration), target

    def _java(self) -> Any:
        java = self.session.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to Java
        assert java is not None
        return java


def _write_local(target: Path, text: str) -> None:
    """Write a file here: Hadoop's rename would replace another one, and leave that one's checksum.

    Raises:
        FileExistsError: it is there.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(_draft(target.name))
    with draft.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        target.hardlink_to(draft)
    finally:
        draft.unlink()


def _draft(name: str) -> str:
    """Return a name that no other process takes."""
    return f"{name}.{uuid4().hex}.draft"
