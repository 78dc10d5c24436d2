"""Who may do what: four roles, each of which may do all that those before it may."""

from enum import StrEnum


class Role(StrEnum):
    VIEWER = "viewer"  # look
    OPERATOR = "operator"  # trigger, pause, replay
    EDITOR = "editor"  # define http jobs
    ADMIN = "admin"  # define all others, and give access

    def may(self, needed: "Role") -> bool:
        """Whether this role may do what the other is needed for."""
        return _ORDER.index(self) >= _ORDER.index(needed)


_ORDER = tuple(Role)
