"""Sources and formats of settings, and errors for invalid ones."""

import base64
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from hourbell.settings import (
    READERS,
    Address,
    DatabaseUrlError,
    Settings,
    SettingsError,
    load_settings,
    masked,
    parse_database_url,
    servers_of,
    variables_of,
)

ROOT = Path(__file__).parents[1]
KEY = base64.b64encode(b"k" * 32).decode()


def load(
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    file: str = "",
    folder: Path = Path("/nowhere"),
) -> Settings:
    if file:
        (folder / "hourbell.toml").write_text(file)
    return load_settings(flags or {}, environment=environment or {}, folder=folder)


def complaint(environment: Mapping[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        load(environment)
    return str(caught.value)


def test_without_anything_the_defaults_of_the_design_hold() -> None:
    settings = load()

    assert settings.database_url == "sqlite:///hourbell.db"
    assert settings.http_addr == Address("127.0.0.1", 8080)
    assert (settings.tick_interval, settings.lease) == (timedelta(seconds=30), timedelta(seconds=60))
    assert (settings.retention, settings.keep_runs) == (timedelta(days=30), 20)
    assert (settings.slots, settings.sync_threads) == (1000, 32)
    assert settings.reconcile_interval == timedelta(minutes=5)
    assert set(settings.origins.values()) == {"default"}


def test_every_setting_can_be_read() -> None:
    assert set(READERS) == {each.name for each in fields(Settings)} - {"origins", "unknown_variables"}


def test_a_flag_overrides_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    file = 'lease = "1m"\nslots = 5\nkeep_runs = 7'
    environment = {"HOURBELL_LEASE": "2m", "HOURBELL_SLOTS": "6"}
    settings = load(environment, {"lease": "3m", "slots": None}, file, tmp_path)

    assert (settings.lease, settings.slots, settings.keep_runs) == (timedelta(minutes=3), 6, 7)
    assert settings.origins["lease"] == "--lease"
    assert settings.origins["slots"] == "HOURBELL_SLOTS"
    assert settings.origins["keep_runs"] == "hourbell.toml"
    assert settings.origins["retention"] == "default"


def test_the_settings_file_is_searched_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hourbell.toml").write_text("slots = 12")
    monkeypatch.chdir(tmp_path)

    assert load_settings(environment={}).slots == 12


def test_the_environment_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOURBELL_SLOTS", "13")

    assert load_settings(folder=tmp_path).slots == 13


@pytest.mark.parametrize(
    "name",
    [
        "DATABASE_URL",
        "HTTP_ADDR",
        "TICK_INTERVAL",
        "RECONCILE_ENABLED",
        "RECONCILE_INTERVAL",
        "RECONCILE_THRESHOLD",
        "RECONCILE_BATCH_SIZE",
        "REDIS_URL",
    ],
)
def test_some_variables_are_read_with_and_without_the_prefix(name: str) -> None:
    assert variables_of(name.lower()) == (f"HOURBELL_{name}", name)


def test_all_others_are_read_only_with_the_prefix() -> None:
    settings = load({"LEASE": "2m", "SLOTS": "1", "LOG_LEVEL": "debug"})

    assert (settings.lease, settings.slots, settings.log_level) == (timedelta(seconds=60), 1000, "info")


def test_the_variable_with_the_prefix_is_the_stronger_one() -> None:
    settings = load({"TICK_INTERVAL": "10s", "HOURBELL_TICK_INTERVAL": "20s"})

    assert settings.tick_interval == timedelta(seconds=20)
    assert settings.origins["tick_interval"] == "HOURBELL_TICK_INTERVAL"


def test_an_empty_variable_counts_as_not_set() -> None:
    settings = load({"DATABASE_URL": "", "HOURBELL_SLOTS": ""})

    assert (settings.origins["database_url"], settings.origins["slots"]) == ("default", "default")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("2h30m", 9_000), ("1d", 86_400), ("5m0s", 300), ("1h0m0s", 3_600), (" 30s ", 30)],
)
def test_durations_are_written_as_people_and_go_write_them(text: str, seconds: int) -> None:
    assert load({"TICK_INTERVAL": text}).tick_interval == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["30", "soon", "-5s", "0s", "1.5h", "500ms", "30 s", "999999999w"])
