"""Commands that start the servers, as their documentation shows, with four workers."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import WebServer
from tests.servers.programs import write_django, write_fastapi, write_flask


@dataclass(frozen=True)
class Kind:
    """A server with the program it loads; the options come before the application."""

    write: Callable[[Path], None]
    command: tuple[str, ...]
    app: str

    def start(self, folder: Path, url: str | None, *options: str, tick_seconds: float = 0) -> WebServer:
        """The environment: only the database is set, if it is not the file in the folder."""
        self.write(folder)
        environment = {"TICK_SECONDS": str(tick_seconds)} | ({} if url is None else {"DATABASE_URL": url})
        return WebServer(folder, lambda port: self._command(port, options), **environment)

    @property
    def recycling(self) -> tuple[str, ...]:
        """The option by which a worker ends after a few requests."""
        return ("--max-requests", "8") if self.command[0] == "gunicorn" else ("--limit-max-requests", "8")

    def _command(self, port: int, options: tuple[str, ...]) -> list[str]:
        where = ["-b", f"127.0.0.1:{port}"] if self.command[0] == "gunicorn" else ["--port", str(port)]
        return [*self.command, *where, *options, self.app]


_GUNICORN = ("gunicorn", "-w", "4")
KINDS = {
    "fastapi-gunicorn": Kind(write_fastapi, (*_GUNICORN, "-k", "uvicorn.workers.UvicornWorker"), "web:app"),
    "fastapi-uvicorn": Kind(write_fastapi, ("uvicorn", "--workers", "4", "--log-level", "warning"), "web:app"),
    "flask": Kind(write_flask, _GUNICORN, "web:app"),
    "flask-preload": Kind(write_flask, (*_GUNICORN, "--preload"), "web:app"),
    "django": Kind(write_django, _GUNICORN, "project.wsgi"),
}
