"""The catalog of defects: the severity, message and repair of each kind that the doctor reports."""

from hourbell.core.doctor.findings import Check, Severity

CHECKS: dict[str, Check] = {}


def _error(name: str, message: str, repair: str) -> Check:
    return CHECKS.setdefault(name, Check(name, Severity.ERROR, message, repair))


def _warning(name: str, message: str, repair: str) -> Check:
    return CHECKS.setdefault(name, Check(name, Severity.WARNING, message, repair))


# The schema
MIGRATION_PENDING = _error(
    "migration_pending", "the schema is older than this release", "Run: hourbell db migrate. Nothing else was checked."
)
SCHEMA_NEWER = _error(
    "schema_newer",
    "the schema is newer than this release",
    "Upgrade Hourbell on this machine and run the doctor again. Nothing else was checked.",
)
MIGRATION_CHANGED = _error(
    "migration_changed",
    "a migration was changed after it was run",
    "Install the release that ran it; the schema is not the one this release expects. Nothing else was checked.",
)
OBJECT_MISSING = _error(
    "object_missing",
    "a table, index or trigger of the schema is missing",
    "Make it again with its `create` statement, which `hourbell db sql` prints. If a unique index cannot be made, the "
    "rows it names are there twice: repair those first. A missing table must come back from a backup.",
)
TRIGGER_DISABLED = _error(
    "trigger_disabled", "a trigger of the schema is disabled", "Enable it with the statement below."
)
INDEX_INVALID = _error(
    "index_invalid",
    "an index is invalid: PostgreSQL does not use it, and it guards nothing",
    "Rebuild it with the statement below, which does not block writers.",
)

# The database
DATABASE_DAMAGED = _error(
    "database_damaged",
    "SQLite finds damage in the file",
    "Stop every node, copy the file with its -wal and -shm files to a safe place, and restore the last good backup. "
    "Without one, the sqlite3 program's `.recover` saves what can be read.",
)
DATABASE_READ_ONLY = _error(
    "database_read_only",
    "the database refuses writes: nothing is planned and nothing runs",
    "Name the primary in DATABASE_URL, or all hosts with commas between them: the one that accepts writes is taken. If "
    "default_transaction_read_only is on, turn it off for the server, the database and the role. Nodes resume by "
    "themselves.",
)
DATABASE_UNWRITABLE = _error(
    "database_unwritable",
    "the database is not writable: a node of this user cannot start or work",
    "Give the file, the files beside it and their folder to the user of the nodes, or run this as that user; where the "
    "disk is full, make room.",
)
JOURNAL_MODE = _warning(
    "journal_mode",
    "the file is not in WAL mode, so that readers and writers wait for each other",
    "Start a node: `hourbell serve` switches the file to WAL. If it stays so, the file system does not support WAL "
    "(a network share, for instance): move the file to a local disk.",
)
SETTING_UNSAFE = _warning(
    "setting_unsafe",
    "PostgreSQL may lose or damage what it acknowledged when its machine crashes",
    "Unless this database may be lost, run the statement below as a superuser. If the value was set for the role or "
    "the database, take it back there (`alter role … reset`, `alter database … reset`).",
)

# Audit
AUDIT_CHAIN_BROKEN = _error(
    "audit_chain_broken",
    "the audit was changed behind Hourbell: rows were changed, removed or inserted past its triggers",
    "`hourbell audit verify` checks the whole chain and says when and what. Compare the rows with a backup. Nothing "
    "repairs the chain, and rows are chained on as before.",
)
AUDIT_UNCHAINED = _warning(
    "audit_unchained",
    "audit rows wait to be chained for more than ten minutes, though nodes are running",
    "Look for `tick_failed` with the loop audit_chain in the log of the nodes. After an upgrade it takes a while where "
    "there are millions of rows.",
)

# Nodes and clocks
NO_LIVE_NODE = _warning(
    "no_live_node",
    "no node is running: nothing is planned and nothing runs",
    "Start one: hourbell serve, with --app module:scheduler if it is to run your functions.",
)
CLOCK_OFFSET = _warning(
    "clock_offset",
    "this machine's clock differs from the database's",
    "Nodes decide by the database's time, so nothing fires wrongly. Set the clocks right (NTP, chrony), the database's "
    "first.",
)
BEAT_IN_FUTURE = _warning(
    "beat_in_future",
    "a node's last heartbeat lies in the future: the database's clock went back, or the node takes it for another time",
    "Look at the clock of the database's machine. If it is right, restart the node.",
)
CURSOR_AHEAD = _warning(
    "cursor_ahead",
    "a job is planned ahead of the time it is now: the database's clock went back",
    "Look at the clock of the database's machine. If it is right, do nothing: the job fires again once the time below "
    "has passed.",
)
TZDATA_MIXED = _warning(
    "tzdata_mixed",
    "nodes have different time-zone data; those with older data plan nothing",
    "Install the newest `tzdata` package for every node and restart those below.",
)
TZDATA_UNFINISHED = _warning(
    "tzdata_unfinished",
    "jobs are still planned by older time-zone data than the database has seen",
    "It passes while a node with the newer data runs. If none does, install the newest `tzdata` package for one and "
    "restart it.",
)
TZDATA_HERE = _warning(
    "tzdata_here",
    "this machine has other time-zone data than the nodes, so the scheduled times of jobs outside UTC were not checked",
    "Install the same `tzdata` package here and run the doctor again.",
)

# Jobs
JOB_IN_ERROR = _error(
    "job_in_error",
    "a job cannot be planned and does not fire",
    "Correct its definition; it is planned from then on. `hourbell cron check EXPR` shows what is wrong with a "
    "schedule. To stop it instead, set enabled to false.",
)
JOB_OVERDUE = _error(
    "job_overdue",
    "a job is overdue, nodes are running, and none plans it",
    "Look for `tick_failed` and `tzdata_outdated` in the log of the nodes, then restart them one by one. If the "
    "database's clock was put forward a moment ago, run the doctor again in a minute.",
)
JOB_UNATTENDED = _error(
    "job_unattended",
    "a job is overdue and no node is running",
    "Start a node: hourbell serve. What fell due meanwhile follows the job's catch-up policy.",
)
JOB_NEVER_PLANNED = _error(
    "job_never_planned",
    "an enabled job is never planned again, although its schedule continues",
    "Schedule it for planning with the statement below. What fell due since then follows the job's catch-up policy.",
)

JOB_CONFLICT = _error(
    "job_conflict",
    "a running program defines a job that somebody else owns, so that the program's own is left out",
    "Run the command in the row above, or give one of the jobs another name. A job of another program is taken over by "
    "itself once no live node of that program defines it.",
)
JOB_REPLACED = _warning(
    "job_replaced",
    "the row of a job was replaced or removed by SQL, so that what was due since its last run is not on record",
    "On SQLite, `insert or replace` removes a row without any trigger: write `insert … on conflict (name) do update` "
    "instead. Compare the last times below with the schedule the job had, and run by hand what is missing. Retention "
    "removes the runs, and with them this finding.",
)

# Instants
INSTANT_LOST = _error(
    "instant_lost",
    "a due time has neither a run nor a skip",
    "This is not corrected automatically. For each scheduled time, the first statement runs it now; or, if it must not "
    "run any more, the second records it as missed. Use one of the two.",
)
INSTANT_TWICE = _error(
    "instant_twice",
    "a due time is recorded twice",
    "Check the runs and skips of the job at this time. Future planning is not affected.",
)
RUN_OUTSIDE = _error(
    "run_outside_schedule",
    "a run has a scheduled time that is not in its schedule",
    "If it has not ended, cancel it with the statement below. One that ended is history, which retention removes.",
)
SKIP_MISCOUNTED = _error(
    "skip_miscounted",
    "a skip does not match the scheduled times of its job",
    "Somebody changed the row. Only the history is wrong: set its count with the statement below, or "
    "first_at and last_at to the first and last time that was skipped.",
)

# Runs
RUN_ID_WRONG = _error(
    "run_id_wrong",
    "a run's id does not follow from its job and scheduled time, so that this time may run again",
    "If you leave it, a waiting run runs once, as it should. If you cancel it with the statement below, it never runs: "
    "its time is not planned again. One that ended is history, which retention removes.",
)
RUN_TWICE = _error(
    "run_twice",
    "a scheduled time of a job has two runs",
    "Delete the one that did not run, by its id, from runs and attempts. The index runs_once, which forbids it, must "
    "be missing: see object_missing.",
)
RUN_WITHOUT_LEASE = _error(
    "run_without_lease",
    "a run is running, but no node holds it",
    "Let its lease end now with the statement below; a node then takes the run over within seconds.",
)
RUN_UNCLAIMED = _error(
    "run_running_unclaimed",
    "a run is running, but was never claimed",
    "Let its lease end now with the statement below; a node then takes the run over within seconds.",
)
WAITING_WITH_TRACES = _error(
    "waiting_with_traces",
    "a run waits, but has the lease or the end of an attempt",
    "Clear what does not belong there with the statement below; the run stays in its place.",
)
ENDED_WITHOUT_TIME = _error(
    "ended_without_time",
    "a run ended without an end time, so retention never removes it",
    "It does no other harm. To remove it with its attempts, run the statement below.",
)
ENDED_WITH_LEASE = _error(
    "ended_with_lease",
    "a run ended, but has a lease",
    "It does no harm, and retention removes it. Somebody changed the row behind the trigger runs_moves: see that it is "
    "there.",
)
REASON_WRONG = _error(
    "reason_wrong",
    "a run's reason does not go with its state",
    "It does no harm, and retention removes it. Somebody changed the row behind the trigger runs_moves: see that it is "
    "there.",
)
ATTEMPT_AHEAD = _error(
    "attempt_ahead",
    "a run has a stored attempt with a higher number than its own",
    "For a run that has not ended, set its attempt with the statement below. One that ended is history.",
)
ATTEMPT_MISSING = _error(
    "attempt_missing",
    "a run ended, but the attempt that ended it is not stored",
    "Somebody deleted rows of the attempts. The run itself needs nothing; what it did is lost unless a backup has it.",
)
RUN_WITHOUT_JOB = _error(
    "run_without_job",
    "a run has not ended, but its job is gone",
    "Cancel it with the statement below if it waits; if it runs, let it end. Jobs must not be deleted by SQL.",
)
RUN_WITHOUT_VERSION = _error(
    "run_without_version",
    "a run has not ended, but the definition it was planned by is gone, so that no node can run it",
    "Cancel it with the statement below if it waits. The row of job_versions can come back from a backup.",
)
EXCLUSIVE_TWICE = _error(
    "exclusive_twice",
    "two runs of a job are running that must not overlap",
    "Ask one of them to stop with the statement below. The index runs_exclusive must be missing: see object_missing.",
)
LEASE_EXPIRED = _error(
    "lease_expired",
    "a lease ran out, nodes are running, and none takes the run over",
    "Look for `tick_failed` in the log of the nodes, then restart them one by one. If the database's clock was put "
    "forward a moment ago, run the doctor again in a minute.",
)
RUNS_UNATTENDED = _error(
    "runs_unattended",
    "runs are overdue and no node is running",
    "Start a node: hourbell serve, with --app module:scheduler if it is to run your functions. Runs that nobody serves "
    "fail as expired when they are older than their job's max_age.",
)
SECRET_ELSEWHERE = _error(
    "secret_elsewhere",
    "a secret header is not sent, because it was not set for the origin of its job: the job's runs fail",
    "Set it again: printf '%s' \"$VALUE\" | hourbell secret set JOB header:NAME. Or remove it: hourbell secret remove.",
)
LANE_UNSERVED = _warning(
    "lane_unserved",
    "runs wait in a lane that no live node serves",
    "Start a node that has this task or target: hourbell serve --app module:scheduler. Runs that nobody serves fail as "
    "expired when they are older than their job's max_age.",
)
RUNS_STUCK = _warning(
    "runs_stuck",
    "runs have been ready for a long time and no node claims them",
    "Start more nodes, or raise HOURBELL_SLOTS. If the nodes have nothing to do, look for `tick_failed` in their log.",
)

