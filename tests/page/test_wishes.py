"""Tasks that users of other schedule pages ask for, each within two clicks of the home page.

A choice in a list is a click, too; text and Tab between the fields of a form are none.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.faults.process import Server
from tests.page.chromium import NARROW, Tab, open_tab
from tests.page.helping import post, until_api

pytestmark = pytest.mark.full
MAX_CLICKS = 2
NEVER = {"schedule": "0 0 29 2 *", "target": {"type": "http", "url": "http://127.0.0.1:9/"}}


@pytest.fixture
def home(browser: Browser, story: Server) -> Iterator[Tab]:
    with open_tab(browser, story.url) as tab:
        tab.open("/", "invoice-export")
        yield tab
        assert tab.clicks <= MAX_CLICKS


def nav(home: Tab, name: str) -> None:
    home.click(home.page.get_by_role("navigation", name="Screens").get_by_role("link", name=name))


def job(home: Tab, name: str) -> None:
    home.click(home.page.get_by_role("link", name=name, exact=True).first)
    home.see(home.page.get_by_role("heading", name=name))


def button(home: Tab, name: str) -> None:
    home.click(home.page.get_by_role("button", name=name, exact=True).first)


def write(home: Tab, label: str, text: str) -> None:
    """Replace the text of a field that has the focus, or that Tab reaches next."""
    field = home.page.get_by_label(label, exact=True)
    field.wait_for()
    if not field.evaluate("(field) => field === document.activeElement"):
        home.page.keyboard.press("Tab")
    assert field.evaluate("(field) => field === document.activeElement"), f"{label} needs another click"
    home.page.keyboard.press("Control+a")
    home.page.keyboard.type(text)


def test_1_find_a_job_by_typing_and_by_what_needs_attention(home: Tab) -> None:
    nav(home, "Jobs")
    home.page.get_by_label("Search jobs by name").fill("ware")

    home.page.wait_for_url("**/jobs?q=ware")
    home.page.wait_for_function("() => document.querySelectorAll('tbody tr').length === 1")
    home.see("warehouse-sync")


def test_1_the_tile_of_failing_jobs_lists_exactly_those(home: Tab) -> None:
    home.click(home.page.locator(".home-tile", has_text="Failing"))

    home.page.wait_for_url("**attention=failing*")
    home.page.wait_for_function("() => !document.querySelector('.home-timeline')?.innerText.includes('payroll-run')")
    home.see("invoice-export")


def test_2_pause_many_at_once_with_a_note_and_an_end(home: Tab) -> None:
    home.click(home.page.get_by_role("button", name="Pause or resume…"))
    write(home, "Jobs", "c")
    home.see("3 jobs whose names begin with c")
    write(home, "Note", "moving house")
    write(home, "End", "1h")
    button(home, "Pause 3 jobs")

    home.see("3 jobs paused")
    paused = until_api(home.url, "/jobs?state=paused&q=c", lambda found: len(found["items"]) == 3)["items"]
    home.page.get_by_role("button", name="Undo").click()  # for the other tests
    until_api(home.url, "/jobs?state=paused", lambda found: len(found["items"]) == 1)
    assert {job["name"] for job in paused} == {"cache-warmup", "cleanup-sessions", "customer-birthdays"}
    assert all(job["paused"]["note"] == "moving house" and job["paused"]["until"] for job in paused)


def test_2_resume_many_at_once(browser: Browser, tmp_path: Path, database: dict[str, str]) -> None:
    with Server(tmp_path, **database) as server:
        url = server.wait_until_serving().url
        for name in ("night-a", "night-b", "day-a"):
            post(url, "/jobs", {**NEVER, "name": name, "enabled": False})
        with open_tab(browser, url) as home:
            home.open("/", "night-a")
            home.click(home.page.get_by_role("button", name="Pause or resume…"))
            write(home, "Jobs", "night")
            button(home, "Resume 2 jobs")

            home.see("2 jobs resumed")
            [left] = until_api(url, "/jobs?state=paused", lambda found: len(found["items"]) == 1)["items"]
            assert left["name"] == "day-a"
            assert home.clicks <= MAX_CLICKS


def test_3_run_now_and_watch_it(home: Tab) -> None:
    button(home, "Run now: cleanup-sessions")
    button(home, "Watch the run")

    home.see(home.page.get_by_role("heading", name="Run of cleanup-sessions"))
    home.see("manual")


def test_4_all_jobs_on_one_time_line_and_the_load_by_hour(home: Tab) -> None:
    for name in ("invoice-export", "nightly-report", "payroll-run", "search-reindex"):
        home.see(home.page.locator(".home-timeline").get_by_text(name))
    nav(home, "Forecast")
    home.see(home.page.get_by_role("heading", name="Forecast"))


def test_5_what_was_skipped_and_why_without_a_click(home: Tab) -> None:
    attention = home.page.get_by_role("region", name="Needs attention")

    home.see(attention.get_by_text("warehouse-sync"))
    home.see(attention.get_by_text("overlap"))
    assert home.clicks == 0


def test_6_the_history_of_one_schedule(home: Tab) -> None:
    job(home, "nightly-report")

    home.see(home.page.get_by_role("region", name="Scheduled times"))
    home.see("succeeded")


def test_7_trends_of_duration_and_lateness(home: Tab) -> None:
    job(home, "warehouse-sync")

    home.see(home.page.get_by_role("region", name="Duration"))
    home.click(home.page.get_by_text("Lateness", exact=True))
    home.see(home.page.get_by_role("region", name="Lateness"))


def test_8_switch_the_zone_of_every_time(home: Tab) -> None:
    job(home, "customer-birthdays")
    home.see(home.page.get_by_text("+02:00"))
    home.clicks += 1
    home.page.get_by_label("Time zone of all times").select_option("utc")

    home.see(home.page.get_by_text("+00:00"))
    assert home.page.get_by_text("+02:00").count() == 0


def test_9_the_scheduled_time_beside_the_start(home: Tab) -> None:
    nav(home, "Runs")

    home.see(home.page.get_by_role("columnheader", name="Scheduled"))
    home.see(home.page.get_by_role("columnheader", name="Started"))


def test_10_the_next_times_while_editing(home: Tab) -> None:
    job(home, "cache-warmup")
    home.click(home.page.get_by_role("link", name="Edit", exact=True))
    schedule = home.page.get_by_label("Expression")
    home.see(schedule)
    schedule.fill("45 4 * * *")

    home.see("04:45")


def test_11_all_that_match_are_exactly_those(browser: Browser, tmp_path: Path, database: dict[str, str]) -> None:
    with Server(tmp_path, **database) as server:
        url = server.wait_until_serving().url
        for name in [f"import-{at:03}" for at in range(102)] + ["other-a", "other-b"]:
            post(url, "/jobs", {**NEVER, "name": name})
        with open_tab(browser, url) as home:
            home.open("/", "import-000")
            home.click(home.page.get_by_role("button", name="Pause or resume…"))
            write(home, "Jobs", "import")
            button(home, "Pause 102 jobs")
            home.see("102 jobs paused")

            paused = until_api(url, "/jobs?state=paused&limit=500", lambda found: len(found["items"]) == 102)
            assert {job["name"][:6] for job in paused["items"]} == {"import"}
            assert home.clicks <= MAX_CLICKS


def test_12_a_paused_job_says_so_on_its_own_page(home: Tab) -> None:
    job(home, "mail-digest")

    home.see("Paused by ops")
    home.see("database maintenance")


def test_13_failures_are_grouped_by_error_and_replayed_at_a_rate(home: Tab) -> None:
    failed = until_api(home.url, "/runs/groups", lambda found: len(found["items"]) == 1)["items"][0]
    home.click(home.page.get_by_role("button", name="Replay failed runs by error"))
    errors = home.page.get_by_role("group", name="Errors")
    home.see(errors.get_by_text("HTTP 503"))
    home.see(errors.get_by_text(f"{failed['count']} runs · invoice-export"))
    write(home, "Runs a minute", "1")
    button(home, f"Replay {failed['count']} runs")

    home.see(f"{failed['count']} runs replayed")
    path = "/runs?job=invoice-export&state=pending&limit=50"
    waiting = until_api(home.url, path, lambda found: len(found["items"]) > 1)["items"]
    ready = sorted(datetime.fromisoformat(run["ready_at"]) for run in waiting if run["kind"] == "replay")
    assert {(after - before).total_seconds() for before, after in pairwise(ready)} == {60}


def test_14_effective_defaults_are_marked(home: Tab) -> None:
    job(home, "cleanup-sessions")

    home.see(home.page.get_by_role("region", name="Settings").get_by_text("default"))


def test_15_pause_and_run_on_a_phone(browser: Browser, story: Server) -> None:
    with open_tab(browser, story.url, viewport=NARROW, has_touch=True) as phone:
        phone.open("/", "invoice-export")
        job(phone, "search-reindex")
        button(phone, "Pause")
        phone.page.get_by_label("Note").press("Enter")
        phone.see("search-reindex paused")

        assert phone.clicks <= MAX_CLICKS
    with open_tab(browser, story.url, viewport=NARROW, has_touch=True) as phone:
        phone.open("/", "invoice-export")
        button(phone, "Run now: cache-warmup")
        phone.see("cache-warmup was started")

        assert phone.clicks <= MAX_CLICKS