def test_a_bad_duration_is_reported_with_its_variable_its_value_and_the_allowed_range(text: str) -> None:
    expected = f"TICK_INTERVAL is '{text}'; write a duration of 1s or more, as in 90s, 15m, 2h30m or 1d"

    assert complaint({"TICK_INTERVAL": text}) == expected


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("HOURBELL_SLOTS", "0", "write a number from 1 to 100000"),
        ("HOURBELL_SLOTS", "many", "write a number from 1 to 100000"),
        ("RECONCILE_BATCH_SIZE", "-1", "write a number from 1 to 100000"),
        ("HOURBELL_LOG_FORMAT", "xml", "write console or json"),
        ("HOURBELL_LOG_LEVEL", "loud", "write debug, info, warning or error"),
        ("HOURBELL_METRICS_JOB_NAMES", "perhaps", "write 1 or 0, true or false"),
        ("HTTP_ADDR", "8080", "write host:port, as in 127.0.0.1:8080, or :8080 for all interfaces"),
        ("HTTP_ADDR", "http://localhost:8080", "write host:port, as in 127.0.0.1:8080, or :8080 for all interfaces"),
        ("HTTP_ADDR", ":99999", "write host:port, as in 127.0.0.1:8080, or :8080 for all interfaces"),
    ],
)
def test_a_bad_value_is_one_line_that_names_it(variable: str, value: str, allowed: str) -> None:
    assert complaint({variable: value}) == f"{variable} is '{value}'; {allowed}"


def test_a_long_or_strange_value_still_makes_one_short_line() -> None:
    line = complaint({"HOURBELL_LEASE": "a\nb\x1b[31m" + "x" * 1_000})

    assert line.isprintable()
    assert len(line) < 200


