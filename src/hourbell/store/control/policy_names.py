"""The alert policies that jobs name. `default` and `none` always exist; the others are those that are stored."""

from collections.abc import Collection, Iterable, Sequence

from hourbell.core.alerts.policy import DEFAULT_POLICY, is_built_in
from hourbell.core.job.definition import Definition
from hourbell.core.values.field_errors import BodyError, FieldError
from hourbell.store.control.bundles import Imported, ImportResult
from hourbell.store.control.importing import Wanted
from hourbell.store.control.session import Session

UNKNOWN_POLICY = "no_such_alert_policy"
_MAX_POLICY_NAMES = 10  # in the hint of an error


async def unknown_policies(session: Session, names: Iterable[str]) -> frozenset[str]:
    """Return those of the names that no policy has. The others cannot be deleted before this transaction has ended."""
    asked = {name for name in names if not is_built_in(name)}
    if not asked:
        return frozenset()
    found = await session.fetch("lock_policy_names", names=sorted(asked))
    return frozenset(asked - {row["name"] for row in found})


async def refuse_unknown_policy(session: Session, definition: Definition, before: Definition | None = None) -> None:
    """Raise a BodyError if the definition names a policy that does not exist.

    A job that already names it may be edited: plain SQL can name anything, and other edits need not wait for that.
    """
    name = definition.alert_policy
    if before is not None and before.alert_policy == name:
        return
    if await unknown_policies(session, [name]):
        raise BodyError([await _error(session, name)])


async def with_known_policies(
    session: Session, entries: Sequence[ImportResult | Wanted], defined: Collection[str] = ()
) -> list[ImportResult | Wanted]:
    """Return the entries; those that come to name a policy that does not exist are refused.

    `defined` are policies that come with the entries.
    """
    named = [each.definition.alert_policy for each in entries if isinstance(each, Wanted)]
    unknown = await unknown_policies(session, [name for name in named if name not in defined])
    return [
        await _refused(session, each) if isinstance(each, Wanted) and _comes_to_name(each, unknown) else each
        for each in entries
    ]


def _comes_to_name(wanted: Wanted, unknown: Collection[str]) -> bool:
    policy = wanted.definition.alert_policy
    return policy in unknown and (wanted.row is None or wanted.row["alert_policy"] != policy)


async def _refused(session: Session, wanted: Wanted) -> ImportResult:
    error = await _error(session, wanted.definition.alert_policy)
    name = wanted.definition.name
    return ImportResult(name, Imported.REFUSED, code=UNKNOWN_POLICY, message=error.text, errors=(error,))


async def _error(session: Session, name: str) -> FieldError:
    known = sorted({DEFAULT_POLICY, *(row["name"] for row in await session.fetch("policy_names"))})
    shown = ", ".join(known[:_MAX_POLICY_NAMES])
    more = f" or one of {len(known) - _MAX_POLICY_NAMES} more" if len(known) > _MAX_POLICY_NAMES else ""
    hint = f"write none, {shown}{more}, or create it first: hourbell alert-policy set {name}"
    return FieldError("/alert_policy", f"there is no alert policy {name!r}", hint)
