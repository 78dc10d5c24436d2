"""The safeguards, how each is taken out, and which tests are expected to notice."""

from dataclasses import dataclass

_ENGINE = "src/hourbell/engine"
_STORE = "src/hourbell/store"

SIMULATION = "simulation"  # up to 2,000 seeds, until one breaks a promise


@dataclass(frozen=True)
class Change:
    """A piece of text that stands once in a file, and what it becomes."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    name: str
    changes: tuple[Change, ...]
    tests: tuple[str, ...]  # SIMULATION, or what pytest calls them


def _scenario(name: str, backend: str) -> str:
    return f"tests/faults/test_campaign.py::test_every_promise_holds_under[{name}-{backend}]"


MUTANTS = (
    Mutant(
        "one run for each instant: the unique index",
        (
            Change(f"{_STORE}/postgres/migrations/0015_baseline.sql", "unique index runs_once", "index runs_once"),
            Change(
                f"{_STORE}/sqlite/migrations/0015_baseline.sql",
                "unique index hourbell_runs_once",
                "index hourbell_runs_once",
            ),
        ),
        ("tests/contract/test_planning.py",),
    ),
    Mutant(
        "the fence: the attempt in settle",
        (
            Change(
                f"{_STORE}/postgres/engine.sql",
                " and r.attempt = g.attempt and r.state = g.held\n    returning r.id, r.attempt,",
                "\n    returning r.id, r.attempt,",
            ),
            Change(
                f"{_STORE}/postgres/engine.sql",
                " and r.attempt = g.attempt and r.state = g.held\n    returning r.id, r.job_id,",
                "\n    returning r.id, r.job_id,",
            ),
            Change(
                f"{_STORE}/sqlite/engine.sql",
                " and r.attempt = g.attempt and r.state = 'running'\nreturning id, attempt",
                "\nreturning id, attempt",
            ),
            Change(
                f"{_STORE}/sqlite/engine.sql",
                " and r.attempt = g.attempt and r.state = 'running'\n\n-- name: insert_successful_attempts",
                "\n\n-- name: insert_successful_attempts",
            ),
        ),
        (SIMULATION, _scenario("frozen", "postgres"), "tests/contract/test_settling.py"),
    ),
    Mutant(
        "the trust window of a lease",
        (
            Change(f"{_ENGINE}/leases.py", "return self._elapsed() < until", "return True"),
            Change(f"{_ENGINE}/leases.py", "return self._elapsed() < self._renewed_until", "return True"),
        ),
        (SIMULATION, "tests/engine/test_several_nodes.py"),
    ),
    Mutant(
        "the claim that locks what it tests, finds it by its row id, and tests it again",
        (
            Change(
                f"{_STORE}/postgres/engine.sql",
                "limit w.free\n                for no key update skip locked",
                "limit w.free",
            ),
            Change(f"{_STORE}/postgres/engine.sql", "select r.ctid as row_id", "select r.id as row_id"),
            Change(
                f"{_STORE}/postgres/engine.sql",
                "where r.ctid = any(array(select row_id from taken)) and r.state || '' in ('pending', 'retrying')\n",
                "where r.id = any(array(select row_id from taken))\n",
            ),
        ),
        ("tests/contract/test_claiming.py",),
    ),
    Mutant(
        "the reaper's warm-up",
        (
            Change(
                f"{_ENGINE}/heartbeat.py",
                "return last - first >= 2 * self.interval and self._elapsed() - last < 2 * self.interval",
                "return True",
            ),
        ),
        (SIMULATION, "tests/engine/test_outage.py"),
    ),
    Mutant(
        "the claim is committed before the effect",
        (
            Change(
                f"{_STORE}/postgres/engine.sql",
                "set state = 'running', attempt = r.attempt + 1, lease_owner = $5,",
                "set lease_owner = $5,",
            ),
            Change(
                f"{_STORE}/sqlite/engine.sql",
                "set state = 'running', attempt = attempt + 1, lease_owner = ?2,",
                "set lease_owner = ?2,",
            ),
        ),
        (SIMULATION, _scenario("kills", "postgres"), "tests/contract/test_claiming.py"),
    ),
    Mutant(
        "the cursor never moves back",
        (
            Change(
                f"{_STORE}/postgres/engine.sql",
                "greatest(j.cursor_at, ($18::timestamptz[])[n.position])",
                "($18::timestamptz[])[n.position]",
            ),
            Change(f"{_STORE}/sqlite/engine.sql", "coalesce(max(j.cursor_at, ?2), j.cursor_at, ?2)", "?2"),
            Change(
                "src/hourbell/core/run/plan.py",
                "return _moved(job, schedule, job.cursor_at)\n    room",
                "return _moved(job, schedule, now)\n    room",
            ),
        ),
        (SIMULATION, "tests/contract/test_planning.py"),
    ),
    Mutant(
        "a skip is extended only within a version: the check against a later edit",
        (
            Change(f"{_STORE}/postgres/engine.sql", "      and s.last_at > j.updated_at  -- of", "      -- of"),
            Change(
                f"{_STORE}/sqlite/engine.sql",
                "  and last_at > (select updated_at from hourbell_jobs where id = ?1)  -- of this version",
                "  --",
            ),
        ),
        (
            "tests/contract/test_planning.py::test_a_skip_from_before_an_edit_is_not_extended[postgres-since_last1]",
            "tests/contract/test_planning.py::test_a_skip_from_before_an_edit_is_not_extended[sqlite-since_last1]",
        ),
    ),
    Mutant(
        "the database's clock, not the node's",
        (
            Change(
                f"{_ENGINE}/time.py",
                "return time + timedelta(0, self.elapsed() - at)",
                "from hourbell import clock\n        return clock.now()",
            ),
        ),
        (SIMULATION, _scenario("clocks", "postgres")),
    ),
    Mutant(
        "what may happen once does not begin while that cannot be written",
        (
            Change(
                f"{_ENGINE}/attempts.py",
                "except Exception:  # nothing has been sent, so the run can be handed back\n"
                "                return False",
                "except Exception:\n                return True",
            ),
        ),
        ("tests/engine/test_deaths.py",),
    ),
    Mutant(
        "trust in a lease begins when its renewal is asked for",
        (
            Change(
                f"{_ENGINE}/heartbeat.py",
                "        lost = set(reply.lost)\n",
                "        trusted_until = self._leases.trust_from_now()\n        lost = set(reply.lost)\n",
            ),
        ),
        ("tests/engine/test_deaths.py",),
    ),
    Mutant(
        "a lost lease stops its attempt",
        (Change(f"{_ENGINE}/engine.py", "        self.attempts.stop_lost(result.lost)\n", ""),),
        ("tests/engine/test_deaths.py",),
    ),
    Mutant(
        "a lease that its node does not hold is handed back",
        (
            Change(
                f"{_ENGINE}/heartbeat.py",
                "given_up=given_up, orphans=orphans",
                "given_up=given_up",
            ),
        ),
        ("tests/engine/test_deaths.py",),
    ),
    Mutant(
        "a claim under way is no orphan",
        (Change(f"{_ENGINE}/leases.py", "return not self._is_claiming or self._claims > claim", "return True"),),
        ("tests/engine/test_deaths.py",),
    ),
    Mutant(
        "a node that is heard again was no death",
        (
            Change(
                f"{_STORE}/postgres/engine.sql",
                " and a.late_outcome is null\n  and (n.beat_at is null or n.beat_at <= a.finished_at)",
                "",
            ),
            Change(
                f"{_STORE}/sqlite/engine.sql",
                " and a.late_outcome is null\n  and (n.beat_at is null or n.beat_at <= a.finished_at)",
                "",
            ),
        ),
        ("tests/contract/test_reaping.py", "tests/engine/test_deaths.py"),
    ),
    Mutant(
        "a run that is running cannot be claimed",
        (
            Change(
                f"{_STORE}/postgres/migrations/0015_baseline.sql",
                "when (old.state = 'running' and new.attempt is distinct from old.attempt)",
                "when (false)",
            ),
            Change(
                f"{_STORE}/sqlite/migrations/0015_baseline.sql",
                "when old.state = 'running' and new.attempt is not old.attempt",
                "when false",
            ),
        ),
        ("tests/contract/test_states.py",),
    ),
    Mutant(
        "the id follows from job and instant",
        (
            Change(
                "src/hourbell/core/run/run.py",
                "return timed_id(milliseconds, sha1(job_id.bytes + digits, usedforsecurity=False).digest(), version=8)",
                "from uuid import uuid4\n    return uuid4()",
            ),
        ),
        (SIMULATION, _scenario("older_backup", "postgres"), "tests/core/test_run_identity.py"),
    ),
    Mutant(
        "a pass does not decide by an unconfirmed clock step",
        (
            Change(
                f"{_ENGINE}/planner.py",
                "_Decisions(asked, self._clock.elapsed)",
                "(lambda job, _: plan(job, self._clock.now()))",
            ),
        ),
        ("tests/engine/test_clock_steps.py",),
    ),
    Mutant(
        "lanes are looked at once a second, whatever the hints say",
        (Change(f"{_ENGINE}/lanes.py", "_POLL_SECONDS = 1.0", "_POLL_SECONDS = 1e9"),),
        (SIMULATION,),
    ),
    Mutant(
        "a node claims no more than it has threads for",
        (
            Change(
                f"{_ENGINE}/attempts.py",
                "return pool.size - max(pool.taken, self._in_pool[pool])",
                "return pool.size",
            ),
        ),
        (SIMULATION, "tests/engine/test_pools.py"),
    ),
    Mutant(
        "lanes that hang leave slots to lanes that answer",
        (Change(f"{_ENGINE}/shares.py", "if use.slots <= SMALL_NODE_SLOTS:", "if use.slots:"),),
        (SIMULATION, "tests/engine/test_shares.py"),
    ),
    *(
        Mutant(
            name,
            (Change("src/hourbell/targets/http/http_connection.py", old, new),),
            ("tests/targets/http/test_fuzz.py",),
        )
        for name, old, new in (
            (
                "an answer that others read otherwise is the last one",
                "parser.should_keep_alive() and not state.is_ambiguous",
                "parser.should_keep_alive()",
            ),
            ("line ends after an answer are noticed", "end = _end_of_text(data)", "end = len(data)"),
            ("a receiver that asks to close is left", "parser.should_keep_alive() and not state.is_ambiguous", "True"),
            ("a body is kept up to its limit", "if state.body_size > MAX_RESPONSE_BYTES:", "if False:"),
            ("headers are read up to their limit", "else MAX_HEADER_BYTES):", "else 1 << 40):"),
        )
    ),
    Mutant(
        "reading a body has a limit of its own",
        (
            Change(
                "src/hourbell/targets/http/client.py",
                "TimeLimit(self._limits, MAX_BODY_SECONDS)",
                "TimeLimit(self._limits, 60.0)",
            ),
        ),
        ("tests/targets/http/test_fuzz.py",),
    ),
    Mutant(
        "commits on SQLite are on disk when they return",
        (Change(f"{_STORE}/sqlite/connection.py", '"synchronous = full"', '"synchronous = normal"'),),
        ("tests/contract/test_sqlite_power_cut.py",),
    ),
    Mutant(
        "no write is acknowledged into a SQLite file that is gone",
        (
            Change(
                f"{_STORE}/sqlite/writer.py",
                "            self._file.check(self._files)\n",
                "            pass\n",
            ),
        ),
        ("tests/contract/test_sqlite_file.py",),
    ),
)
