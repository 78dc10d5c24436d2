"""How many files and sockets this process may have open at once."""

import contextlib
import resource

_ENOUGH = 1_048_576  # where the system knows no limit


def raise_descriptor_limit() -> int:
    """Raise this process's limit to what the system allows it; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(ValueError, OSError):  # macOS promises more than it gives
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft
