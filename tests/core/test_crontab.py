"""Crontabs: what each line means, and that no line is lost, whatever it holds."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourbell.core.formats.crontab import (
    MAX_LINES,
    MAX_VARIABLE_NAMES,
    Blank,
    Comment,
    Crontab,
    Entry,
    Problem,
    Variable,
    parse_crontab,
)
from hourbell.core.formats.crontab_jobs import crontab_to_jobs, slug_of
from hourbell.core.formats.jobs_file import read_jobs_file
from hourbell.core.formats.jobs_file_export import export_jobs
from hourbell.core.job.body import job_to_body, parse_job
from tests.core.schedule.strategies import examples

FILES = sorted((Path(__file__).parents[1] / "crontabs").glob("*.cron"))

FIELDS = ["*", "*/5", "0", "7", "1-5", "MON", "jan", "H", "@daily", "@reboot", "-", "root", "/bin/x", "cd", "&&"]
SIGNS = ["%", "\\%", "#", "=", '"', "'", "", " ", "\t", "\r", "\0", "é", "\u2028", "\x0b", "\ufeff"]
tokens = st.sampled_from([*FIELDS, *SIGNS, "A=b", "CRON_TZ=Asia/Tokyo", "TZ=Mars"])
unusual_lines = st.one_of(
    st.lists(tokens, max_size=9).map(" ".join),
    st.lists(tokens, max_size=9).map("".join),
    st.text(st.characters(exclude_characters="\n"), max_size=30),
    st.sampled_from(["0 3 * * * /bin/x", "@daily root /bin/y%a%b", "# why", "", "A = 'b'"]),
)


def read(*lines: str, system: bool | None = False) -> Crontab:
    return parse_crontab("\n".join(lines) + "\n", system=system)


def entry(line: str, *, system: bool = False) -> Entry:
    [made] = read(line, system=system).entries
    return made


def problem(line: str, *, system: bool = False) -> str:
    [made] = read(line, system=system).problems
    return str(made)


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return data.decode("latin-1" if path.stem == "latin1" else "utf-8")


def as_written(made: Entry) -> str:
    """The command as a crontab has it, with its input."""
    stdin = "" if made.stdin is None else "%" + made.stdin.replace("%", "\\%").replace("\n", "%")
    return made.command.replace("%", "\\%") + stdin


def assert_nothing_is_lost(text: str, made: Crontab) -> None:
    """Every line is one thing; and what is not in a job is a comment or a problem, with its text."""
    given_lines = text.removeprefix("\ufeff").split("\n")
    given_lines = given_lines[:-1] if given_lines[-1] == "" else given_lines
    assert [line.line for line in made.lines] == list(range(1, len(given_lines) + 1))
    kinds = Counter(type(line) for line in made.lines)
    assert kinds[Entry] == len(made.entries)
    assert kinds[Variable] == len(made.env)
    assert kinds[Problem] == len(made.problems)
    for line, given_line in zip(made.lines, given_lines, strict=True):
        match line:
            case Blank():
                assert not given_line.removesuffix("\r").strip(" \t")
            case Comment():
                assert given_line.strip(" \t\r").startswith("#")
                assert line.text == given_line.strip(" \t\r")[1:].strip()
            case Problem():
                assert line.text == given_line.removesuffix("\r")
                assert line.message
            case Variable():
                assert line.name in given_line
                assert line.value in given_line
            case Entry():
                assert given_line.rstrip(" \t\r").endswith(as_written(line).rstrip(" \t\r"))
    tied = [comment.text for comment in made.comments if not comment.is_loose]
    assert tied == [text for each in made.entries for text in each.comments]


def assert_jobs_hold_it_all(made: Crontab) -> None:
    jobs, _ = crontab_to_jobs(made)
    assert len(jobs) == len(made.entries)
    for job, each in zip(jobs, made.entries, strict=True):
        assert parse_job(job_to_body(job)).definition == job
        assert not job.enabled
        assert job.target == {"type": "task", "name": f"crontab.{job.name}"}
        for part in (each.command, each.stdin or "", f"User: {each.user}" if each.user else "", *each.comments):
            assert part in job.description
    assert len({job.name for job in jobs}) == len(jobs)
    assert [job.definition for job in read_jobs_file(export_jobs(jobs), "toml", str).jobs] == jobs


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("system", [None, True, False])
def test_no_line_of_the_collection_is_lost(path: Path, system: bool | None) -> None:
    text = text_of(path)
    made = parse_crontab(text, system=system)

    assert_nothing_is_lost(text, made)
    assert_jobs_hold_it_all(made)


@examples(400)
@given(st.lists(unusual_lines, max_size=12), st.sampled_from(["\n", "\r\n"]), st.sampled_from([None, True, False]))
def test_no_line_of_any_text_is_lost(lines: list[str], end: str, system: bool | None) -> None:
    text = end.join(lines)
    made = parse_crontab(text, system=system)

    assert_nothing_is_lost(text, made)
    assert_jobs_hold_it_all(made)


@pytest.mark.parametrize(
    ("stem", "counts"),
    [
        ("user", (78, 3, 0)),
        ("system", (17, 2, 7)),
        ("variables", (5, 37, 12)),
        ("percent", (16, 0, 3)),
        ("zones", (11, 11, 7)),
    ],
)
def test_the_collection_is_read_as_a_person_would(stem: str, counts: tuple[int, int, int]) -> None:
    made = parse_crontab(text_of(FILES[0].parent / f"{stem}.cron"))

    assert (len(made.entries), len(made.env), len(made.problems)) == counts


@pytest.mark.parametrize(
    ("line", "schedule", "command"),
    [
        ("0 3 * * * /bin/x", "0 3 * * *", "/bin/x"),
        ("\t0\t3  * *\t* \t /bin/x  a   b  ", "0 3 * * *", "/bin/x  a   b"),
        ("@daily /bin/x", "@daily", "/bin/x"),
        ("@every_minute /bin/x", "* * * * *", "/bin/x"),
        ("0 0 1 * FRI /bin/x", "0 0 1 * FRI", "/bin/x"),
        ("0 0 */2 * 1 /bin/x", "0 0 */2 * +1", "/bin/x"),
        ("0 0 1 * */2 /bin/x", "0 0 1 * +*/2", "/bin/x"),
        ("0 0 */2 * * /bin/x", "0 0 */2 * *", "/bin/x"),
        ("0 3 * * * A=b /bin/x # c", "0 3 * * *", "A=b /bin/x # c"),
    ],
)
def test_an_entry_is_a_schedule_and_a_command(line: str, schedule: str, command: str) -> None:
    made = entry(line)

    assert (made.schedule, made.command) == (schedule, command)


def test_the_first_percent_ends_the_command_and_the_others_are_line_breaks() -> None:
    assert (entry("@daily a%b%c").command, entry("@daily a%b%c").stdin) == ("a", "b\nc")
    assert (entry(r"@daily date +\%F").command, entry(r"@daily date +\%F").stdin) == ("date +%F", None)
    assert entry(r"@daily a%50\% b").stdin == "50% b"
    assert entry("@daily a%").stdin == ""


def test_a_dash_in_front_keeps_an_entry_out_of_the_log() -> None:
    assert entry("-5 * * * * /bin/x").is_quiet
    assert entry("-5 * * * * /bin/x").schedule == "5 * * * *"
    assert not entry("5 * * * * /bin/x").is_quiet


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A=b", "A", "b"),
        ("  A \t= b  ", "A", "b"),
        ("A=", "A", ""),
        ('A=""', "A", ""),
        ("A=' b '", "A", " b "),
        ("\"A\"='b'", "A", "b"),
        ("A=b # c", "A", "b # c"),
        ("A=b=c", "A", "b=c"),
        ("A=it's", "A", "it's"),
        ("MAILTO=a@b, c@d", "MAILTO", "a@b, c@d"),
    ],
)
def test_a_variable_is_read_as_cron_does(line: str, name: str, value: str) -> None:
    assert read(line).env == (Variable(1, name, value),)


def test_variables_hold_for_the_lines_below() -> None:
    made = read("A=1", "@daily x", "A=2", "B=3", "@daily y").entries

    assert [each.environment for each in made] == [{"A": "1"}, {"A": "2", "B": "3"}]


def test_cron_tz_holds_for_the_lines_below_until_it_is_emptied() -> None:
    made = read("@daily a", "CRON_TZ=Asia/Tokyo", "@daily b", "CRON_TZ=", "@daily c", "CRON_TZ=UTC", "@daily d")

    assert [each.timezone for each in made.entries] == [None, "Asia/Tokyo", None, "UTC"]


@pytest.mark.parametrize("good", ["CRON_TZ=UTC", "CRON_TZ="])
def test_entries_below_a_zone_that_is_none_are_refused_until_the_next_good_one(good: str) -> None:
    made = read("@daily a", "CRON_TZ=Mars", "@daily b", "A=1", "0 3 * * * c", good, "@daily d")

    assert [each.command for each in made.entries] == ["a", "d"]
    assert [str(each).partition(";")[0] for each in made.problems] == [
        "line 2: CRON_TZ: unknown time zone 'Mars'",
        "line 3: its time zone is not known, because CRON_TZ on line 2 could not be read",
        "line 5: its time zone is not known, because CRON_TZ on line 2 could not be read",
    ]


def test_comments_directly_above_belong_to_the_entry() -> None:
    made = read("# head", "", "# one", "#two", "@daily x", "# tail")

    assert made.entries[0].comments == ("one", "two")
    assert [(each.line, each.is_loose) for each in made.comments] == [(1, True), (3, False), (4, False), (6, True)]


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("@reboot x", "line 1: @reboot is not a time; make it a systemd service"),
        ("0 3 * * *", "line 1: there is no command; write one after the schedule"),
        ("0 3 * *", "line 1: expected 5 fields and a command, got 4 words; write minute hour"),
        ("7 7", "line 1: expected 5 fields and a command, got 2 words; write minute hour"),
        ("7", "line 1: expected 5 fields and a command, got 1 word; write minute hour"),
        ("0 3 * * /bin/backup --full", "line 1: /bin/backup is where the weekday should be; write minute hour"),
        ("0 3 run-parts /etc/cron.daily x", "line 1: run-parts is where the day should be; write minute hour"),
        ("bogus line", "line 1: bogus is where the minute should be; write minute hour"),
        ("0 3 * * monday x", "line 1: day-of-week field, column 9: monday"),
        ("60 3 * * * x", "line 1: minute field, column 1: 60 is outside 0-59"),
        ("H 3 * * * x", "line 1: H is not cron syntax"),
        ("0~9 3 * * * x", "line 1: 0~9 is a random value"),
        ("0 0 9 * * 1-5 x", "line 1: the command would begin with 1-5; cron has five fields"),
        ("0 0 30 2 * x", "line 1: 0 0 30 2 * never fires"),
        ('A="b', 'line 1: the value of A has no closing "'),
        ("@daily %x", "line 1: there is no command before the %"),
        ("@daily " + "x" * 4_000, "line 1: the line is longer than 4000 characters; put the command in a script"),
    ],
)
def test_a_problem_says_where_and_what_to_do(line: str, tokens: str) -> None:
    assert problem(line).startswith(tokens)


def test_an_entry_of_a_system_crontab_names_a_user() -> None:
    made = entry("17 *\t* * *\troot    cd / && run-parts /etc/cron.hourly", system=True)

    assert (made.user, made.command) == ("root", "cd / && run-parts /etc/cron.hourly")
    assert "'/bin/x' is not a user" in problem("0 3 * * * /bin/x a", system=True)
    assert problem("0 3 * * * root", system=True) == "line 1: there is no command; write one after the user"
    assert "* is where the user should be" in problem("0 0 3 * * * root x", system=True)


@pytest.mark.parametrize(
    ("lines", "is_system"),
    [
        (["0 3 * * * root /bin/x"], True),
        (["@daily www-data /bin/x"], True),
        (["# m h dom mon dow user\tcommand", "0 3 * * * deploy /bin/x"], True),
        (["0 3 * * * deploy /bin/x"], False),
        (["0 3 * * * root"], False),
        (["0 3 * * * php /srv/root x"], False),
        ([], False),
    ],
)
def test_the_form_is_guessed_from_the_file(lines: list[str], is_system: bool) -> None:
    made = read(*lines, system=None)

    assert made.is_system == is_system
    assert (made.guess is not None) == is_system


@pytest.mark.parametrize(
    ("command", "slug"),
    [
        ("/opt/shop/bin/backup.sh --full", "backup"),
        ("cd /srv && RAILS_ENV=x bundle exec rake", "bundle"),
        ("nice -n 19 ionice -c 3 /usr/bin/updatedb", "updatedb"),
        ("/usr/bin/env python3 -u /srv/Clean_Up.py", "clean_up"),
        ("[ -x /usr/bin/a ] && /usr/bin/b", "b"),
        ("bash -c 'echo hello'", "echo"),
        ("if [ -x /x ]; then /usr/bin/y; fi", "y"),
        ("&&", "entry"),
        ("ünïcode", "n-code"),
    ],
)
def test_a_job_is_named_after_its_program(command: str, slug: str) -> None:
    assert slug_of(command) == slug


def test_names_that_repeat_are_numbered() -> None:
    jobs, _ = crontab_to_jobs(read("@daily a-2", "@daily a", "@daily a", "@daily a"))

    assert [job.name for job in jobs] == ["a-2", "a", "a-3", "a-4"]


def test_names_may_begin_alike_and_stay_short_enough() -> None:
    jobs, _ = crontab_to_jobs(read("@daily a", "@daily " + "b" * 200), "UTC", prefix="web1-")

    assert [job.name for job in jobs] == ["web1-a", "web1-" + "b" * 75]
    assert jobs[0].target["name"] == "crontab.web1-a"


def test_a_job_says_all_that_was_known() -> None:
    made = read("PATH=/bin", "# Why", "-0 3 * * * root mail ops%hello%bye", system=True)
    [job], notes = crontab_to_jobs(made)

    assert job.description == (
        "Why\n\n"
        "Imported from a crontab, line 3. Disabled: the task is not written yet. The command was:\n"
        "mail ops\nIts input:\nhello\nbye\nUser: root\nNot logged by cron (-).\n\n"
        "Environment:\nPATH=/bin"
    )
    assert notes == [
        "cron uses the machine's zone, which a crontab does not say; without CRON_TZ jobs are in UTC; "
        "--timezone sets another"
    ]


def test_the_zone_is_that_of_cron_tz_then_the_one_given_then_tz() -> None:
    made = read("@daily a", "TZ=:Europe/Paris", "@daily b", "CRON_TZ=Asia/Tokyo", "@daily c")

    assert [job.timezone for job in crontab_to_jobs(made)[0]] == ["UTC", "Europe/Paris", "Asia/Tokyo"]
    jobs, notes = crontab_to_jobs(made, "Asia/Kolkata")
    assert [job.timezone for job in jobs] == ["Asia/Kolkata", "Asia/Kolkata", "Asia/Tokyo"]
    assert notes == []


def test_surprising_lines_get_a_note() -> None:
    made = read("DB_PASSWORD=x", "0 0 */2 * 1 a", "0 0 1 * 1 b")

    assert crontab_to_jobs(made, "UTC")[1] == [
        "line 2: cron wants both day fields to match in 0 0 */2 * 1; written as 0 0 */2 * +1",
        "line 3: in 0 0 1 * 1 either day field may match, as in cron",
        "line 1: the value of DB_PASSWORD is in the descriptions below; take it out if it is a secret",
    ]


def test_variables_that_are_too_long_for_a_description_are_reported() -> None:
    made = read(*(f"A{n}={'x' * 3_000}" for n in range(4)), "@daily a")
    [job], notes = crontab_to_jobs(made, "UTC")

    assert "xxx" not in job.description
    assert notes == ["line 5: the variables above it are too long for the description of its job; they are not in it"]


def test_a_crontab_of_one_megabyte_is_cut_off_and_costs_little() -> None:
    made = parse_crontab("* * * * * a\n" * 87_000)
    jobs, _ = crontab_to_jobs(made, "UTC")

    assert len(jobs) == MAX_LINES
    assert (jobs[1].name, jobs[-1].name) == ("a-2", f"a-{MAX_LINES}")
    [problem] = made.problems
    assert str(problem) == "line 10001: a crontab has at most 10,000 lines; 77,000 were not read; split the file"


def test_entries_share_the_variables_above_them() -> None:
    first, second, third = read("A=1", "@daily a", "@daily b", "B=2", "@daily c").entries

    assert first.environment is second.environment
    assert (first.environment, third.environment) == ({"A": "1"}, {"A": "1", "B": "2"})


def test_a_crontab_has_a_limited_number_of_variables() -> None:
    made = read(*(f"A{number}=x" for number in range(MAX_VARIABLE_NAMES + 2)), "A0=y", "@daily a")

    assert [each.line for each in made.problems] == [MAX_VARIABLE_NAMES + 1, MAX_VARIABLE_NAMES + 2]
    assert made.problems[0].message == "it is one of more than 200 variables"
    assert (len(made.entries[0].environment), made.entries[0].environment["A0"]) == (MAX_VARIABLE_NAMES, "y")


def test_the_descriptions_of_many_jobs_do_not_repeat_long_variables() -> None:
    jobs, _ = crontab_to_jobs(read(f"A={'x' * 2_000}", *["@daily a"] * 1_000), "UTC")

    assert sum(len(job.description) for job in jobs) < 200_000
