"""Mail addresses and the URL of a mail server."""

import pytest

from hourbell.core.values.mail import MailServer, Security, parse_mail_address, parse_mail_server


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example.com", MailServer("mail.example.com", 587, Security.STARTTLS)),
        ("smtps://mail.example.com", MailServer("mail.example.com", 465, Security.TLS)),
        ("smtp://localhost?tls=none", MailServer("localhost", 25, Security.NONE)),
        ("smtp://[::1]:2525?tls=starttls", MailServer("::1", 2525, Security.STARTTLS)),
        ("smtp://u%40e.com:p%3Aw@h:26", MailServer("h", 26, Security.STARTTLS, "u@e.com", "p:w")),
    ],
)
def test_a_url_names_a_mail_server(url: str, server: MailServer) -> None:
    assert parse_mail_server(url) == server


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mail.example.com",
        "http://mail.example.com",
        "smtp://",
        "smtp://h:0",
        "smtp://h:99999",
        "smtp://h/path",
        "smtp://h?tls=maybe",
        "smtp://h?ssl=1",
        "smtps://h?tls=none",
        "smtp://user@h",
        "smtp://user:s3cret@h?tls=none",
        "smtp://user:s3cr\u00e9t@h",
        "smtp://user:s3cret@h%0d%0a",
    ],
)
def test_a_url_that_would_not_work_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        parse_mail_server(url)

    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize("text", ["ops@example.com", "a.b+c@x-y.example", "root@localhost"])
def test_a_mail_address_is_taken_as_it_is(text: str) -> None:
    assert parse_mail_address(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ops",
        "@example.com",
        "ops@",
        "a b@c",
        "a@b\n",
        "a@b,c@d",
        "<a@b>",
        "a..b@c",
        "a@-b",
        "é@b",
        "a" * 260 + "@b",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"ops@example\.com"):
        parse_mail_address(text)
