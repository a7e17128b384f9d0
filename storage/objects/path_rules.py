"""Which paths an object store takes: one rule, so that none accepts what another refuses."""


def check_path(path: str) -> None:
    """Refuse what is not a plain relative path.

    Raises:
        ValueError: `path` is empty or absolute, has an empty, `.` or `..` part or a NUL, or starts
            with a dot (stores keep their own files there).
    """
    if path.startswith(".") or not {"", ".", ".."}.isdisjoint(path.split("/")) or "\0" in path:
        raise ValueError(f"not an object path: {path!r}; it must be plain and relative: wal/ab/1")


def check_prefix(prefix: str) -> None:
    """Refuse what cannot begin a path; the empty prefix, and a last part cut short, are fine.

    Raises:
        ValueError: no path that `check_path` accepts starts like this.
    """
    folder, slash, _ = prefix.rpartition("/")
    if slash:
        check_path(folder)
    if prefix.startswith(".") or "\0" in prefix:
        raise ValueError(f"not the beginning of an object path: {prefix!r}")
