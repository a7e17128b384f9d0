"""Passwords of PLAIN, checked against what SCRAM keeps of them.

That takes milliseconds of computing by design, so it is done on one thread: whoever guesses
passwords has at most one core, the event loop goes on, and many guesses wait for one another; those
from one host do not keep others waiting. What was found out is not kept for the next time: a fast
check of a password would be a weaker secret than the one that is stored.
"""

import asyncio
import hashlib
import hmac
from concurrent.futures import ThreadPoolExecutor

from broker.security.sasl_credentials import Credentials
from broker.turns import Turns
from protocol.scram import ScramCredential, ScramMechanism


class Passwords:
    """Checks them."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._turns = Turns()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="passwords")

    async def check(self, user: str, password: bytes, host: str) -> bool:
        """Whether that is the user's password, now that the answer is known.

        It takes as long for somebody who does not exist.

        Args:
            user: whoever it may be.
            password: as it was given.
            host: the ip address of who wants to know.
        """
        mechanism, found = self._credentials.find_any(user)
        made_up = self._credentials.make_up(user, mechanism)  # always: it takes its time
        async with self._turns.of(host):
            fits = await asyncio.get_running_loop().run_in_executor(
                self._thread, _fits, mechanism, found or made_up, password
            )
        return fits and found is not None and self._credentials.find(user, mechanism) == found

    def close(self) -> None:
        """Forget what waits to be checked."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _fits(mechanism: ScramMechanism, credential: ScramCredential, password: bytes) -> bool:
    iterations = credential.iterations
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, credential.salt, iterations)
    given = ScramCredential.from_salted_password(
        mechanism, salt=credential.salt, salted_password=salted, iterations=iterations
    )
    return hmac.compare_digest(given.stored_key, credential.stored_key)
