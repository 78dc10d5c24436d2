"""Tasks that users of other schedule pages ask for, each within two clicks of the home page.

Keys and text are no clicks; a choice in a list is one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.faults.process import Server
from tests.page.chromium import NARROW, Tab, open_tab
from tests.page.helping import post, until_api

pytestmark = pytest.mark.full
MAX_CLICKS = 2


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
    nav(home, "Jobs")
    home.see(home.page.get_by_role("cell", name="payroll-run"))
    for key in "jxjx":
        home.page.keyboard.press(key)
    home.see("2 jobs selected")
    button(home, "Pause")
    home.page.get_by_label("Note").fill("moving house")
    home.page.get_by_label("End").select_option("1h")
    home.page.get_by_label("Note").press("Enter")

    home.see("2 jobs paused")
    home.page.get_by_role("button", name="Undo").click()  # for the other tests
    until_api(home.url, "/jobs?state=paused", lambda found: len(found["items"]) == 1)


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

    home.see(home.page.get_by_role("region", name="What became of each time"))
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


def test_11_all_that_match_are_exactly_those(browser: Browser, tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        url = server.wait_until_serving().url
        for name in [f"import-{at:03}" for at in range(102)] + ["other-a", "other-b"]:
            target = {"type": "http", "url": "http://127.0.0.1:9/"}
            post(url, "/jobs", {"name": name, "schedule": "0 0 29 2 *", "target": target})
        with open_tab(browser, url) as home:
            home.open("/", "import-000")
            home.page.keyboard.press("g")
            home.page.keyboard.press("j")
            home.page.get_by_label("Search jobs by name").fill("import")
            home.page.wait_for_url("**/jobs?q=import")
            home.click(home.page.locator("thead input[type=checkbox]"))
            button(home, "Select all that match")
            home.page.get_by_role("button", name="Pause", exact=True).last.focus()
            home.page.keyboard.press("Enter")
            home.see("Pause 102 jobs")
            home.page.keyboard.press("Enter")
            home.see("102 jobs paused")

            paused = until_api(url, "/jobs?state=paused&limit=500", lambda found: len(found["items"]) == 102)
            assert {job["name"][:6] for job in paused["items"]} == {"import"}
            assert home.clicks <= MAX_CLICKS


def test_12_a_paused_job_says_so_on_its_own_page(home: Tab) -> None:
    job(home, "mail-digest")

    home.see("Paused by ops")
    home.see("database maintenance")


def test_13_failures_are_grouped_by_error_and_replayed_at_a_rate(home: Tab) -> None:
    home.page.keyboard.press("Control+k")
    home.page.keyboard.type("failed runs")
    home.click(home.page.get_by_role("option", name="Failed runs"))
    group = home.page.get_by_role("listitem").filter(has_text="HTTP 503")
    home.click(group.get_by_role("button", name="Replay"))
    home.page.get_by_label("Runs a minute").fill("1")
    home.page.get_by_label("Runs a minute").press("Enter")

    home.see("runs replayed")


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
        phone.see("cache-warmup runs now")

        assert phone.clicks <= MAX_CLICKS
