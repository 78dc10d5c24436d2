"""The statements for SQLite, with nothing that version 3.38 lacks. Times and durations are microseconds.

To raise an error with a message, they use the message as a JSON path, which is invalid.
"""

from hourbell.sql.columns import insert, replaced

_NOW = "cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000"
_FROM_NOW = f"{_NOW} - :grace"
_FROM_NOW_UNLESS_OVER = f"""\
case when :last_at <= {_FROM_NOW}
        then json_extract('{{}}', :name || ' would never fire: its end was '
            || datetime(:last_at / 1000000, 'unixepoch') || ', and it is ' || datetime('now')
            || ' UTC; give it a later one')
        else {_FROM_NOW} end"""

_INSERT = insert("hourbell_jobs", lambda field: f":{field.name}")

# The trigger of jobs creates the new version, and has it planned from now on if its scheduled times changed.
_REPLACE = f"""
on conflict (name) where deleted_at is null do update set {replaced()},
    enabled = excluded.enabled and (j.enabled or j.paused_by is null),
    managed_by = case when j.managed_by = 'sql' then 'sql' else json_extract('{{}}',
        j.name || ' is managed by ' || j.managed_by || '; change it there, or take another name') end"""

INSERT_JOB = {
    "error": f"{_INSERT}{_FROM_NOW_UNLESS_OVER})",
    "ignore": f"{_INSERT}{_FROM_NOW})\non conflict (name) where deleted_at is null do nothing",
    "replace": f"{_INSERT}{_FROM_NOW}){_REPLACE}",
}

# It begins with `insert`: only before such a statement Python's sqlite3 opens a transaction by itself.
_RUN = """\
insert into hourbell_runs (id, job_id, job_version, kind, scheduled_at, local_at, ready_at, expires_at, rank, lane,
                           exclusive, at_most_once, planned_at, payload)
"""

_JOB = f"""\
with recursive job as materialized (
    select case
        when f.id is null then json_extract('{{}}', 'there is no job named ' || a.name)
        when f.error is not null then json_extract('{{}}', a.name || ' cannot run, ' || f.error)
        when f.saved_version <> f.version or f.lane = '' then json_extract('{{}}',
            a.name || ' is not planned yet; try again in a second, and see that a node is running')
        else f.id end as id, f.version, f.max_age, f.priority, f.lane, f.overlap, f.delivery, {_NOW} as now
    from (select :name as name) a left join hourbell_jobs f on f.name = a.name and f.deleted_at is null
)"""

# UUIDv5 is the SHA-1 of the job's id and a text, and SQLite has no SHA-1. All words are 32 bits. `expanded` has the 80
# words of each block of 64 bytes; `rounds` takes 80 steps for each, and one that adds the block's initial state. SQLite
# has no exclusive or: for two it is p + q - 2 * (p & q), and for three their sum without twice the majority.
_DIGEST = """, words (place, word) as materialized (
    select n.value, (select sum(instr('123456789ABCDEF', substr(hex(j.id), 8 * n.value + d.value, 1))
                                << (32 - 4 * d.value)) from json_each('[1,2,3,4,5,6,7,8]') d)
    from job j, json_each('[0,1,2,3]') n
    union all
    select key + 4, value from json_each(:words)
), expanding (block, t, w) as (
    select place / 16, 0, '[]' from words where place & 15 = 0
    union all
    select block, t + 1, json_insert(w, '$[#]', case
        when t < 16 then (select word from words where place = 16 * block + t)
        else (select ((x << 1) | (x >> 31)) & 4294967295
              from (select y + z - 2 * (y & z) as x
                    from (select p + q - 2 * (p & q) as y, r + s - 2 * (r & s) as z
                          from (select json_extract(w, '$[' || (t - 3) || ']') as p,
                                       json_extract(w, '$[' || (t - 8) || ']') as q,
                                       json_extract(w, '$[' || (t - 14) || ']') as r,
                                       json_extract(w, '$[' || (t - 16) || ']') as s)))) end)
    from expanding where t < 80
), expanded (block, w) as materialized (
    select block, w from expanding where t = 80
), rounds (block, t, a, b, c, d, e, h0, h1, h2, h3, h4) as (
    select 0, 0, 1732584193, 4023233417, 2562383102, 271733878, 3285377520,
           1732584193, 4023233417, 2562383102, 271733878, 3285377520
    union all
    select r.block + (t = 80), case when t < 80 then t + 1 else 0 end,
           case when t < 80 then (((a << 5) | (a >> 27)) + e + json_extract(x.w, '$[' || t || ']') + case
                    when t < 20 then ((b & c) | (~b & d)) + 1518500249
                    when t < 40 then b + c + d - 2 * ((b & c) | (b & d) | (c & d)) + 1859775393
                    when t < 60 then ((b & c) | (b & d) | (c & d)) + 2400959708
                    else b + c + d - 2 * ((b & c) | (b & d) | (c & d)) + 3395469782 end) & 4294967295
                else (a + h0) & 4294967295 end,
           case when t < 80 then a else (b + h1) & 4294967295 end,
           case when t < 80 then ((b << 30) | (b >> 2)) & 4294967295 else (c + h2) & 4294967295 end,
           case when t < 80 then c else (d + h3) & 4294967295 end,
           case when t < 80 then d else (e + h4) & 4294967295 end,
           case when t < 80 then h0 else (a + h0) & 4294967295 end,
           case when t < 80 then h1 else (b + h1) & 4294967295 end,
           case when t < 80 then h2 else (c + h2) & 4294967295 end,
           case when t < 80 then h3 else (d + h3) & 4294967295 end,
           case when t < 80 then h4 else (e + h4) & 4294967295 end
    from rounds r join expanded x on x.block = r.block
), digest (w) as materialized (
    select json_array(a, (b & 4294905855) | 20480, (c & 1073741823) | 2147483648, d)
    from rounds where t = 0 order by block desc limit 1
), bytes (n, id) as (
    select 0, x''
    union all
    select n + 1, cast(id || substr(:every_byte, 1 + ((
        json_extract(w, '$[' || (n / 4) || ']') >> (24 - 8 * (n & 3))) & 255), 1) as blob)
    from bytes, digest where n < 16
)"""

_VALUES = """
select run.id, job.id, job.version, 'manual', now, now, now, now + job.max_age,
       case job.priority when 'high' then 0 when 'normal' then 1 else 2 end, job.lane, job.overlap <> 'allow',
       job.delivery = 'at_most_once', now, :payload
from job, run where true
on conflict (id) do nothing"""

TRIGGER_JOB = f"{_RUN}{_JOB}, run (id) as (select randomblob(16)){_VALUES}"
TRIGGER_JOB_ONCE = f"{_RUN}{_JOB}{_DIGEST}, run (id) as (select id from bytes where n = 16){_VALUES}"
