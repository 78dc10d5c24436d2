"""docs/metrics.md has every metric with its type, labels and meaning, as the code has them."""

import re
from pathlib import Path

from prometheus_client.registry import Collector

from hourbell.metrics import Metrics

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "metrics.md"
USERS = [PAGE, ROOT / "deploy" / "prometheus" / "rules.yml", ROOT / "deploy" / "grafana" / "dashboard.json"]
SUFFIXES = re.compile(r"_(total|bucket|sum|count)$")


def rows(*, with_job_names: bool) -> list[str]:
    """The lines of the table, in the order of the code."""
    lines = []
    for collector in _collectors(Metrics(with_job_names=with_job_names)):
        [family] = collector.collect()
        labels = ", ".join(f"`{label}`" for label in getattr(collector, "_labelnames", ()))
        lines.append(f"| `{family.name}` | {family.type} | {labels} | {family.documentation} |")
    return lines


def _collectors(metrics: Metrics) -> list[Collector]:
    return list(metrics.registry._collector_to_names)


def test_the_page_lists_every_metric() -> None:
    common = rows(with_job_names=False)
    by_job = [row for row in rows(with_job_names=True) if row not in common]

    for table in (common, by_job):
        expected = "\n".join(["| metric | type | labels | meaning |", "| --- | --- | --- | --- |", *table])
        assert expected in PAGE.read_text("utf-8"), f"write into docs/metrics.md:\n{expected}"


def test_every_metric_that_a_query_names_exists() -> None:
    names = {row.split("`")[1] for row in rows(with_job_names=True)}

    for path in USERS:
        used = {SUFFIXES.sub("", name) for name in re.findall(r"\bhourbell_[a-z_]+", path.read_text("utf-8"))}
        assert used - names <= {"hourbell_up"}, path
