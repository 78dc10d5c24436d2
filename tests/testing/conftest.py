"""The fixtures as users have them, whether or not the plugin is installed."""

from hourbell.testing.plugin import _fires, _hourbell

__all__ = ["_fires", "_hourbell"]
