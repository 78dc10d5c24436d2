"""Named SQL: each file holds statements under headings `-- name: …`, and a store looks them up by name."""

from functools import cache
from importlib.resources import files

from hourbell.store.sql.job_columns import fill_columns


@cache
def load_queries(package: str, name: str) -> dict[str, str]:
    """Load the statements of a file, by name."""
    text = fill_columns(files(package).joinpath(name).read_text("utf-8"), "?" if package.endswith("sqlite") else "$")
    found = {}
    for part in text.split("-- name: ")[1:]:
        title, _, body = part.partition("\n")
        found[title.strip()] = body.strip()
    return found
