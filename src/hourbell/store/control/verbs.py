"""The base of the control side's verbs: sessions, and changes that act once per idempotency key."""

from hourbell.sealing import CommandSeals
from hourbell.store.control.actor import Actor
from hourbell.store.control.auditing import act
from hourbell.store.control.session import Sessions, T, Verb
from hourbell.store.errors import NameTaken


class Verbs:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def seal_commands(self, seals: CommandSeals | None) -> None:
        """Seal the commands that these verbs write; without a key they write them unsealed."""
        self._sessions.seals = seals

    async def _act(self, verb: Verb[T], actor: Actor) -> T:
        """Run a verb as one transaction that acts once for the key of the actor's request."""
        return await act(self._sessions, actor, verb)

    async def _act_by_name(self, verb: Verb[T], actor: Actor) -> T:
        """Run a verb that identifies jobs by name; repeat it once if a name was taken meanwhile."""
        try:
            return await self._act(verb, actor)
        except NameTaken:  # by a transaction that committed after this one had read; its job is visible now
            return await self._act(verb, actor)
