"""The policy on disk: read at the start, and again after every change.

If a changed file cannot be read, the last good policy stays in force.
"""

from pathlib import Path

from dragoman.security.files import Stamp, stamp_of
from dragoman.security.policy import Policy
from dragoman.security.policy_text import BadPolicy, read_policy


class PolicyFile:
    """Follows one file. Without a file the policy has only the shipped roles."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: Stamp | None = None
        self.policy = self._read()

    def refresh(self) -> bool:
        """Read a changed file; tell whether the policy is new. Raises BadPolicy once a change."""
        if stamp_of(self.path) == self._stamp:
            return False
        policy = self._read()
        is_new = policy != self.policy
        self.policy = policy
        return is_new

    def _read(self) -> Policy:
        self._stamp = stamp_of(self.path)
        try:
            text = self.path.read_text() if self._stamp is not None else ""
            return read_policy(text)
        except (OSError, UnicodeDecodeError, BadPolicy) as error:
            raise BadPolicy(f"{self.path}: {error}") from None
