"""The error of a change that the database's state does not allow."""


class Refused(ValueError):
    """A call that is valid but was refused. `code` is the reason as the API reports it, such as `name_taken`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return Refused, (self.code, str(self))