# Alerts
POLICY_UNKNOWN = _warning(
    "policy_unknown",
    "jobs name an alert policy that does not exist, so that `default` applies to them",
    "Create the policy (hourbell alert-policy set NAME), or give the jobs another one (hourbell job edit JOB "
    "--alert-policy default).",
)
POLICY_UNREADABLE = _warning(
    "policy_unreadable",
    "an alert policy cannot be read, so that `default` applies to its jobs",
    "Define it again: hourbell alert-policy set NAME.",
)
CHANNEL_UNKNOWN = _warning(
    "channel_unknown",
    "an alert policy names a channel that does not exist, so that its messages to it are not sent",
    "Create the channel (hourbell channel create NAME), or define the policy again without it (hourbell alert-policy "
    "set POLICY).",
)

# The deployment, with --production
ACCESS_OPEN = _error(
    "access_open",
    "the server needs no token, so every user of its machine has full access",
    "Create a token: hourbell token create admin --role admin. From then on every request needs one.",
)
TOKEN_MISSING = _warning(
    "token_missing",
    "no token is valid, so nobody can call the API",
    "Make one: hourbell token create admin --role admin.",
)
HTTP_UNENCRYPTED = _warning(
    "http_unencrypted",
    "the server speaks plain HTTP beyond this machine, where others can read tokens and payloads",
    "Put a proxy with TLS in front. On the same machine, set HTTP_ADDR=127.0.0.1:8080; on another, name its network in "
    "HOURBELL_TRUSTED_PROXIES and let nobody else reach the port. docs/security-checklist.md has an example.",
)
DATABASE_EXPOSED = _warning(
    "database_exposed",
    "every user of this machine may read or change a file of the database",
    "Run the command in the row above. Files that this release makes have mode 0600.",
)
KEY_EXPOSED = _error(
    "key_exposed",
    "every user of this machine may open the file of the secret key, and no node starts with it",
    "Do what the row above says. If others may have read the key, make a new one and run: hourbell db rotate-keys.",
)
KEY_MISSING = _warning(
    "key_missing",
    "there is no secret key, so that no job can have a secret and requests cannot be signed",
    "Set HOURBELL_SECRET_KEY_FILE on every node to a file of mode 0400 with what `openssl rand -base64 32` prints. On "
    "SQLite the first start makes one beside the database.",
)
DATABASE_UNENCRYPTED = _warning(
    "database_unencrypted",
    "a connection to a database on another machine may go without TLS",
    "Add sslmode=verify-full and sslrootcert=FILE to the URL, as in postgresql://…/hourbell?sslmode=verify-full.",
)
ROLE_SUPERUSER = _warning(
    "role_superuser",
    "Hourbell logs in as a superuser of PostgreSQL, who may read every file of the server and run programs there",
    "Give it a role and a database of its own, as docs/operating.md shows, and name them in DATABASE_URL.",
)
FUNCTION_LOGIN_MISSING = _warning(
    "function_login_missing",
    "SQL functions run under Hourbell's own login, and so may read and change its tables",
    "Make a login that may only execute these functions, and name it in HOURBELL_SQL_DATABASE_URL; docs/functions.md "
    "shows how.",
)
RETENTION_UNUSUAL = _warning(
    "retention_unusual",
    "ended runs are kept for less than a day or for longer than two years",
    "Set HOURBELL_RETENTION to as long as you look back at runs; the database grows with it.",
)
DESCRIPTORS_FEW = _warning(
    "descriptors_few",
    "a node may not open as many connections as it has slots",
    "Raise the hard limit (LimitNOFILE=65536 in the systemd unit, ulimit -Hn in a shell), or lower HOURBELL_SLOTS. The "
    "limit is that of this process: run the doctor as the node is run.",
)
