"""The web page in a real Chromium, against real servers. [docs/page.md](../../docs/page.md) has what it shows."""