def test_bad_settings_end_the_process_with_code_2_and_a_bad_database_url_with_1() -> None:
    assert SettingsError.exit_code == 2
    assert DatabaseUrlError.exit_code == 1
    with pytest.raises(DatabaseUrlError):
        load({"DATABASE_URL": "mysql://localhost/jobs"})


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ('lease = "x"', "lease in hourbell.toml is 'x'; write a duration of 1s or more, as in 90s, 15m, 2h30m or 1d"),
        ("lease = 30", "lease in hourbell.toml is '30'; write a duration of 1s or more, as in 90s, 15m, 2h30m or 1d"),
        ("slots = true", "slots in hourbell.toml is 'true'; write a number from 1 to 100000"),
        ("leese = 1", "'leese' in hourbell.toml is not a setting; did you mean lease?"),
        ("colour = 1", "'colour' in hourbell.toml is not a setting; write one of database_url, require_database, "),
        ("lease = ", "hourbell.toml is not valid TOML: "),
    ],
)
def test_a_bad_settings_file_is_reported_with_its_key(file: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(file=file, folder=tmp_path)

    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_bad_flag_is_reported_as_it_was_written() -> None:
    with pytest.raises(SettingsError, match=r"^--drain-timeout is 'x'; write a duration of 0s or more"):
        load(flags={"drain_timeout": "x"})


@pytest.mark.parametrize(
    ("text", "address", "shown"),
    [
        (":8080", Address("", 8080), ":8080"),
        ("0.0.0.0:80", Address("0.0.0.0", 80), "0.0.0.0:80"),
        ("localhost:0", Address("localhost", 0), "localhost:0"),
        ("[::1]:8080", Address("::1", 8080), "[::1]:8080"),
    ],
)
def test_an_address_without_a_host_means_all_interfaces(text: str, address: Address, shown: str) -> None:
    assert load({"HTTP_ADDR": text}).http_addr == address
    assert str(address) == shown


@pytest.mark.parametrize(("text", "value"), [("1", True), ("TRUE", True), ("on", True), ("0", False), ("no", False)])
def test_switches_are_written_in_the_usual_ways(text: str, value: bool) -> None:
    assert load({"RECONCILE_ENABLED": text}).reconcile_enabled is value


def test_log_lines_are_json_where_there_is_no_terminal() -> None:
    assert load().log_format == "json"


def test_log_lines_are_for_people_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    assert load().log_format == "console"
    assert load({"HOURBELL_LOG_FORMAT": "json"}).log_format == "json"


def test_a_missing_database_url_is_an_error_only_where_one_is_required() -> None:
    with pytest.raises(SettingsError, match=r"^DATABASE_URL is not set, and HOURBELL_REQUIRE_DATABASE forbids") as got:
        load({"HOURBELL_REQUIRE_DATABASE": "1"})

    assert got.value.exit_code == 2
    assert load({"HOURBELL_REQUIRE_DATABASE": "1", "DATABASE_URL": "sqlite:///x.db"}).require_database
    assert not load({"HOURBELL_REQUIRE_DATABASE": "0"}).require_database


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///jobs.db", "/work/jobs.db"),
        ("sqlite:///data/jobs.db", "/work/data/jobs.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("sqlite:///my%20jobs%3F.db", "/work/my jobs?.db"),
    ],
)
def test_a_sqlite_url_names_a_file_from_here_or_from_the_root(url: str, path: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        database = load({"DATABASE_URL": url}).database

    assert database.kind == "sqlite"
    assert database.location == path.replace("/work", str(tmp_path))
    assert str(database) == database.location


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://hourbell:secret@db.example.com:5432/jobs?sslmode=require",
        "postgres://localhost/jobs",
        "postgresql:///jobs",
        "postgresql://postgres@/jobs?host=/var/run/postgresql",
        "postgresql://u:a%40b%2Fc@one:5432,two:5433/jobs",
        "postgresql://[::1]:5432/jobs",
        "postgresql://u@/jobs?host=/tmp/x&port=5433",
    ],
)
def test_a_postgresql_url_is_handed_on_as_it_is(url: str) -> None:
    database = load({"DATABASE_URL": url}).database

    assert (database.kind, database.location) == ("postgresql", url)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("mysql://localhost/jobs", "write postgresql://user:password@host/database or sqlite:///file.db"),
        ("postgresql+asyncpg://localhost/jobs", "write postgresql://user:password@host/database"),
        ("localhost:5432/jobs", "write postgresql://user:password@host/database"),
        ("host=localhost dbname=jobs", "a URL has no spaces in it"),
        ("postgresql://localhost:port/jobs", "write the host as host or host:port"),
        ("postgresql://localhost:70000/jobs", "write the host as host or host:port"),
        ("postgresql://localhost/jobs?port=x", "write the host as host or host:port"),
        ("postgresql://localhost/jobs?sslmode", "after the ? come name=value pairs"),
        ("postgresql://[::1/jobs", "its host cannot be read"),
        ("postgresql://u:a@b@localhost/jobs", "percent-encode @ (%40)"),
        ("postgresql://u:a#b@localhost/jobs", "percent-encode @ (%40)"),
        ("sqlite://jobs.db", "write sqlite:///file.db, or sqlite:////folder/file.db"),
        ("sqlite:jobs.db", "write sqlite:///file.db, or sqlite:////folder/file.db"),
        ("sqlite:///", "write sqlite:///file.db, or sqlite:////folder/file.db"),
        ("sqlite:////var/lib/", "write sqlite:///file.db, or sqlite:////folder/file.db"),
        ("sqlite:///jobs.db?mode=ro", "a SQLite URL has nothing after the file"),
        ("sqlite:///:memory:", "a database in memory would forget its runs"),
    ],
)
def test_a_malformed_database_url_is_refused_at_once_with_its_correction(url: str, hint: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        parse_database_url(url)

    assert str(caught.value).startswith(hint)


def test_an_empty_database_url_on_the_command_line_is_not_the_default() -> None:
    with pytest.raises(DatabaseUrlError, match=r"^--database-url is ''; write postgresql://"):
        load(flags={"database_url": ""})


def test_errors_name_an_option_as_the_program_wrote_it() -> None:
    with pytest.raises(DatabaseUrlError, match=r"^database_url= is 'foo'; write postgresql://"):
        load_settings(arguments={"database_url": "foo"}, environment={"DATABASE_URL": "sqlite:///other.db"})
    given = load_settings(arguments={"database_url": "sqlite:///jobs.db"}, environment={}, folder=Path("/nowhere"))
    assert (given.database_url, given.origins["database_url"]) == ("sqlite:///jobs.db", "database_url=")
    assert load_settings(arguments={"database_url": None}, environment={}).origins["database_url"] == "default"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:secret@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://h:5432,i:5433/d?a=b", "postgresql://h:5432,i:5433/d?a=b"),
        ("postgresql://[::1]:5432/d", "postgresql://[::1]:5432/d"),
        ("postgresql://u@/d?host=/tmp&password=secret&x=1", "postgresql://u@/d?host=/tmp&password=***&x=1"),
        ("redis://:secret@h:6379/0", "redis://:***@h:6379/0"),
        ("postgresql://u:se@cret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:se#cret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u/v:se/cret@h/d", "postgresql://u/v:***@h/d"),
        ("postgresql://u@corp:secret@h/d", "postgresql://u@corp:***@h/d"),
        ("postgresql://u:secret", "postgresql://u:***"),
        ("host=h password='my secret' user=u", "host=h password=*** user=u"),
    ],
)
def test_no_password_is_shown_however_the_url_is_written(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_errors_and_representations_hold_no_password() -> None:
    settings = load(
        {
            "DATABASE_URL": "postgresql://u:canary@h/d",
            "REDIS_URL": "redis://:canary@h",
            "HOURBELL_SQL_DATABASE_URL": "postgresql://f:canary@h/d",
            "HOURBELL_SQL_DATABASES": "a=postgresql://f:canary@h/d",
            "HOURBELL_SECRET_KEY": KEY,
        }
    )

    shown = repr(settings) + repr(settings.database) + str(settings.database)
    assert "canary" not in shown
    assert KEY not in shown
    assert "canary" not in complaint({"DATABASE_URL": "postgresql://u:canary@h:x/d"})


def test_every_setting_is_on_its_page_with_its_variable() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()

    assert [name for name in READERS if f"| `{variables_of(name)[-1]}` |" not in page] == []


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("HOURBELL_ALLOW_NETWORKS", "10.0.0.0/8, ::1", "allow_networks", "10.0.0.0/8 ::1/128"),
        ("HOURBELL_ALLOW_PORTS", "8080, 9000-9002", "allow_ports", "8080 9000 9001 9002"),
        (
            "HOURBELL_ALLOW_FUNCTIONS",
            "app.f(integer, text); reports:public.g()",
            "allow_functions",
            "app.f(integer, text) reports:public.g()",
        ),
        ("HOURBELL_SQL_DATABASES", "a=postgresql://h:1,i:2/d, b=postgres://h/e", "sql_databases", "a b"),
    ],
)
def test_lists_are_written_with_commas(variable: str, text: str, name: str, value: str) -> None:
    found = getattr(load({variable: text}), name)
    assert " ".join(map(str, sorted(found) if isinstance(found, frozenset) else found)) == value


