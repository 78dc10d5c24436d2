"""Text with markup, scripts and control characters, from everywhere it can come from: it is shown as text."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.faults.process import Server
from tests.page.chromium import open_tab
from tests.page.helping import post, until_api

pytestmark = pytest.mark.full
_RUN = "document.documentElement.dataset.hacked=1"
HOSTILE = (
    f"<script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    f"<iframe src=javascript:parent.{_RUN}></iframe>",
    f"<a href='javascript:{_RUN}'>click</a>",
    f"<body onload={_RUN}>",
    f"<details open ontoggle={_RUN}>",
    f"<input autofocus onfocus={_RUN}>",
    f"<video><source onerror={_RUN}></video>",
    f"<math><mtext><script>{_RUN}</script></mtext></math>",
    "<style>@import 'http://evil.example/x.css';</style>",
    "<link rel=stylesheet href=http://evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "<base href=http://evil.example/>",
    "<form action=http://evil.example/><button>go</button></form>",
    "<object data=http://evil.example/x.swf></object>",
    "<embed src=http://evil.example/x.swf>",
    "<!-- comment -->",
    "<![CDATA[ x ]]>",
    "</script><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    '"><script>alert(1)</script>',
    "'><script>alert(1)</script>",
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "#{7*7}",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&amp;&nbsp;&#x3c;b&#x3e;",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "__proto__",
    "constructor",
    "../../../etc/passwd",
    "'; drop table jobs; --",
    "\u202eright to left\u202c",
    "zero\u200bwidth\u2060joiner",
    "z̸̡̢̛̗̘̙̜̝a̷̛̖̗̘̙l̵g̶o̷",
    "👩‍👩‍👧‍👦 \U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "tab\tand\nline\r\nbreak",
    "x" * 300,
    "ﷺ" * 40,
    "null",
)
APP = """
import json
from pathlib import Path
from hourbell import Scheduler
scheduler = Scheduler()

@scheduler.job("0 0 29 2 *", name="says", retry="none")
async def says(run):
    texts = json.loads(Path("hostile.json").read_text())
    for text in texts:
        run.log(text)
    run.progress(0.5, texts[0])
    raise ValueError("; ".join(texts))
"""


@contextmanager
def hostile_receiver() -> Iterator[str]:
    """A receiver that answers 500 with hostile headers and a hostile body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = "\n".join(HOSTILE).encode()
            self.send_response(500, f"<script>{_RUN}</script>")
            self.send_header("Content-Type", "text/html")
            self.send_header("X-Hostile", f"<img src=x onerror={_RUN}>")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=receiver.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{receiver.server_address[1]}/"
    finally:
        receiver.shutdown()
        thread.join()
        receiver.server_close()


def test_hostile_texts_are_shown_as_text(browser: Browser, tmp_path: Path, database: dict[str, str]) -> None:
    assert len(set(HOSTILE)) == 50
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "hostile.json").write_text(json.dumps(HOSTILE))
    with hostile_receiver() as receiver, Server(tmp_path, "--app", "app:scheduler", **database) as server:
        url = server.wait_until_serving().url
        post(
            url,
            "/jobs",
            {
                "name": "calls",
                "schedule": "0 0 29 2 *",
                "retry": "none",
                "description": "\n".join(HOSTILE),
                "subject": HOSTILE[0],
                "tags": [HOSTILE[0][:40], HOSTILE[1][:40], "'><b>x"],
                "payload": {text: text for text in HOSTILE},
                "target": {
                    "type": "http",
                    "url": f"{receiver}?q=<script>{_RUN}</script>",
                    "headers": {
                        f"X-Hostile-{at}": text
                        for at, text in enumerate(HOSTILE[:45])
                        if text.isascii() and text.isprintable()
                    },
                },
            },
        )
        runs = [
            post(url, f"/jobs/{name}/trigger", {"payload": list(HOSTILE)} if name == "calls" else {})["run_id"]
            for name in ("calls", "says")
        ]
        for run in runs:
            until_api(url, f"/runs/{run}", lambda found: found["state"] == "failed")
        post(url, "/jobs/says/pause", {"note": "; ".join(HOSTILE)[:400]})
        screens = {
            "/": "calls",
            "/?view=table": "calls",
            "/jobs": "calls",
            f"/jobs?tag={HOSTILE[0][:20]}&q=%3Cscript%3E": "jobs",
            "/jobs/calls": "onerror",
            "/jobs/says": "<script>",
            "/jobs/calls/edit": "calls",
            "/jobs/calls/explain?at=<script>alert(1)</script>": "explain",
            "/runs": "says",
            f"/runs/{runs[0]}": "onerror",
            f"/runs/{runs[1]}": "<svg onload",
            "/failed": "<script>",
            "/audit": "says",
            "/jobs/%3Cscript%3Ealert(1)%3C%2Fscript%3E": "no such job",
            "/login?next=javascript:alert(1)": "continue",
        }
        opened: list[str] = []
        for path, text in screens.items():
            expected = ("404", "400")  # for what does not exist, and cannot be asked
            with open_tab(browser, url, expected=expected) as tab:
                tab.page.on("dialog", lambda dialog: dialog.dismiss())
                tab.page.on("dialog", lambda dialog: opened.append(dialog.message))
                tab.open(path, text)
                tab.page.evaluate("() => document.querySelectorAll('details').forEach((one) => (one.open = true))")

                assert not tab.page.evaluate("() => 'hacked' in document.documentElement.dataset"), path
                assert tab.page.locator("iframe, object, embed, base, #root script").count() == 0, path
    assert opened == []
