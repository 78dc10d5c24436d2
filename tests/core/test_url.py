"""URLs have one reading or none: accepted forms, normalization, and comparison with other parsers."""

from urllib.parse import unquote_to_bytes, urlsplit

import pytest
import yarl
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hourbell.core.values.url import Url, parse_url
from tests.core.schedule.strategies import examples

HOSTS = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,12}(\.[A-Za-z0-9_-]{1,12}){0,3}\.?", fullmatch=True),
    st.from_regex(r"(0[xX])?[0-9a-f]{1,9}(\.[0-9]{1,3}){0,3}", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
    st.ip_addresses(v=6).map(lambda address: f"[{address.exploded.upper()}]"),
    st.ip_addresses(v=4).map(lambda address: f"[::ffff:{address}]"),
    st.text("aäöüßéñ例え.-xX", min_size=1, max_size=20),
)
PATHS = st.one_of(
    st.just(""),
    st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=40).map(lambda text: f"/{text}"),
    st.from_regex(r"/[a-z%2F?&=\[\]|^~+;:@ü-]{0,30}", fullmatch=True),
    st.from_regex(r"\?[a-z0-9=&%]{0,20}", fullmatch=True),
)
PORTS = st.one_of(st.just(""), st.integers(0, 70_000).map(lambda port: f":{port}"), st.sampled_from([":80", ":443"]))
TEXTS = st.one_of(
    st.builds("{}://{}{}{}".format, st.sampled_from(["http", "https", "HTTPS", "Http"]), HOSTS, PORTS, PATHS),
    st.text("htps:/[]@#?%.\\019af0x", max_size=30).map(lambda text: f"http://{text}"),
)


def accepted(text: str) -> Url:
    try:
        return parse_url(text)
    except ValueError:
        assume(False)
        raise


def parse_error(text: str) -> Exception | None:
    try:
        parse_url(text)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://example.com", Url("https", "example.com", 443, "/")),
        ("HTTP://Example.COM:8080/A?B", Url("http", "example.com", 8080, "/A?B")),
        ("https://example.com./", Url("https", "example.com", 443, "/")),
        ("https://example.com?a=b", Url("https", "example.com", 443, "/?a=b")),
        ("http://example.com/?", Url("http", "example.com", 80, "/")),
        ("http://example.com??", Url("http", "example.com", 80, "/??")),
        ("http://192.0.2.1:80/", Url("http", "192.0.2.1", 80, "/")),
        ("http://[2001:DB8:0:0::0:1]/", Url("http", "2001:db8::1", 80, "/")),
        ("http://[::ffff:7f00:1]:81/", Url("http", "::ffff:127.0.0.1", 81, "/")),
        ("http://[::FFFF:127.0.0.1]/", Url("http", "::ffff:127.0.0.1", 80, "/")),
        ("https://Bücher.example/", Url("https", "xn--bcher-kva.example", 443, "/")),
        ("https://XN--BCHER-KVA.example/", Url("https", "xn--bcher-kva.example", 443, "/")),
        ("https://straße.example/", Url("https", "xn--strae-oqa.example", 443, "/")),
    ],
)
def test_a_url_is_parsed_into_its_parts(text: str, url: Url) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("/ä?ö=€", "/%C3%A4?%C3%B6=%E2%82%AC"),
        ("/%c3%A4%2F%2e", "/%c3%A4%2F%2e"),
        ("/a/../b//./c", "/a/../b//./c"),
        ("/-._~!$&'()*+,;=:@", "/-._~!$&'()*+,;=:@"),
        ("/?a=b?c/d&e=f+g", "/?a=b?c/d&e=f+g"),
        ('/"<>[]^`{|}', "/%22%3C%3E%5B%5D%5E%60%7B%7C%7D"),
        ("/😀", "/%F0%9F%98%80"),
    ],
)
def test_path_and_query_are_sent_as_written_but_for_what_must_be_encoded(given: str, sent: str) -> None:
    assert parse_url(f"https://example.com{given}").path == sent


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "write a URL, as in"),
        (17, "write a URL, as in"),
        (b"https://example.com", "write a URL, as in"),
        ("", "write a URL, as in"),
        ("example.com/hook", "begins with https:// or http://"),
        ("ftp://example.com", "begins with https:// or http://"),
        ("https:/example.com", "begins with https:// or http://"),
        ("https://user:pw@example.com", "must not contain a user name or password; send them in a header"),
        ("https://example.com/#", "fragment is never sent"),
        ("https://exa mple.com/", "no spaces, control characters or backslashes"),
        ("https://example.com/a b", "no spaces, control characters or backslashes"),
        ("https://example.com/\u00a0", "no spaces, control characters or backslashes"),
        ("https://example.com/\u202e", "no spaces, control characters or backslashes"),
        ("https://example.com/\ud800", "no spaces, control characters or backslashes"),
        ("https://example.com/\x7f", "no spaces, control characters or backslashes"),
        ("https://example.com\\", "no spaces, control characters or backslashes"),
        ("https://", "there is no host"),
        ("https:///hook", "there is no host"),
        ("https://:443/", "there is no host"),
        ("https://[fe80::1%25eth0]/", "address with a zone"),
        ("https://2001:db8::1/", "IPv6 address in brackets"),
        ("https://[2001:db8::g]/", "is not an IPv6 address"),
        ("https://127.1/", "'127.1' is not an IPv4 address"),
        ("https://192.0.2.1./", "'192.0.2.1.' is not an IPv4 address"),
        ("https://ex%61mple.com/", "percent-encoded"),
        ("https://①②⑦.0.0.1/", "is not an international name"),
        ("https://exam!ple.com/", "is not a host name"),
        ("https://example.com:/", "a port is a number from 1 to 65535"),
        ("https://example.com:00443/", "a port is a number from 1 to 65535"),
        ("https://example.com/100%", "write %25 for a percent sign"),
        ("https://example.com/?a=%2", "write %25 for a percent sign"),
    ],
)
def test_the_message_says_what_is_wrong(text: object, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")) as reported:
        parse_url(text)

    assert "\n" not in str(reported.value)


@pytest.mark.parametrize(
    "text",
    [
        "https://user:hunter2@example.com/",
        "https://user:hunter2",
        "https://user:hunter2/@example.com",
        "https://example.com/?token=hunter2#top",
        "https://example.com/?token=hunter2%",
        "https://example.com/hunter2 ",
        f"https://example.com/{'hunter2' * 300}",
    ],
)
def test_no_message_repeats_a_password_or_token(text: str) -> None:
    with pytest.raises(ValueError, match=";") as reported:
        parse_url(text)

    assert "hunter2" not in str(reported.value)


def test_a_name_has_at_most_253_characters_and_63_in_a_part() -> None:
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])

    assert parse_url(f"https://{longest}./").host == longest
    for name in (f"{longest}d", f"{'a' * 64}.example", f"{'ü' * 60}.example"):
        with pytest.raises(ValueError, match="name"):
            parse_url(f"https://{name}/")


