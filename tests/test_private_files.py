"""Files that hold secrets are created for their owner alone, and refused or logged while everybody may open them."""

import base64
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourbell.node import warn_at_start
from hourbell.private_files import close_command, create_private, exposed_files, exposure, read_with_mode
from hourbell.settings import SettingsError, load_settings
from hourbell.store.sqlite.connection import Session
from hourbell.store.sqlite.writer import WriterThread
from hourbell.wiring import load_keys, open_stores

KEY = base64.b64encode(b"k" * 32).decode()
REGULAR = stat.S_IFREG


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def make(path: Path, text: str, mode: int) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.anyio
@pytest.mark.usefixtures("umask")
async def test_the_files_of_a_new_database_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "hourbell.db"
    runner = WriterThread(str(path))
    await runner.write(lambda session: session.script("create table things (number integer)"))
    modes = {each.name: mode_of(each) for each in tmp_path.iterdir()}
    await runner.close()

    assert modes == {"hourbell.db": 0o600, "hourbell.db-wal": 0o600, "hourbell.db-shm": 0o600}


@pytest.mark.anyio
@pytest.mark.usefixtures("umask")
async def test_sqlite_finds_the_file_there_and_never_makes_it(tmp_path: Path) -> None:
    """So there is no moment in which the file has the mode of the umask."""
    path = tmp_path / "hourbell.db"
    create_private(str(path))

    assert (mode_of(path), path.stat().st_size) == (0o600, 0)
    (tmp_path / "away").mkdir()
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "away" / "target.db")
    create_private(str(link))
    assert mode_of(tmp_path / "away" / "target.db") == 0o600


@pytest.mark.anyio
async def test_a_database_that_is_there_keeps_its_mode_and_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "hourbell.db"
    first = WriterThread(str(path))
    await first.write(lambda session: session.script("create table things (number integer)"))
    await first.close()
    path.chmod(0o640)
    second = WriterThread(str(path))

    assert await second.read(_things) == []
    assert mode_of(path) == 0o640
    await second.close()


def _things(session: Session) -> list[object]:
    return [row["number"] for row in session.fetch("select number from things")]


def test_a_wider_mode_is_logged_once_at_start_with_the_command_that_fixes_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = make(tmp_path / "hourbell.db", "", 0o644)
    make(tmp_path / "hourbell.db-wal", "", 0o640)
    make(tmp_path / "hourbell.db-shm", "", 0o666)
    settings = load_settings({"database_url": f"sqlite:///{path}"}, environment={}, folder=tmp_path)
    warn_at_start(settings)

    [record] = caplog.records
    assert (record.levelname, record.msg) == ("WARNING", "database_exposed")
    hint = vars(record)["hint"]
    assert hint == f"every user of this machine may open them; run: chmod o-rwx {path} {path}-shm"
    assert os.system(hint.rpartition("run: ")[2]) == 0
    assert exposed_files(settings.database_files) == []


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640, 0o660])
def test_owner_and_group_may_open_a_key_file(tmp_path: Path, mode: int) -> None:
    assert exposure(tmp_path, REGULAR | mode) is None


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o444, 0o666, 0o602])
def test_a_key_file_that_everybody_may_open_is_refused_with_the_command(tmp_path: Path, mode: int) -> None:
    path = make(tmp_path / "my key", KEY, mode)

    found = exposure(path, path.stat().st_mode)
    assert found == f"every user of this machine may open it (mode {mode:04o}); run: chmod o-rwx '{path}'"
    assert os.system(close_command([path])) == 0
    assert exposure(path, path.stat().st_mode) is None


def test_a_path_that_is_no_file_has_no_mode_to_fix(tmp_path: Path) -> None:
    assert exposure(tmp_path, stat.S_IFIFO | 0o644) is None