@pytest.mark.parametrize(
    ("variable", "text", "hint"),
    [
        ("HOURBELL_ALLOW_NETWORKS", "10.0.0.0/33", "write networks as in 10.0.0.0/8"),
        ("HOURBELL_ALLOW_PORTS", "0", "write numbers from 1 to 65535"),
        ("HOURBELL_ALLOW_FUNCTIONS", "app.f", "write functions with their types"),
        ("HOURBELL_ALLOW_FUNCTIONS", "app.f(integer", "write functions with their types"),
        ("HOURBELL_SQL_DATABASES", "canary", "write name=postgresql://"),
        ("HOURBELL_SQL_DATABASES", "default=postgresql://u:canary@h/d", "write name=postgresql://"),
        ("HOURBELL_SQL_DATABASES", "a=sqlite:///canary.db", "only PostgreSQL has functions"),
        ("HOURBELL_SQL_DATABASE_URL", "sqlite:///x.db", "write postgresql://"),
        ("HOURBELL_SECRET_KEY", "canary", "openssl rand -base64 32"),
        ("HOURBELL_CONTACT", "a\nb", "200 ASCII characters"),
        ("HOURBELL_LANE_SLOTS", "0", "write a number from 1"),
    ],
)
def test_a_bad_list_is_refused_with_an_example_and_shows_no_secret(variable: str, text: str, hint: str) -> None:
    reported = complaint({variable: text})
    assert reported.startswith(f"{variable} is ")
    assert hint in reported
    assert "canary" not in reported


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("postgresql://u:p@db.example.com:5433/d", [("db.example.com", 5433)]),
        ("postgresql://db.example.com/d", [("db.example.com", 5432)]),
        ("postgresql://u@one:1,two/d", [("one", 1), ("two", 5432)]),
        ("postgresql://[::1]:5433/d", [("[::1]", 5433)]),
        ("postgresql://u@/d?host=/var/run/postgresql", [("127.0.0.1", 5432)]),
        ("postgresql:///d", [("127.0.0.1", 5432)]),
        ("postgresql://u@/d?host=a,b&port=1,2", [("a", 1), ("b", 2)]),
        ("postgresql://u@/d?host=db.example.com&port=6000", [("db.example.com", 6000)]),
        ("sqlite:///hourbell.db", []),
        ("redis://:p@cache.example.com/0", [("cache.example.com", 6379)]),
    ],
)
def test_the_servers_of_a_url_are_known(url: str, servers: list[tuple[str, int]]) -> None:
    assert servers_of(url) == servers


