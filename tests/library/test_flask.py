"""A Flask application's scheduler starts where the application is served, and nowhere else."""

import threading
from pathlib import Path

import pytest
from flask import Flask

from hourbell import Scheduler
from hourbell.flask import Hourbell
from tests.library.scripts import TICKING, Script
from tests.servers.process import free_port

WEB = f"""
{TICKING}
from flask import Flask
from hourbell.flask import Hourbell

app = Flask(__name__)
Hourbell(app, scheduler)

@app.cli.command()
def wait():
    time.sleep(2.5)
    print("waited", flush=True)
"""


def test_commands_of_flask_run_no_jobs(tmp_path: Path) -> None:
    with Script(tmp_path, "-m", "flask", "--app", "program", "wait", text=WEB) as script:
        assert script.wait() == 0

    assert script.lines == ["waited"]
    assert not (tmp_path / "hourbell.db").exists()


@pytest.mark.parametrize("how", [("--reload",), pytest.param((), marks=pytest.mark.full)])
def test_it_runs_where_flask_serves_and_not_in_the_process_that_only_reloads(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    arguments = ("--app", "program", "run", "--port", str(free_port()), *how)
    with Script(tmp_path, "-m", "flask", *arguments, text=WEB) as script:
        script.wait_for("tick", times=3)
        script.interrupt()
        script.wait()

    workers = {line.split()[1] for line in script.lines if line.startswith("tick")}
    assert len(workers) == 1
    assert (str(script.pid) in workers) == (not how)


def test_the_environment_forbids_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOURBELL_START", "0")
    scheduler = Scheduler("shop")
    Hourbell(Flask("shop"), scheduler)
    scheduler.start()

    assert "hourbell" not in [each.name for each in threading.enumerate()]
    with pytest.raises(LookupError, match="there is no job 'report'"):
        scheduler.blocking.trigger("report")


def test_the_config_forbids_a_start() -> None:
    scheduler, app = Scheduler("shop"), Flask("shop")
    app.config["HOURBELL_START"] = False
    Hourbell(app, scheduler)

    assert "hourbell" not in [each.name for each in threading.enumerate()]
