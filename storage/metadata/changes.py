"""What answers to "what has changed since?" have in common."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes since some version of the metadata.

    Attributes:
        version: of this answer; ask with it the next time.
        server: which one answered, and since when it has been running.
    """

    version: int
    server: int

    def may_contradict(self, since: int, server: int) -> bool:
        """Whether Postgres may have gone back, to a standby, since that server told that version.

        Then all has to be read anew: versions may be given again, to other changes.
        """
        return since > 0 and (self.version < since or self.server != server)
