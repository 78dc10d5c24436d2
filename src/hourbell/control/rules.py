"""Rules for targets in this installation, checked when a job is defined and not only when it runs.

A host name may resolve to another address later, so the egress policy decides when a webhook connects. A literal IP
address cannot change, and is refused here already.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from hourbell.control.secrets import MAKE_KEY
from hourbell.core.job.command import CommandCall
from hourbell.core.job.target import OWN_DATABASE, HttpCall, SqlCall, TargetCall
from hourbell.core.values.field_errors import FieldError

Address = IPv4Address | IPv6Address
_NAME = r'("(?:[^"]|"")+"|[^\s".(]+)'
_QUALIFIED = re.compile(rf"\s*{_NAME}\s*\.\s*{_NAME}\s*\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for targets: `forbids` is the egress policy, `functions` the signatures that jobs may call."""

    forbids: Callable[[Address, int], str | None]
    functions: Collection[str] = ()
    databases: Collection[str] = ()
    has_functions: bool = True  # False if the own database has no functions to call (SQLite)
    has_keys: bool = True  # False if there is no key to seal commands with

    def check(self, call: TargetCall) -> list[FieldError]:
        """Return the errors of a target that this installation does not allow."""
        match call:
            case HttpCall():
                return self._check_address(call)
            case SqlCall():
                return self._check_function(call)
            case CommandCall() if not self.has_keys:
                return [FieldError("/target/type", "there is no key to seal commands with", MAKE_KEY)]
            case _:
                return []

    def _check_address(self, call: HttpCall) -> list[FieldError]:
        if not call.url.is_address:
            return []
        why = self.forbids(ip_address(call.url.host), call.url.port)
        return [] if why is None else [FieldError("/target/url", why)]

    def _check_function(self, call: SqlCall) -> list[FieldError]:
        if call.database == OWN_DATABASE and not self.has_functions:
            hint = "use PostgreSQL, or name a database of HOURBELL_SQL_DATABASES"
            return [FieldError("/target/type", "SQLite has no functions to call", hint)]
        if call.database != OWN_DATABASE and call.database not in self.databases:
            known = ", ".join(sorted(self.databases)) or "none is set"
            hint = f"HOURBELL_SQL_DATABASES names them: {known}"
            return [FieldError("/target/database", f"there is no database {call.database!r}", hint)]
        prefix = "" if call.database == OWN_DATABASE else f"{call.database}:"
        if any(_names(entry.removeprefix(prefix), call) for entry in self.functions if entry.startswith(prefix)):
            return []
        hint = "ask the operator to add its signature to HOURBELL_ALLOW_FUNCTIONS"
        return [FieldError("/target/function", f"{call.schema}.{call.function} is not on the allow-list", hint)]


def _names(signature: str, call: SqlCall) -> bool:
    """Return True if a signature has the schema and name of the call. Its types are compared when the function runs."""
    found = _QUALIFIED.match(signature)
    return found is not None and (_identifier(found[1]), _identifier(found[2])) == (call.schema, call.function)


def _identifier(text: str) -> str:
    """Normalize a name as the PostgreSQL catalog does: to lower case unless it is quoted."""
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()
