"""Changes of the file for people whose birthday is near, also while no node runs."""

from dataclasses import replace
from datetime import UTC, date, datetime
from uuid import UUID

from examples.birthdays.load import Loaded, Person, birthday_job

from hourbell.receiver import Verifier
from hourbell.store.control.actor import Actor
from tests.engine.nodes import DAY, HOUR, MINUTE
from tests.examples.greetings import URL, Greetings, with_greetings

SOMEBODY = Person("p001", "Person", "001", date(1990, 2, 1), "Europe/Paris")
OTHER = replace(SOMEBODY, id="p002", last_name="002")
NEW_SECRET = "whsec_dGhlIG5ldyBvbmUsIGFsc28gYW4gZXhhbXBsZSwgMzI="
NINE = datetime(2040, 2, 1, 8, tzinfo=UTC)  # in Paris


@with_greetings
async def test_loading_the_same_file_again_changes_nothing(greetings: Greetings) -> None:
    first = await greetings.load([SOMEBODY, OTHER])

    again = await greetings.load([SOMEBODY, OTHER])

    assert (first, again) == (Loaded(added=2), Loaded())
    assert [row["version"] for row in await greetings.cluster.rows("jobs")] == [2, 2]  # made, and switched on
    assert len(await greetings.cluster.rows("secrets")) == 2


@with_greetings
async def test_a_name_that_changes_is_in_the_next_greeting(greetings: Greetings) -> None:
    await greetings.load([SOMEBODY])

    assert await greetings.load([replace(SOMEBODY, last_name="One")]) == Loaded(changed=1)
    await greetings.serve_at(NINE)

    assert greetings.greeted["p001", 2040].message == "Hey, Person One it's your birthday"


@with_greetings
async def test_a_person_added_while_no_node_runs_is_greeted_when_one_does(greetings: Greetings) -> None:
    await greetings.cluster.advance_to(NINE - HOUR)
    await greetings.load([SOMEBODY])

    await greetings.serve_at(NINE + DAY)

    assert greetings.greeted["p001", 2040].scheduled_at == NINE


@with_greetings
async def test_a_person_who_moves_during_a_downtime_keeps_the_missed_birthday(greetings: Greetings) -> None:
    await greetings.load([SOMEBODY])
    await greetings.cluster.advance_to(NINE + HOUR)
    await greetings.load([replace(SOMEBODY, timezone="Asia/Tokyo")])

    await greetings.serve_at(NINE + DAY)

    assert [each.scheduled_at for each in greetings.delivered] == [NINE]


@with_greetings
async def test_a_person_who_moves_west_that_day_reaches_nine_twice_and_is_greeted_once(greetings: Greetings) -> None:
    await greetings.load([SOMEBODY])
    await greetings.serve_at(NINE)
    await greetings.load([replace(SOMEBODY, timezone="America/New_York")])

    await greetings.serve_at(NINE + 6 * HOUR)

    assert [each.scheduled_at for each in greetings.delivered] == [NINE, NINE + 6 * HOUR]
    assert greetings.greeted.keys() == {("p001", 2040)}


@with_greetings
async def test_a_removed_person_is_greeted_no_more_and_may_come_back(greetings: Greetings) -> None:
    await greetings.load([SOMEBODY, OTHER])
    assert await greetings.load([OTHER]) == Loaded(removed=1)
    await greetings.serve_at(NINE)

    assert greetings.greeted.keys() == {("p002", 2040)}
    assert await greetings.load([SOMEBODY, OTHER]) == Loaded(added=1)


@with_greetings
async def test_a_greeting_under_which_the_last_node_died_outlives_days_of_downtime(greetings: Greetings) -> None:
    await greetings.load([SOMEBODY])
    greetings.crash_before = SOMEBODY.id
    await greetings.serve_at(NINE)
    assert greetings.delivered == []

    await greetings.serve_at(NINE + 3 * DAY, until=2 * MINUTE)

    assert greetings.greeted.keys() == {("p001", 2040)}


@with_greetings
async def test_a_secret_is_replaced_only_when_asked(greetings: Greetings) -> None:
    await greetings.load([SOMEBODY])
    await greetings.load([SOMEBODY, OTHER], NEW_SECRET)
    await greetings.load([SOMEBODY, OTHER], NEW_SECRET, sign_again=True)
    greetings.verifier = Verifier(NEW_SECRET)

    await greetings.serve_at(NINE)

    assert greetings.greeted.keys() == {("p001", 2040), ("p002", 2040)}


@with_greetings
async def test_an_operators_pause_survives_a_load(greetings: Greetings) -> None:
    await greetings.load([SOMEBODY])
    job = await greetings.cluster.control.get_job("birthday-p001")
    assert job is not None
    await greetings.cluster.pause(job)

    await greetings.load([replace(SOMEBODY, last_name="One")])
    await greetings.serve_at(NINE)

    assert greetings.delivered == []


@with_greetings
async def test_a_load_that_broke_off_before_the_secret_is_finished_by_the_next(greetings: Greetings) -> None:
    half_made = replace(birthday_job(SOMEBODY, URL), enabled=False)
    await greetings.cluster.control.create_job(half_made, UUID(int=1), Actor("load.py", greetings.cluster.now()))
    await greetings.serve_at(NINE)
    assert greetings.delivered == []

    await greetings.load([SOMEBODY])
    await greetings.serve_at(NINE + HOUR)

    assert greetings.greeted.keys() == {("p001", 2040)}
