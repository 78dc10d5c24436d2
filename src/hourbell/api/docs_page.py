"""The page at /docs: every operation of the OpenAPI document, as plain HTML without scripts or external resources."""

from html import escape
from typing import Any

DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; text-transform: capitalize; }
section { border-top: 1px solid #8886; padding: .75rem 0; }
h3 { margin: 0; font-size: 1rem; }
code { font-family: ui-monospace, monospace; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 600; }
p, ul { margin: .25rem 0; }
"""


def docs_page(document: dict[str, Any]) -> str:
    """Render the documentation page of an OpenAPI document."""
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        if path.startswith("/api/v1/schedules"):
            continue  # the same as /jobs
        for method, operation in operations.items():
            groups.setdefault(operation.get("tags", ["other"])[0], []).append(_operation(path, method, operation))
    body = "".join(f"<h2>{escape(name)}</h2>{''.join(sections)}" for name, sections in groups.items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Hourbell API</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<h1>Hourbell API</h1><p>{escape(document['info']['description'])}</p>"
        '<p>For programs: <a href="openapi.json">openapi.json</a>. '
        "<code>/api/v1/schedules</code> is the same as <code>/api/v1/jobs</code>.</p>"
        f"{body}</html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    parameters = "".join(_parameter(each) for each in operation.get("parameters", []))
    return (
        f'<section id="{escape(operation["operationId"])}">'
        f'<h3><code><span class="method">{method.upper()}</span> {escape(path)}</code></h3>'
        f"<p><strong>{escape(operation.get('summary', ''))}.</strong> {escape(operation.get('description', ''))}</p>"
        + (f"<ul>{parameters}</ul>" if parameters else "")
        + _body(operation)
        + f"<p>Answers: {', '.join(escape(status) for status in operation['responses'])}</p></section>"
    )


def _parameter(parameter: dict[str, Any]) -> str:
    text = parameter.get("description") or ""
    required = ", required" if parameter.get("required") else ""
    return f"<li><code>{escape(parameter['name'])}</code> ({escape(parameter['in'])}{required}) {escape(text)}</li>"


def _body(operation: dict[str, Any]) -> str:
    contents = operation.get("requestBody", {}).get("content", {})
    shown = [
        f"<code>{escape(kind)}</code> {escape(content['schema'].get('$ref', '').rpartition('/')[2])}"
        for kind, content in contents.items()
    ]
    return f"<p>Body: {', '.join(shown)}</p>" if shown else ""
