"""A realistic mix of a hundred thousand jobs and runs, on either backend, and batches of a thousand of them."""

from collections.abc import Iterable
from uuid import UUID

from hourbell.store.sqlite.values import microseconds
from tests.contract.steps import NODE, T0

JOBS = RUNS = 100_000
LANES = 50
BATCH = 1_000
WANTED = [f"task:{number}" for number in range(LANES)]


def ids(numbers: Iterable[int]) -> list[UUID]:
    return [UUID(int=number) for number in numbers]


# The first fifth of the jobs have five runs each. Neighbours among the runs are in different states, and neighbours
# among the jobs have different lanes. Some jobs never fire again.
BUSY_JOBS = ids(range(20, 20_001, 20))
FINISHED_JOBS = ids(range(20_008, 70_008, 50))
WAITING = ids(range(41, RUNS + 1, 100))
RUNNING = ids(range(100, RUNS + 1, 100))
ENDED = ids(range(66, RUNS + 1, 100))
NEW_RUNS = ids(range(RUNS + 1, RUNS + BATCH + 1))
JOB_NAMES = [f"job-{job.int}" for job in BUSY_JOBS]

FORGET_PLANNED = "delete from hourbell.runs where lane like 'http:%'"  # what a pass of planning has added
STATE = """case when n * 61 % 100 = 0 then 'running' when n * 61 % 100 <= 20 then 'pending'
                when n * 61 % 100 <= 25 then 'retrying' when n * 61 % 100 <= 89 then 'succeeded'
                when n * 61 % 100 <= 97 then 'failed' else 'cancelled' end"""
FILL = """
insert into hourbell.jobs (id, name, schedule, target, lane, managed_by, version, saved_version, cursor_at, next_at,
                           plan_at, deleted_at)
select {job}, 'job-' || n, '* * * * *', '{{"type": "http", "url": "https://example.com/"}}', 'http:' || (n % 5000),
       'api', 1, 1, {t0}, case when n % 50 <> 8 then {at} end, case when n % 50 <> 8 and n % 1000 <> 9 then {at} end,
       case when n % 1000 = 9 then {t0} end
from {numbers};

insert into hourbell.job_versions (job_id, version, definition, changed_at, changed_by)
select {job}, 1, '{{}}', {t0}, 'somebody' from {numbers};

insert into hourbell.job_stats (job_id, last_state)
select {job}, 'succeeded' from {numbers} where n <= 20000;

insert into hourbell.skips (job_id, first_at, last_at, count, reason)
select {job}, {t0}, {at}, 1, 'missed' from {numbers} where n % 2 = 0;

insert into hourbell.secrets (id, job_id, field, key_id, sealed, created_at)
select {job}, {job}, 'header', 'key', {sealed}, {t0} from {numbers} where n % 2 = 0;

insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, planned_at,
                           rank, lane, state, attempt, exclusive, crashes, lease_owner, lease_until, started_at,
                           finished_at)
select {job}, {job_of_run}, 1, case when n % 10 = 0 then 'manual' else 'scheduled' end, at, {local}, at, at + {day},
       at, n / 7 % 4, 'task:' || (n / 100 % {lanes}), state, 1, n / 5 % 10 = 3,
       case when n % 1000 = 41 then 2 else 0 end, case when state = 'running' then {node} end,
       case when state = 'running' then at end, at,
       case when state in ('succeeded', 'failed', 'cancelled') then at end
from (select n, {at} as at, {state} as state from {numbers}) as made;

insert into hourbell.attempts (run_id, number, node, started_at, finished_at, outcome)
select id, 1, lease_owner, started_at, finished_at, state from hourbell.runs
where finished_at is not null and planned_at between {first_at} and {last_at};

insert into hourbell.cancels (run_id, requested_at)
select {job}, {t0} from {numbers} where n % 100 = 66;

insert into hourbell.run_notes (run_id, attempt, message, updated_at)
select {job}, 1, 'half of the rows are copied', {t0} from {numbers} where n % 2 = 0;
"""


def fill_postgres(first: int, last: int) -> str:
    """Without the checks of foreign keys, which would take as long as all the rest."""
    t0 = f"timestamptz '{T0}'"
    filled = FILL.format(
        numbers=f"generate_series({first}, {last}) n",
        job="lpad(to_hex(n), 32, '0')::uuid",
        job_of_run="lpad(to_hex(n / 5 + 1), 32, '0')::uuid",
        t0=t0,
        at=f"{t0} + n * interval '10 ms'",
        first_at=f"{t0} + {first} * interval '10 ms'",
        last_at=f"{t0} + {last} * interval '10 ms'",
        local="at at time zone 'UTC'",
        day="interval '1 day'",
        node=f"'{NODE}'::uuid",
        sealed="decode(repeat('00', 100), 'hex')",
        lanes=LANES,
        state=STATE,
    )
    return f"set session_replication_role = replica; {filled}; reset session_replication_role"


def fill_sqlite(first: int, last: int) -> str:
    t0 = microseconds(T0)
    return FILL.format(
        numbers=f"""(with recursive numbers (n) as (select {first} union all select n + 1 from numbers where n < {last})
                     select n from numbers)""",
        job="unhex(printf('%032x', n))",
        job_of_run="unhex(printf('%032x', n / 5 + 1))",
        t0=t0,
        at=f"{t0} + n * 10000",
        first_at=t0 + first * 10_000,
        last_at=t0 + last * 10_000,
        local="at",
        day=86_400_000_000,
        node=f"'{NODE}'",
        sealed="zeroblob(100)",
        lanes=LANES,
        state=STATE,
    )
