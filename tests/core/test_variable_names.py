"""Variables that are no setting: refused, logged, or somebody else's."""

import pytest

from hourbell.core.access.variable_names import edit_distance, unknown_variables
from hourbell.settings import known_variables

KNOWN = known_variables()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HOURBELL_ALOW_NETWORKS", "HOURBELL_ALLOW_NETWORKS"),
        ("HOURBELL_ALLOW_NETWORK", "HOURBELL_ALLOW_NETWORKS"),
        ("HOURBELL_ALLOWED_NETWORKS", "HOURBELL_ALLOW_NETWORKS"),
        ("HOURBELL_NETWORKS_ALLOW", "HOURBELL_ALLOW_NETWORKS"),
        ("HOURBELL_TRUSTED_PROXY", "HOURBELL_TRUSTED_PROXIES"),
        ("HOURBELL_SECRETKEY", "HOURBELL_SECRET_KEY"),
        ("HOURBELL_SECRET_KEYS", "HOURBELL_SECRET_KEY"),
        ("HOURBELL_SQL_DATABASE", "HOURBELL_SQL_DATABASES"),
        ("HOURBELL_DATABSE_URL", "HOURBELL_DATABASE_URL"),
        ("HOURBELL_LAESE", "HOURBELL_LEASE"),
        ("HOURBELL_SLOT", "HOURBELL_SLOTS"),
        ("HOURBELL_TOKENS", "HOURBELL_TOKEN"),
    ],
)
def test_a_name_that_is_nearly_a_settings_name_is_misspelled(name: str, meant: str) -> None:
    [found] = unknown_variables({name: "1"}, KNOWN)

    assert (found.meant, found.is_misspelled) == (meant, True)
    assert found.message == f"{name} is not a setting; did you mean {meant}?"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HOURBELL_HTTP_ADDRESS", "HOURBELL_HTTP_ADDR"),
        ("HOURBELL_STATE", "HOURBELL_START"),
        ("HOURBELL_VERSION", None),
        ("HOURBELL_IMAGE_TAG", None),
        ("HOURBELL_X" + "Y" * 10_000, None),
        ("HOURBELL_", None),
    ],
)
def test_another_unknown_name_is_reported_with_the_nearest(name: str, meant: str | None) -> None:
    [found] = unknown_variables({name: "1"}, KNOWN)

    assert (found.meant, found.is_misspelled) == (meant, False)
    assert found.message.isprintable()
    assert len(found.message) < 250


KUBERNETES = {
    "HOURBELL_SERVICE_HOST": "10.96.0.17",
    "HOURBELL_SERVICE_PORT": "8080",
    "HOURBELL_SERVICE_PORT_HTTP": "8080",
    "HOURBELL_PORT": "tcp://10.96.0.17:8080",
    "HOURBELL_PORT_8080_TCP": "tcp://10.96.0.17:8080",
    "HOURBELL_PORT_8080_TCP_PROTO": "tcp",
    "HOURBELL_PORT_8080_TCP_PORT": "8080",
    "HOURBELL_PORT_8080_TCP_ADDR": "10.96.0.17",
    "HOURBELL_API_SERVICE_HOST": "10.96.0.18",  # a service named hourbell-api
    "HOURBELL_API_SERVICE_PORT": "80",
    "HOURBELL_API_PORT": "tcp://10.96.0.18:80",
    "HOURBELL_API_PORT_80_TCP_ADDR": "10.96.0.18",
}


@pytest.mark.parametrize("name", KUBERNETES)
def test_service_variables_of_kubernetes_are_ignored(name: str) -> None:
    assert unknown_variables({name: KUBERNETES[name]}, KNOWN) == []


def test_a_port_variable_that_somebody_set_is_reported() -> None:
    [found] = unknown_variables({"HOURBELL_PORT": "9000"}, KNOWN)

    assert not found.is_misspelled


@pytest.mark.parametrize(
    "name",
    [
        "HOURBELL_URL",
        "HOURBELL_TOKEN",
        "HOURBELL_TOKEN_FILE",
        "HOURBELL_START",
        "HOURBELL_BENCH_RUNS",
        "HOURBELL_LEASE",
    ],
)
def test_every_variable_that_is_read_is_known(name: str) -> None:
    assert unknown_variables({name: "1"}, KNOWN) == []


def test_empty_and_foreign_variables_are_ignored() -> None:
    assert unknown_variables({"HOURBELL_ALOW_NETWORKS": "", "ALOW_NETWORKS": "1", "hourbell_lease": "1"}, KNOWN) == []


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("", "", 0), ("a", "", 1), ("lease", "leese", 1), ("lease", "laese", 1), ("ab", "ba", 1), ("abc", "xyz", 3)],
)
def test_edits_are_counted(one: str, other: str, distance: int) -> None:
    assert (edit_distance(one, other), edit_distance(other, one)) == (distance, distance)
