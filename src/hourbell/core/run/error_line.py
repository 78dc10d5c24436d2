"""Error texts without the frames of a traceback, in one line."""

_FRAME = '  File "'


def without_frames(error: str) -> str:
    """Return what follows the last frame of a Python traceback: the exception; other texts as they are.

    The start of a long traceback may have been cut off, so it is recognized by its frames.
    """
    lines = error.splitlines()
    last_frame = max((index for index, line in enumerate(lines) if line.startswith(_FRAME)), default=None)
    if last_frame is None:
        return error
    after = range(last_frame + 1, len(lines))
    start = next((index for index in after if lines[index].strip() and not lines[index].startswith(" ")), None)
    return error if start is None else "\n".join(lines[start:])


def error_line(error: str | None) -> str:
    """Return the line of an error that says what is wrong: the exception of a traceback, else the first line."""
    return next((line.strip() for line in without_frames(error or "").splitlines() if line.strip()), "")
