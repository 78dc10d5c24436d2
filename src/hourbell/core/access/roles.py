"""Access roles: each of the four has all rights of the previous one."""

from enum import StrEnum


class Role(StrEnum):
    VIEWER = "viewer"  # read
    OPERATOR = "operator"  # trigger, pause, replay
    EDITOR = "editor"  # define http jobs
    ADMIN = "admin"  # define all other jobs, and manage access

    def may(self, needed: "Role") -> bool:
        """Check that this role includes the rights of the needed role."""
        return _ORDER.index(self) >= _ORDER.index(needed)


_ORDER = tuple(Role)
