"""A request of a group that is answered with an error, and changed nothing."""

from kio.schema.errors import ErrorCode


class Refused(Exception):
    """What the answer says: the code, and a message where the protocol has one."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message