def test_a_url_has_at_most_2048_characters_also_once_encoded() -> None:
    longest = f"https://example.com/{'a' * 2_028}"

    assert str(parse_url(longest)) == longest
    for text in (f"{longest}a", f"https://example.com?{'a' * 2_028}", f"https://example.com/{'ü' * 1_000}"):
        with pytest.raises(ValueError, match=r"at most 2,048 are taken"):
            parse_url(text)


@pytest.mark.parametrize("letter", ["\u212a", "ſ", "İ", "ﬀ", "ª", "Ⅷ"])
def test_look_alike_letters_are_refused(letter: str) -> None:
    with pytest.raises(ValueError, match="international name"):
        parse_url(f"https://{letter}.example/")


@examples(500)
@given(TEXTS)
@example("http://[::ffff:1.2.3.4]:81?x")
def test_a_url_as_text_is_read_as_itself(text: str) -> None:
    url = accepted(text)

    assert parse_url(str(url)) == url
    assert str(url).isascii()
    assert url.path.startswith("/")


@examples(500)
@given(TEXTS)
@example("http://example.com/a/../b/./c//d/%2e%2e/%2F?e=f%20+g;h&&i=j?k")
@example("http://a_b.example//example.com/@x:80")
def test_other_parsers_see_the_same_host_and_port_in_what_is_taken(text: str) -> None:
    url = accepted(text)

    for other in (urlsplit(str(url)), urlsplit(url.origin)):
        assert (other.scheme, other.hostname, other.port or url.port) == (url.scheme, url.host, url.port)
    seen = yarl.URL(str(url), encoded=True)
    assert (seen.scheme, seen.raw_host, seen.port, seen.raw_path_qs) == (url.scheme, url.host, url.port, url.path)


@examples(300)
@given(st.text(st.characters(codec="utf-8", exclude_characters="#%?\\"), max_size=60))
def test_encoding_loses_nothing_of_a_path(path: str) -> None:
    url = accepted(f"https://example.com/{path}")

    assert unquote_to_bytes(url.path) == f"/{path}".encode()


@examples(500)
@given(st.one_of(st.text(max_size=60), st.text(max_size=60).map("http://{}".format)))
def test_text_that_is_no_url_gets_a_printable_error(text: str) -> None:
    problem = parse_error(text)

    assert problem is None or (type(problem) is ValueError and str(problem).isprintable())
