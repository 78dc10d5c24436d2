"""The page by keyboard alone, and for callers of every role."""

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser

from tests.faults.process import Server
from tests.page.chromium import Tab, open_tab
from tests.page.helping import post, until_api

pytestmark = pytest.mark.full
MAX_TABS = 90
_FOCUSED = """
() => {
  const one = document.activeElement
  return [one.getAttribute('aria-label'), ...[...(one.labels ?? [])].map((label) => label.innerText), one.innerText]
    .filter(Boolean).map((text) => text.trim())
}
"""
FAILING = {
    "name": "fails",
    "schedule": "0 0 29 2 *",
    "retry": "none",
    "target": {"type": "http", "url": "http://127.0.0.1:9/"},
}
# What needs a role, on the page of a job, and on the one of a failed run.
ACTIONS = {"Run now": "operator", "Pause": "operator", "Edit": "editor", "Replay": "operator", "Discard": "operator"}
ROLES = ("viewer", "operator", "editor", "admin")


def tab_to(tab: Tab, name: str) -> None:
    """Press Tab until the element of this name has the focus."""
    seen = []
    for _ in range(MAX_TABS):
        tab.page.keyboard.press("Tab")
        seen.append(tab.page.evaluate(_FOCUSED))
        if any(text == name or text.startswith(f"{name}\n") for text in seen[-1]):
            return
    raise AssertionError(f"Tab does not reach {name!r}, but {seen}")


def test_create_run_pause_and_replay_by_keyboard_alone(
    browser: Browser, tmp_path: Path, database: dict[str, str]
) -> None:
    with Server(tmp_path, **database) as server:
        url = server.wait_until_serving().url
        post(url, "/jobs", FAILING)
        with open_tab(browser, url) as tab:
            keyboard = tab.page.keyboard
            tab.open("/", "fails")

            keyboard.press("Control+k")
            tab.see(tab.page.get_by_role("combobox", name="Find a job"))
            keyboard.type("new job")
            tab.see(tab.page.get_by_role("option", name="New job"))
            keyboard.press("Enter")
            tab.wait_loaded("Expression")
            tab_to(tab, "Name")
            keyboard.type("by-keyboard")
            tab_to(tab, "URL")
            keyboard.type("http://127.0.0.1:9/")
            tab_to(tab, "Create job")
            keyboard.press("Enter")
            until_api(url, "/jobs", lambda found: len(found["items"]) == 2)

            tab.see(tab.page.get_by_role("heading", name="by-keyboard", exact=True))
            tab.see(tab.page.get_by_role("region", name="Settings"))
            keyboard.press("p")
            tab.see(tab.page.get_by_label("Note"))
            keyboard.type("by keyboard alone")
            keyboard.press("Enter")
            tab.see("Paused by")
            tab.see("by keyboard alone")

            keyboard.press("Control+k")
            tab.see(tab.page.get_by_role("combobox", name="Find a job"))
            keyboard.type("fails")
            tab.see(tab.page.get_by_role("option", name="fails").first)
            keyboard.press("Enter")
            tab.see(tab.page.get_by_role("heading", name="fails", exact=True))
            tab.see(tab.page.get_by_role("region", name="Settings"))
            keyboard.press("t")
            tab.see("fails started")
            until_api(url, "/runs?state=failed", lambda found: len(found["items"]) == 1)

            keyboard.press("g")
            keyboard.press("r")
            tab.see(tab.page.get_by_role("heading", name="Runs", exact=True))
            tab.see(tab.page.get_by_role("cell", name="failed"))
            keyboard.press("j")
            keyboard.press("o")
            tab.see(tab.page.get_by_role("heading", name="Run of fails"))
            tab.see(tab.page.get_by_role("button", name="Replay"))
            keyboard.press("r")
            until_api(url, "/runs", lambda found: any(run["kind"] == "replay" for run in found["items"]))
            tab.see("replay")


def test_each_role_sees_only_the_actions_it_may_use(browser: Browser, tmp_path: Path, database: dict[str, str]) -> None:
    with Server(tmp_path, **database) as server:
        url = server.wait_until_serving().url
        post(url, "/jobs", FAILING)
        run = post(url, "/jobs/fails/trigger")["run_id"]
        until_api(url, f"/runs/{run}", lambda found: found["state"] == "failed")
        admin = post(url, "/tokens", {"name": "admin", "role": "admin"})["token"]
        tokens = {"admin": admin}
        for role in ROLES[:3]:
            answer = httpx.post(
                f"{url}/api/v1/tokens",
                json={"name": role, "role": role},
                headers={"Authorization": f"Bearer {admin}"},
                trust_env=False,
            )
            tokens[role] = answer.raise_for_status().json()["token"]
        for rank, role in enumerate(ROLES):
            with open_tab(browser, url, expected=("401",)) as tab:
                tab.open("/jobs/fails")
                tab.page.wait_for_url("**/login**")
                tab.page.get_by_label("Token", exact=True).fill(tokens[role])
                tab.page.get_by_role("button", name="Log in").click()
                tab.see(tab.page.get_by_role("heading", name="fails", exact=True))
                tab.see(tab.page.get_by_role("region", name="Settings"))
                shown = _actions(tab)
                tab.open(f"/runs/{run}", "fails")
                shown |= _actions(tab)

                assert shown == {name for name, needs in ACTIONS.items() if rank >= ROLES.index(needs)}, role
                has_audit = tab.page.get_by_role("link", name="Audit", exact=True).count() == 1
                assert has_audit == (role == "admin")


def _actions(tab: Tab) -> set[str]:
    found = tab.page.locator("button:visible, a.hb-button:visible").all_inner_texts()
    return {name for name in ACTIONS if name in {text.strip() for text in found}}
