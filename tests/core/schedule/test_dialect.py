"""The cron dialect, one table for each row of the specification's. Dates were worked out on a calendar by hand."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from hourbell.core.schedule import Schedule, ScheduleError

NEW_YEAR = "2026-01-01 00:00"  # a Thursday

FIRES = {
    "lists, ranges and steps": {
        "5,10 0 * * *": "01-01 00:05, 00:10, 01-02 00:05",
        "1-3 0 * * *": "01-01 00:01, 00:02, 00:03, 01-02 00:01",
        "*/20 * * * *": "01-01 00:20, 00:40, 01:00",
        "10-50/20 0 * * *": "01-01 00:10, 00:30, 00:50, 01-02 00:10",
        "1-3,2-4,3 0 * * *": "01-01 00:01, 00:02, 00:03, 00:04, 01-02 00:01",
        "7,7,7 0 * * *": "01-01 00:07, 01-02 00:07",
        "9-9 9-9 * * *": "01-01 09:09, 01-02 09:09",
        "0 0 5-5 * *": "01-05, 02-05",
        "*/45 * * * *": "01-01 00:45, 01:00, 01:45, 02:00",
        "0 */9 * * *": "01-01 09:00, 18:00, 01-02 00:00",
        "0 0 */10 * *": "01-11, 01-21, 01-31, 02-01, 02-11",
        "0 0 1 */5 *": "06-01, 11-01, 2027-01-01",
        "0 0 * * 1-5/2": "01-02, 01-05, 01-07, 01-09",
        "50-55/99 * * * *": "01-01 00:50, 01:50",
        "*/99 * * * *": "01-01 01:00, 02:00",
        "01 02 03 04 *": "04-03 02:01, 2027-04-03 02:01",
        "0 12 31 * *": "01-31 12:00, 03-31 12:00, 05-31 12:00, 07-31 12:00",
        "0 0 29 2 *": "2028-02-29, 2032-02-29",
        "0 0 * * *": "01-02, 01-03",
    },
    "names": {
        "0 0 1 jan,Jul *": "07-01, 2027-01-01",
        "0 0 1 OCT-DEC/2 *": "10-01, 12-01, 2027-10-01",
        "0 0 * FEB mon": "02-02, 02-09",
        "0 0 * * FRI-SUN": "01-02, 01-03, 01-04, 01-09",
        "0 0 * * Mon-fri": "01-02, 01-05, 01-06",
        "0 0 * * MON-SUN/3": "01-04, 01-05, 01-08, 01-11",
        "0 0 * * SUN-TUE": "01-04, 01-05, 01-06, 01-11",
        "0 0 * * SUN-SUN": "01-04, 01-11",
    },
    "Sunday is 0 and 7": {
        "0 0 * * 0": "01-04, 01-11",
        "0 0 * * 7": "01-04, 01-11",
        "0 0 * * 0,7": "01-04, 01-11",
        "0 0 * * */2": "01-03, 01-04, 01-06, 01-08, 01-10",
        "0 0 * * */3": "01-03, 01-04, 01-07, 01-10",
        "0 0 * * */7": "01-04, 01-11",
        "0 0 * * 5-7": "01-02, 01-03, 01-04, 01-09",
        "0 0 * * 1-7/2": "01-02, 01-04, 01-05, 01-07, 01-09",
        "0 0 * * 0-7": "01-02, 01-03, 01-04",
        "0 0 * * 7#1": "01-04, 02-01",
        "0 0 * * 7L": "01-25, 02-22",
    },
    "L, LW, L-n and nW": {
        "0 0 L * *": "01-31, 02-28, 03-31, 04-30",
        "0 0 L 2 *": "02-28, 2027-02-28, 2028-02-29",
        "0 0 LW * *": "01-30, 02-27, 03-31, 04-30, 05-29",
        "0 0 L-3 * *": "01-28, 02-25, 03-28, 04-27",
        "0 0 L-29 * *": "01-02, 03-02, 04-01, 05-02",
        "0 0 L-30 * *": "03-01, 05-01, 07-01, 08-01",
        "0 0 15W * *": "01-15, 02-16, 03-16, 04-15, 05-15, 06-15, 07-15, 08-14",
        "0 0 1W * *": "02-02, 03-02, 04-01, 05-01, 06-01, 07-01, 08-03",
        "0 0 30W * *": "01-30, 03-30, 04-30, 05-29",
        "0 0 31W * *": "01-30, 03-31, 05-29, 07-31, 08-31",
        "0 0 1,L * *": "01-31, 02-01, 02-28, 03-01",
        "0 0 L-1,L * *": "01-30, 01-31, 02-27, 02-28",
        "0 0 1W,15W * *": "01-15, 02-02, 02-16",
        "0 0 LW,L * *": "01-30, 01-31, 02-27, 02-28, 03-31",
    },
    "d#n, dL and d#L": {
        "0 0 * * 1#1": "01-05, 02-02, 03-02, 04-06",
        "0 0 * * 5#2": "01-09, 02-13, 03-13",
        "0 0 * * FRI#5": "01-30, 05-29, 07-31, 10-30",
        "0 0 * * 5L": "01-30, 02-27, 03-27, 04-24",
        "0 0 * * 5#L": "01-30, 02-27, 03-27, 04-24",
        "0 0 * * friL": "01-30, 02-27",
        "0 0 * * fri#L": "01-30, 02-27",
        "0 0 * * 1#1,1#3": "01-05, 01-19, 02-02, 02-16",
        "0 0 * * MON#1,FRIL": "01-05, 01-30, 02-02, 02-27",
        "0 0 * * 1,5L": "01-05, 01-12, 01-19, 01-26, 01-30, 02-02",
        "0 0 ? 11 4#4": "11-26, 2027-11-25",
    },
    "? means any day": {
        "0 0 ? * *": "01-02, 01-03",
        "0 0 * * ?": "01-02, 01-03",
        "0 0 ? * ?": "01-02, 01-03",
        "0 0 ? * 1": "01-05, 01-12",
        "0 0 15 * ?": "01-15, 02-15",
    },
    "either day, with + both": {
        "0 0 13 * 5": "01-02, 01-09, 01-13, 01-16",
        "0 0 13 * +5": "02-13, 03-13, 11-13, 2027-08-13",
        "0 0 0 13 * +5": "02-13, 03-13, 11-13",
        "0 0 1-7 * +1": "01-05, 02-02, 03-02",
        "0 0 L * +5": "07-31, 2027-04-30",
        "0 0 L * 5L": "01-30, 01-31, 02-27, 02-28",
        "0 0 15W * +1": "02-16, 03-16, 06-15, 11-16",
        "0 0 * * +5": "01-02, 01-09",
        "0 0 13 * +*": "01-13, 02-13",
    },
    "only a bare * is unrestricted": {
        "0 0 */2 * 1": "01-03, 01-05, 01-07, 01-09, 01-11, 01-12, 01-13",
        "0 0 */2 * +1": "01-05, 01-19, 02-09, 02-23",
        "0 0 */1 * 1": "01-02, 01-03, 01-04",
        "0 0 1-31 * 1": "01-02, 01-03, 01-04",
        "0 0 *,1 * 1": "01-02, 01-03, 01-04",
        "0 0 13 * */2": "01-03, 01-04, 01-06, 01-08, 01-10, 01-11, 01-13",
        "0 0 13 * 0-6": "01-02, 01-03",
        "0 0 * * 1": "01-05, 01-12",
        "0 0 13 * *": "01-13, 02-13",
    },
}


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def firings(expression: str, after: str, number: int, name: str | None = None) -> list[str]:
    found = Schedule.parse(expression, name=name).between(instant(after), instant("2199-12-31 23:59"))
    return [f"{at:%Y-%m-%d %H:%M:%S}".removesuffix(":00") for at in islice(found, number)]


def errors(expression: str) -> list[str]:
    with pytest.raises(ScheduleError) as caught:
        Schedule.parse(expression)
    return [str(detail) for detail in caught.value.errors]


def rows(*table: tuple[str, ...]) -> list[object]:
    """Cases of (expression, what is expected…), named by their expression."""
    return [pytest.param(*row, id=row[0]) for row in table]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [pytest.param(*row, id=f"{table}: {row[0]}") for table, cases in FIRES.items() for row in cases.items()],
)
def test_an_expression_fires_on_the_dates_of_the_calendar(expression: str, expected: str) -> None:
    """An expected date without its year, or a time without its date, goes on from the one before."""
    whole: list[str] = []
    for entry in expected.split(", "):
        before = whole[-1] if whole else NEW_YEAR
        date, _, time = entry.rpartition(" ") if ":" in entry else (entry, "", "00:00")
        date = before[: 10 - len(date)] + date
        whole.append(f"{date} {time}")

    assert firings(expression, NEW_YEAR, len(whole)) == whole


@pytest.mark.parametrize(
    ("expression", "detail"),
    rows(
        ("5/15 * * * *", "minute field, column 1: a step needs '*' or a range; write 5-59/15"),
        ("0 8/2 * * *", "hour field, column 3: a step needs '*' or a range; write 8-23/2"),
        ("0 0 1/7 * *", "day-of-month field, column 5: a step needs '*' or a range; write 1-31/7"),
        ("0 0 1 3/3 *", "month field, column 7: a step needs '*' or a range; write 3-12/3"),
        ("0 0 * * 1/2", "day-of-week field, column 9: a step needs '*' or a range; write 1-6/2"),
        ("10/20 0 0 * * *", "second field, column 1: a step needs '*' or a range; write 10-59/20"),
        ("0 0 0 1 1 * 2026/2", "year field, column 13: a step needs '*' or a range; write 2026-2199/2"),
        ("0,30/5 9 * * *", "minute field, column 3: a step needs '*' or a range; write 30-59/5"),
    ),
)
def test_a_step_on_a_single_value_is_refused(expression: str, detail: str) -> None:
    assert errors(expression) == [detail]


@pytest.mark.parametrize(
    ("expression", "written", "instead"),
    rows(
        ("0 22-2 * * *", "22-2", "22-23,0-2"),
        ("50-10 * * * *", "50-10", "50-59,0-10"),
        ("0 0 25-5 * *", "25-5", "25-31,1-5"),
        ("0 0 1 NOV-FEB *", "NOV-FEB", "NOV-DEC,JAN-FEB"),
        ("0 0 1 12-2 *", "12-2", "12,1-2"),
        ("0 0 * * FRI-MON", "FRI-MON", "FRI-SUN,MON"),
        ("0 0 * * SAT-TUE", "SAT-TUE", "SAT-SUN,MON-TUE"),
        ("0 0 * * 6-2", "6-2", "6-7,1-2"),
        ("0 0 * * 5-0", "5-0", "5-7"),
        ("0 0 * * 7-2", "7-2", "0-2"),
        ("0 0 0 1 1 * 2030-2027", "2030-2027", "2027-2030"),
    ),
)
def test_a_range_that_wraps_around_is_refused(expression: str, written: str, instead: str) -> None:
    [detail] = errors(expression)

    assert detail.endswith(f": range {written} runs backwards; write {instead}")
    assert Schedule.parse(expression.replace(written, instead)).next(instant(NEW_YEAR))


def test_a_range_that_wraps_around_with_a_step_is_spelled_out() -> None:
    assert errors("0 22-4/2 * * *") == ["hour field, column 3: range 22-4 runs backwards; write 22,0,2,4"]


@pytest.mark.parametrize("name", ["FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"])
def test_every_month_has_its_name(name: str) -> None:
    [found] = firings(f"0 0 1 {name} *", NEW_YEAR, 1)

    assert f"{instant(found):%b}".upper() == name


@pytest.mark.parametrize("name", ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"])
def test_every_weekday_has_its_name(name: str) -> None:
    found = firings(f"0 0 * * {name}", NEW_YEAR, 3)

    assert [f"{instant(at):%a}".upper() for at in found] == [name] * 3


@pytest.mark.parametrize(
    ("expression", "detail"),
    rows(
        ("0 0 l * *", "l is lower case; write L"),
        ("0 0 lw * *", "lw is lower case; write LW"),
        ("0 0 15w * *", "15w is lower case; write 15W"),
        ("0 0 L-3W * *", "L-3W is not supported; write LW for the last weekday of the month"),
        ("0 0 1-5W * *", "1-5W: W takes a single day; write 15W, or 1W,15W"),
    ),
)
def test_unsupported_forms_of_l_and_w_are_refused(expression: str, detail: str) -> None:
    assert errors(expression) == [f"day-of-month field, column 5: {detail}"]


@pytest.mark.parametrize(
    "expression", ["? 0 0 * * * *", "0 ? 0 * * * *", "0 0 ? * * * *", "0 0 0 * ? * *", "0 0 0 * * * ?"]
)
def test_a_question_mark_is_refused_outside_the_day_fields(expression: str) -> None:
    [detail] = errors(expression)

    assert detail.endswith("'?' is for the two day fields; write *")
    assert f"column {expression.index('?') + 1}:" in detail


@pytest.mark.parametrize("year", ["2027", "60", "2027-2030", "2027,2028"])
def test_a_year_in_the_sixth_of_six_fields_is_explained(year: str) -> None:
    for detail in errors(f"0 9 * * 1-5 {year}"):
        assert detail.startswith("day-of-week field, column 1")
        assert "the sixth is the weekday and seconds come first" in detail


@pytest.mark.parametrize("expression", ["0 9 * * 1-5 59", "0 0 9 * * 2027 *"])
def test_another_wrong_weekday_is_not_taken_for_a_year(expression: str) -> None:
    [detail] = errors(expression)

    assert detail.endswith("is outside 0-7")


@pytest.mark.parametrize("expression", ["0\t9\t*\t*\t1-5", "  0 9   * *  1-5  ", "0 \t 9 * * 1-5\t"])
def test_spaces_and_tabs_separate_fields(expression: str) -> None:
    assert firings(expression, NEW_YEAR, 2) == ["2026-01-01 09:00", "2026-01-02 09:00"]


@pytest.mark.parametrize(
    ("character", "hint"),
    [
        pytest.param(character, hint, id=f"U+{ord(character):04X}")
        for character, hint in [
            *((space, "separate fields with spaces or tabs") for space in "\n\r\v\f\u00a0\u2003\u3000\u2028"),
            *((sign, "write plain ASCII") for sign in "–−＊５٣é\u200b\x00\x7f\U0001f552"),
        ]
    ],
)
def test_any_other_character_is_refused_at_its_column(character: str, hint: str) -> None:
    [detail] = errors(f"0 9{character} * * *")

    assert detail.startswith("column 4: ")
    assert detail.endswith(hint)


def test_512_characters_are_read_and_no_more() -> None:
    longest = "0 9 * * 1" + ",1" * 251 + " "

    assert len(longest) == 512
    assert firings(longest, NEW_YEAR, 1) == ["2026-01-05 09:00"]
    assert errors(longest + " ") == ["the schedule is 513 characters long; at most 512 are read"]


def test_without_a_name_h_is_refused() -> None:
    assert errors("H 3 * * *") == ["minute field, column 1: H needs the job's name to spread by; give a name"]


@pytest.mark.parametrize(
    ("expression", "field", "lowest", "highest"),
    [
        ("H * * * *", 0, 0, 59),
        ("0 H * * *", 1, 0, 23),
        ("0 0 H * *", 2, 1, 28),
        ("0 0 1 H *", 3, 1, 12),
        ("0 0 * * H", 4, 0, 6),
        ("H(10-19) * * * *", 0, 10, 19),
        ("0 H(0-7) * * *", 1, 0, 7),
        ("0 0 * * H(MON-FRI)", 4, 1, 5),
    ],
)
def test_h_spreads_jobs_over_the_whole_range(expression: str, field: int, lowest: int, highest: int) -> None:
    resolved = [Schedule.parse(expression, name=f"job {number}").resolved for number in range(1000)]

    assert {int(text.split()[field]) for text in resolved} == set(range(lowest, highest + 1))


def test_h_is_the_same_for_ever_and_differs_from_field_to_field() -> None:
    assert Schedule.parse("H H H H H", name="nightly backup").resolved == "52 0 27 11 3"


def test_h_with_a_step_begins_below_the_step() -> None:
    for number in range(100):
        minutes = [at[-2:] for at in firings("H/15 * * * *", NEW_YEAR, 4, name=f"job {number}")]
        first = int(min(minutes))
        assert first < 15
        assert sorted(map(int, minutes)) == [first, first + 15, first + 30, first + 45]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("H(5-5) 2 * * *", ["2026-03-08 07:00"], id="H alone is a fixed time"),
        pytest.param("H/60 2 * * *", [], id="H with a step is periodic"),
        pytest.param("*/60 2 * * *", [], id="like a star with a step"),
    ],
)
def test_h_meets_daylight_saving_as_its_form_says(expression: str, expected: list[str]) -> None:
    schedule = Schedule.parse(expression, timezone="America/New_York", name="nightly backup")
    found = schedule.between(instant("2026-03-07 12:00"), instant("2026-03-08 12:00"))

    assert [f"{at:%Y-%m-%d %H:%M}" for at in found] == expected