@pytest.mark.parametrize(
    ("address", "loopback"),
    [("127.0.0.1:80", True), ("[::1]:80", True), ("localhost:80", True), (":80", False), ("10.0.0.1:80", False)],
)
def test_an_address_that_only_this_machine_reaches_is_known(address: str, loopback: bool) -> None:
    assert load({"HTTP_ADDR": address}).http_addr.is_loopback is loopback


@pytest.mark.parametrize(
    "environment",
    [
        {"HOURBELL_SQL_DATABASE_URL": "postgresql://h/d"},
        {"HOURBELL_SECRET_KEY": KEY, "HOURBELL_SECRET_KEY_FILE": "/run/key"},
    ],
)
def test_settings_that_do_not_go_together_are_refused(environment: dict[str, str]) -> None:
    assert complaint(environment).startswith("HOURBELL_S")


def test_by_default_the_api_has_a_rate_limit_and_trusts_no_proxy() -> None:
    assert (load().api_rate, load().trusted_proxies) == (200, ())
    settings = load({"HOURBELL_API_RATE": "0", "HOURBELL_TRUSTED_PROXIES": "10.0.0.0/8, ::1"})
    assert (settings.api_rate, [str(each) for each in settings.trusted_proxies]) == (0, ["10.0.0.0/8", "::1/128"])
    assert "write a number from 0 to 1000000" in complaint({"HOURBELL_API_RATE": "-1"})
    assert "'proxy' is not a network" in complaint({"HOURBELL_TRUSTED_PROXIES": "proxy"})
    assert "write a path such as /hourbell" in complaint({"HOURBELL_PUBLIC_PATH": "hourbell"})
    assert "write another path" in complaint({"HOURBELL_PUBLIC_PATH": "/api"})


def test_a_misspelled_variable_is_refused_with_the_name_that_was_meant() -> None:
    line = complaint({"HOURBELL_ALOW_NETWORKS": "10.0.0.0/8"})

    assert line == "HOURBELL_ALOW_NETWORKS is not a setting; did you mean HOURBELL_ALLOW_NETWORKS?"


def test_a_program_only_logs_a_misspelled_variable() -> None:
    environment = {
        "HOURBELL_ALOW_NETWORKS": "10.0.0.0/8",
        "HOURBELL_VERSION": "1.2",
        "HOURBELL_PORT": "tcp://10.0.0.1:80",
    }
    settings = load_settings(environment=environment, folder=Path("/nowhere"), refuse_misspelled=False)

    assert [each.name for each in settings.unknown_variables] == ["HOURBELL_ALOW_NETWORKS", "HOURBELL_VERSION"]
