"""The screens of the page, and what each shows of the story."""

import httpx


def screens_of(url: str) -> dict[str, str]:
    """Return the address of every screen, with a text that it shows once its data are there."""
    failed = first_run(url, "invoice-export", "failed")
    return {
        "/": "invoice-export",
        "/jobs": "warehouse-sync",
        "/jobs/new": "Expression",
        "/jobs/invoice-export": "503",
        "/jobs/invoice-export/edit": "Every 15 minutes",
        "/jobs/warehouse-sync/explain?at=2026-03-29T11:20:00Z": "overlap",
        "/runs": "db-backup",
        f"/runs/{failed}": "503",
        "/failed": "billing.example",
        "/forecast": "Forecast",
        "/incidents": "Not resolved",
        "/incidents?tab=channels": "New channel",
        "/incidents?tab=policies": "default",
        "/nodes": "rehearsal",
        "/audit": "mail-digest",
        "/tokens": "token",
        "/import": "crontab",
        "/login": "Continue",
    }


def first_run(url: str, job: str, state: str) -> str:
    """Return the id of the newest run of a job in a state."""
    answer = httpx.get(f"{url}/api/v1/runs", params={"job": job, "state": state, "limit": 1}, trust_env=False)
    return str(answer.raise_for_status().json()["items"][0]["id"])
