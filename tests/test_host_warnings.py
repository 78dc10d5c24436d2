"""A node logs a warning if a job's host resolves to a forbidden address."""

from pathlib import Path

from click.testing import CliRunner

from hourbell.cli.main import hourbell
from tests.faults.process import Server

FORBIDDEN = "localhost resolves to an address that webhooks may not reach ("
SETTING = "an operator can allow its network with HOURBELL_ALLOW_NETWORKS"


def test_a_job_to_a_name_of_this_machine_is_stored_with_a_warning(tmp_path: Path) -> None:
    with Server(tmp_path, HOURBELL_ALLOW_NETWORKS="10.0.0.0/8") as server:
        environment = {"HOURBELL_URL": server.url, "HOURBELL_TOKEN": None}
        create = ("job", "create", "inside", "--schedule", "@yearly", "--url", "http://localhost/hook")
        done = CliRunner().invoke(hourbell, create, env=environment)

        assert (done.exit_code, FORBIDDEN in done.stderr, SETTING in done.stderr) == (0, True, True), done.stderr
        assert server.get("/api/v1/jobs/inside").json()["target"]["url"] == "http://localhost/hook"
