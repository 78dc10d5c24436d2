/** What happened to a run, in order, and what comes next: pure functions of the run. */
import type { Attempt, RunDetail } from '../../api/types'
import { errorLine } from '../../lib/errorLine'
import { formatDuration, formatRelative } from '../../lib/duration'
import { count, REASON_WORDS, type Fate } from '../../lib/outcome'
import { toMs } from '../../lib/time'

export interface RunEvent {
  at: number
  /** When it ended, for what lasts. */
  until?: number | null
  text: string
  fate?: Fate
  detail?: string
}

export const OUTCOME_FATES: Record<string, Fate> = {
  succeeded: 'succeeded',
  failed: 'failed',
  lost: 'failed',
  timed_out: 'failed',
  cancelled: 'cancelled',
  interrupted: 'cancelled',
}

/** The life of a run: scheduled, planned, ready, each attempt, the end. */
export function eventsOf(run: RunDetail): RunEvent[] {
  const events: RunEvent[] = []
  if (run.kind === 'scheduled' || run.kind === 'backfill') events.push({ at: toMs(run.scheduled_at), text: 'Scheduled', fate: 'planned' })
  if (run.planned_at) {
    const delay = toMs(run.planned_at) - toMs(run.scheduled_at)
    const late = run.kind === 'scheduled' && delay >= 1000 ? `${formatDuration(delay)} after its scheduled time` : undefined
    events.push({ at: toMs(run.planned_at), text: run.kind === 'scheduled' ? 'Planned' : PLANNED[run.kind] ?? 'Planned', ...(late ? { detail: late } : {}) })
  }
  for (const attempt of run.attempts ?? []) events.push(attemptEvent(attempt))
  if (run.state === 'running' && run.started_at) {
    const begun = run.attempts?.length ? undefined : toMs(run.started_at)
    events.push({ at: begun ?? toMs(run.attempts?.at(-1)?.finished_at ?? run.started_at), until: null, text: `Attempt ${run.attempt}`, fate: 'running', detail: 'in progress' })
  }
  if (run.finished_at) events.push({ at: toMs(run.finished_at), text: END[run.state] ?? run.state, fate: run.state as Fate, ...(run.reason ? { detail: REASON_WORDS[run.reason] ?? run.reason } : {}) })
  else if ((run.state === 'retrying' || run.state === 'pending') && run.ready_at) events.push({ at: toMs(run.ready_at), text: run.state === 'retrying' ? `Attempt ${run.attempt + 1}` : 'Ready', fate: 'planned', ...(run.waits_for && run.state === 'pending' ? { detail: `waits for ${run.waits_for}` } : {}) })
  // Ends sort after what ended at the same time.
  return events.map((event, index) => ({ event, index })).sort((a, b) => a.event.at - b.event.at || a.index - b.index).map(({ event }) => event)
}

const PLANNED: Record<string, string> = { manual: 'Triggered by hand', replay: 'Replayed', backfill: 'Backfilled' }
const END: Record<string, string> = { succeeded: 'Succeeded', failed: 'Failed for good', cancelled: 'Cancelled' }

function attemptEvent(attempt: Attempt): RunEvent {
  const end = toMs(attempt.finished_at)
  return {
    at: attempt.started_at ? toMs(attempt.started_at) : end,
    until: end,
    text: `Attempt ${attempt.number}`,
    fate: OUTCOME_FATES[attempt.outcome] ?? 'failed',
    detail: [attempt.outcome, attempt.error ? errorLine(attempt.error) : attempt.status_code ? `HTTP ${attempt.status_code}` : ''].filter(Boolean).join(': '),
  }
}

/** One sentence: what became of the run. */
export function summaryOf(run: RunDetail, now: number): string {
  const attempts = run.attempts ?? []
  const lastError = attempts.findLast((attempt) => attempt.error)?.error
  const error = lastError ? `: ${errorLine(lastError)}` : ''
  const tries = count(run.attempt, 'attempt')
  const late = run.lateness_ms !== null && run.lateness_ms !== undefined && run.lateness_ms >= 1000 && run.kind === 'scheduled' ? `, ${formatDuration(run.lateness_ms)} late` : ''
  const took = run.duration_ms === null || run.duration_ms === undefined ? '' : ` in ${formatDuration(run.duration_ms)}`
  switch (run.state) {
    case 'succeeded':
      return `Succeeded${run.attempt > 1 ? ` with ${tries}` : ''}${took}${late}.`
    case 'failed':
      return `Failed after ${tries}${run.attempt > 1 ? ` over ${formatDuration(run.duration_ms ?? 0)}` : ''}${error}.`.replace('..', '.')
    case 'cancelled':
      return run.attempt ? `Cancelled after ${tries}.` : 'Cancelled before it began.'
    case 'running':
      return `Running${run.attempt > 1 ? `, attempt ${run.attempt}` : ''}${late}${run.cancel_requested ? '; it was asked to stop' : ''}.`
    case 'retrying':
      return `${tries} failed${error}. It is tried again${run.ready_at ? ` ${formatRelative(toMs(run.ready_at), now)}` : ''}.`
    default:
      return `Waiting${run.waits_for ? ` for ${run.waits_for}` : ''}.`
  }
}

/** The answer's headers and its body, which an excerpt holds with an empty line between them. */
export function splitExcerpt(excerpt: string): { headers: string; body: string } {
  const at = excerpt.search(/\r?\n\r?\n/)
  const looksLikeHeaders = at > 0 && excerpt.slice(0, at).split('\n').every((line) => /^[!-9;-~]+:/.test(line))
  if (!looksLikeHeaders) return { headers: '', body: excerpt }
  return { headers: excerpt.slice(0, at), body: excerpt.slice(at).replace(/^\r?\n\r?\n/, '') }
}

interface Comparable {
  job_version?: number | null
  payload?: unknown
  duration_ms?: number | null
  lateness_ms?: number | null
  attempt: number
  node?: string | null
}

/** What differs from another run of the job. */
export function differences(run: Comparable, other: Comparable, write: (value: unknown) => string): { what: string; here: string; there: string }[] {
  const rows: { what: string; here: string; there: string }[] = []
  if (run.job_version !== other.job_version) rows.push({ what: 'Version of the job', here: String(run.job_version), there: String(other.job_version) })
  const [here, there] = [write(run.payload ?? null), write(other.payload ?? null)]
  if (here !== there) rows.push({ what: 'Payload', here, there })
  if (run.duration_ms != null && other.duration_ms != null) rows.push({ what: 'Duration', here: formatDuration(run.duration_ms), there: formatDuration(other.duration_ms) })
  if (run.lateness_ms != null && other.lateness_ms != null) rows.push({ what: 'Late by', here: formatDuration(Math.max(0, run.lateness_ms)), there: formatDuration(Math.max(0, other.lateness_ms)) })
  if (run.attempt !== other.attempt) rows.push({ what: 'Attempts', here: String(run.attempt), there: String(other.attempt) })
  return rows
}
