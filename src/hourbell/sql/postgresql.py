"""The statements for PostgreSQL. Every value is passed as text and cast here, so that no driver has to know a type.

They write `cast(… as …)` and never `::`, which some drivers take for a placeholder. To raise an error with a message,
they cast the message to uuid, which cannot succeed.
"""

from hourbell.core.job.fields import JobField
from hourbell.sql.columns import insert, replaced

_FROM_NOW = "clock_timestamp() - cast(cast(:grace as text) as interval)"

# The message contains the time also because a constant would be cast, and fail, when the statement is planned.
_FROM_NOW_UNLESS_OVER = f"""\
case when cast(cast(:last_at as text) as timestamptz) <= {_FROM_NOW}
        then cast(cast(cast(
            cast(:name as text) || ' would never fire: its end was ' || cast(:last_at as text) || ', and it is '
            || cast(clock_timestamp() as text) || '; give it a later one' as uuid) as text) as timestamptz)
        else {_FROM_NOW} end"""


def _cast(field: JobField) -> str:
    text = f"cast(:{field.name} as text)"
    match field.kind.column:
        case "text":
            return text
        case "text[]":
            return f"array(select jsonb_array_elements_text(cast({text} as jsonb)))"
        case column:
            return f"cast({text} as {column})"


_INSERT = insert("hourbell.jobs", _cast)

# The trigger of jobs creates the new version, and has it planned from now on if its scheduled times changed.
_REPLACE = f"""
on conflict (name collate "C") where deleted_at is null do update set {replaced()},
    enabled = excluded.enabled and (j.enabled or j.paused_by is null),
    managed_by = case when j.managed_by = 'sql' then 'sql' else cast(
        cast(j.name || ' is managed by ' || j.managed_by || '; change it there, or take another name' as uuid)
        as text) end"""

INSERT_JOB = {
    "error": f"{_INSERT}{_FROM_NOW_UNLESS_OVER})",
    "ignore": f'{_INSERT}{_FROM_NOW})\non conflict (name collate "C") where deleted_at is null do nothing',
    "replace": f"{_INSERT}{_FROM_NOW}){_REPLACE}",
}

# A lock that blocks neither planning nor changes of the job, only its removal.
_JOB = """\
with recursive asked as materialized (
    select cast(:name as text) as name
), found as materialized (
    select j.* from hourbell.jobs j
    where j.name collate "C" = cast(:name as text) and j.deleted_at is null
    for key share
), job as materialized (
    select case
        when f.id is null then cast('there is no job named ' || a.name as uuid)
        when f.error is not null then cast(a.name || ' cannot run, ' || f.error as uuid)
        when f.saved_version <> f.version or f.lane = '' then
            cast(a.name || ' is not planned yet; try again in a second, and see that a node is running' as uuid)
        else f.id end as id, f.version, f.max_age, f.priority, f.lane, f.overlap, f.delivery,
        clock_timestamp() as now
    from asked a left join found f on true
)"""

# UUIDv5 is the SHA-1 of the job's id and a text, and PostgreSQL has no SHA-1 built in. All words are 32 bits in a
# bigint. `expanded` has the 80 words of each block of 64 bytes; `rounds` takes 80 steps for each, and one that adds the
# block's initial state.
_DIGEST = """, words as materialized (
    select array(select cast(cast('x' || substr(encode(uuid_send(j.id), 'hex'), 8 * n + 1, 8) as bit(32)) as bigint)
                 from generate_series(0, 3) n order by n)
        || array(select cast(value as bigint)
                 from jsonb_array_elements_text(cast(cast(:words as text) as jsonb)) with ordinality as w(value, place)
                 order by place) as w
    from job j
), expanding (block, t, w) as (
    select block, 16, w[16 * block + 1 : 16 * block + 16]
    from words, generate_series(0, cardinality(w) / 16 - 1) as block
    union all
    select block, t + 1, w || (((x << 1) | (x >> 31)) & 4294967295)
    from expanding, lateral (select w[t - 2] # w[t - 7] # w[t - 13] # w[t - 15]) as mixed(x)
    where t < 80
), expanded as materialized (
    select block, w from expanding where t = 80
), rounds (block, t, a, b, c, d, e, h) as (
    select 0, 0, h[1], h[2], h[3], h[4], h[5], h
    from (values (cast(array[1732584193, 4023233417, 2562383102, 271733878, 3285377520] as bigint[]))) as start(h)
    union all
    select case when r.t < 80 then r.block else r.block + 1 end, case when r.t < 80 then r.t + 1 else 0 end,
           s[1], s[2], s[3], s[4], s[5], case when r.t < 80 then h else s end
    from rounds r
    join expanded x on x.block = r.block,
    lateral (select case
        when r.t < 20 then ((b & c) | (~b & d)) + 1518500249
        when r.t < 40 then (b # c # d) + 1859775393
        when r.t < 60 then ((b & c) | (b & d) | (c & d)) + 2400959708
        else (b # c # d) + 3395469782 end) as mixed(f),
    lateral (select case
        when r.t < 80 then array[(((a << 5) | (a >> 27)) + f + e + x.w[r.t + 1]) & 4294967295, a,
                                 ((b << 30) | (b >> 2)) & 4294967295, c, d]
        else array[(a + h[1]) & 4294967295, (b + h[2]) & 4294967295, (c + h[3]) & 4294967295,
                   (d + h[4]) & 4294967295, (e + h[5]) & 4294967295] end) as step(s)
)"""

# UUIDv7, which PostgreSQL creates itself only from version 18: the time, and the rest of a random one.
_NEW_RUN = """, run as materialized (
    select cast(lpad(to_hex(cast(floor(extract(epoch from now) * 1000) as bigint)), 12, '0') || '7'
                || substr(cast(gen_random_uuid() as text), 16) as uuid) as id
    from job
)"""
_KEYED_RUN = """, run as materialized (
    select cast(lpad(to_hex(a), 8, '0') || lpad(to_hex((b & 4294905855) | 20480), 8, '0')
                || lpad(to_hex((c & 1073741823) | 2147483648), 8, '0') || lpad(to_hex(d), 8, '0') as uuid) as id
    from rounds where t = 0 order by block desc limit 1
)"""

_TRIGGER = """, made as (
    insert into hourbell.runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane,
                               exclusive, at_most_once, planned_at, payload)
    select run.id, job.id, job.version, 'manual', job.now, job.now at time zone 'UTC', job.now, job.now + job.max_age,
           case job.priority when 'high' then 0 when 'normal' then 1 else 2 end, job.lane, job.overlap <> 'allow',
           job.delivery = 'at_most_once', job.now, cast(cast(:payload as text) as jsonb)
    from job, run
    on conflict (id) do nothing
    returning id, job_id
), noted as (
    insert into hourbell.audit (at, actor, action, subject, after)
    select now(), 'sql', 'job.trigger', cast(made.job_id as text), jsonb_build_object('run', made.id)
    from made, pg_notify('hourbell', 'runs')
)
select cast(id as text) as run_id from run"""

TRIGGER_JOB = _JOB + _NEW_RUN + _TRIGGER
TRIGGER_JOB_ONCE = _JOB + _DIGEST + _KEYED_RUN + _TRIGGER
