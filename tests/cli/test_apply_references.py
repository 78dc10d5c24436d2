"""References in a jobs file are resolved, and no message shows their values."""

import os
from pathlib import Path

import pytest

from hourbell.cli.shared.references import MAX_SOURCE_BYTES, resolver


def test_a_reference_may_name_a_variable_or_a_file_beside_the_jobs_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"Bearer 12345\r\n")
    resolve = resolver(tmp_path, {"HOOK": " as it is \n"})

    assert resolve("env:HOOK") == " as it is \n"
    assert resolve("file:token") == resolve(f"file:{tmp_path}/token") == "Bearer 12345"


def test_a_referenced_file_is_read_once_so_that_all_jobs_get_the_same_secret(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"once\n")
    os.close(write)
    resolve = resolver(tmp_path)

    assert [resolve(f"file:/dev/fd/{read}") for _ in range(2)] == ["once", "once"]
    os.close(read)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("env:NO", "env:NO is not set; set the variable NO where you apply the file"),
        ("env:NONE", "env:NONE is empty; put the secret into it"),
        ("env:", "env: names no variable; write env:NAME"),
        ("file:", "file: names no file; write file:/path"),
        ("file:no", "file:no cannot be read: No such file or directory; put the secret there"),
        ("file:.", "file:. cannot be read: Is a directory; put the secret there"),
        ("file:a\0b", "file: is not a valid path; write file:/path"),
        ("file:line", "file:line is empty; put the secret into it"),
        ("file:odd", "file:odd is not UTF-8; name a file that holds the secret as text"),
        ("file:long", f"file:long is longer than {MAX_SOURCE_BYTES} bytes; name a file that holds the secret alone"),
    ],
)
def test_an_unresolvable_reference_is_reported_with_advice(tmp_path: Path, reference: str, message: str) -> None:
    for name, data in {"line": b"\n", "odd": b"secret\xff", "long": b"s" * (MAX_SOURCE_BYTES + 1)}.items():
        (tmp_path / name).write_bytes(data)

    with pytest.raises(ValueError, match=r".") as caught:
        resolver(tmp_path, {"NONE": ""})(reference)
    assert str(caught.value) == message