def test_a_kubernetes_secret_is_judged_by_its_target_and_fixed_in_the_pod(tmp_path: Path) -> None:
    """Kubernetes mounts `key -> ..data/key` and `..data -> ..2026_11_18_09_00_00.1`; symlinks themselves are 0777."""
    folder = tmp_path / "..2026_11_18_09_00_00.1"
    folder.mkdir()
    make(folder / "key", KEY, 0o440)
    (tmp_path / "..data").symlink_to(folder.name)
    (tmp_path / "key").symlink_to("..data/key")
    assert exposure(tmp_path / "key", read_with_mode(tmp_path / "key")[1]) is None

    (folder / "key").chmod(0o644)
    found = exposure(tmp_path / "key", read_with_mode(tmp_path / "key")[1])
    assert found is not None
    assert "mode 0644" in found
    assert "defaultMode: 0440 on the volume" in found
    assert "chmod" not in found


@pytest.mark.anyio
@pytest.mark.parametrize("is_named", [True, False], ids=["HOURBELL_SECRET_KEY_FILE", "beside the database"])
async def test_a_node_does_not_start_with_a_key_that_everybody_may_read(tmp_path: Path, is_named: bool) -> None:
    key = make(tmp_path / ("named.key" if is_named else "hourbell.db.key"), KEY, 0o644)
    environment = {"HOURBELL_SECRET_KEY_FILE": str(key)} if is_named else {}
    settings = load_settings(
        {"database_url": f"sqlite:///{tmp_path}/hourbell.db"}, environment=environment, folder=tmp_path
    )
    stores = open_stores(settings)
    try:
        await stores.migrate()
        with pytest.raises(SettingsError) as caught:
            await load_keys(settings, stores.secrets)
        key.chmod(0o440)
        assert await load_keys(settings, stores.secrets) is not None
    finally:
        await stores.close()

    assert str(caught.value).startswith(f"the key file {key} cannot be used: every user of this machine may open it")
    assert f"run: chmod o-rwx {key}" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f'secret_key = "{KEY}"',
        'database_url = "postgresql://me:canary@db.example.com/jobs"',
        'sql_database_url = "postgresql://me@db.example.com/jobs?password=canary"\ndatabase_url = "postgresql://me@d/j"',
        'sql_databases = "a=postgresql://me@h/d, b=postgresql://me:canary@h/d"',
        'redis_url = "redis://:canary@localhost"',
    ],
)
def test_a_settings_file_with_a_secret_that_everybody_may_read_is_refused(tmp_path: Path, text: str) -> None:
    path = make(tmp_path / "hourbell.toml", text, 0o644)
    with pytest.raises(SettingsError) as caught:
        load_settings(environment={}, folder=tmp_path)

    assert str(caught.value).startswith("hourbell.toml holds a secret (")
    assert str(caught.value).endswith(f"run: chmod o-rwx {path}")
    assert "canary" not in str(caught.value)
    assert caught.value.exit_code == 2
    for mode in (0o600, 0o640, 0o440):
        path.chmod(mode)
        load_settings(environment={}, folder=tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "slots = 5",
        'database_url = "postgresql://me@db.example.com:5432/jobs"',
        'secret_key_file = "/run/secrets/key"',
        'sql_databases = "a=postgresql://me@h/d, b=postgresql://me@h/d"',
    ],
)
def test_a_settings_file_without_secrets_may_be_read_by_everybody(tmp_path: Path, text: str) -> None:
    make(tmp_path / "hourbell.toml", text, 0o644)

    load_settings(environment={}, folder=tmp_path)


@pytest.mark.anyio
async def test_a_node_does_not_start_with_a_link_to_a_missing_key(tmp_path: Path) -> None:
    settings = load_settings(environment={"DATABASE_URL": f"sqlite:///{tmp_path}/hourbell.db"}, folder=tmp_path)
    (tmp_path / "hourbell.db.key").symlink_to("elsewhere/hourbell.db.key")
    stores = open_stores(settings)
    try:
        await stores.migrate()
        with pytest.raises(SettingsError, match=r"hourbell\.db\.key cannot be used: No such file or directory"):
            await load_keys(settings, stores.secrets)
    finally:
        await stores.close()
