import { Link } from 'wouter'
import type { Job } from '../../api/types'
import { useZone } from '../../app/zone'
import { OutcomeMark } from '../../components/Outcome'
import { Sparkline } from '../../components/Sparkline'
import { RelativeTime, Time } from '../../components/Time'
import { formatDuration } from '../../lib/duration'
import { errorLine } from '../../lib/errorLine'
import { FATE_WORDS, fateOf, formatPercent, TONES, type Fate } from '../../lib/outcome'
import { jobPath, runPath } from '../../lib/url'

/** The API counts no further. */
const MAX_STREAK = 100

/** The outcome that stands for a job: a pause or an error of the job itself first, else its last time. */
export function fateOfJob(job: Job): Fate | null {
  if (job.state === 'paused') return 'paused'
  if (job.state === 'error') return 'failed'
  return lastFate(job)
}

function lastFate(job: Job): Fate | null {
  if (job.totals.last_state === 'retrying') return 'retrying'
  const last = [...(job.recent ?? [])].reverse().find((time) => time.fate !== 'waiting')
  if (last && last.fate !== 'skipped') return last.fate
  return job.totals.last_state ? fateOf(job.totals.last_state) : null
}

export function JobName({ job, onTag }: { job: Job; onTag: (tag: string) => void }) {
  const fate = fateOfJob(job)
  return (
    <div className="jobs-name">
      <span className="jobs-mark">{fate && <OutcomeMark fate={fate} label={FATE_WORDS[fate]} />}</span>
      <div>
        <div className="jobs-name-line">
          <Link href={jobPath(job)}>{job.name}</Link>
          {job.tags.map((tag) => (
            <button key={tag} type="button" className="hb-chip jobs-tag-button" onClick={() => onTag(tag)} title={`Show jobs tagged ${tag}`}>
              {tag}
            </button>
          ))}
        </div>
        <div className="jobs-words">
          {job.state === 'error' ? (
            <span className="jobs-bad">{job.error}</span>
          ) : job.state === 'paused' ? (
            <PausedWords job={job} />
          ) : (
            <>
              {job.words}
              {job.words !== job.schedule && (
                <>
                  {' · '}
                  <code>{job.schedule}</code>
                </>
              )}
            </>
          )}
        </div>
      </div>
    </div>
  )
}

function PausedWords({ job }: { job: Job }) {
  const { by, until, note } = job.paused ?? {}
  return (
    <>
      paused{by && ` by ${by}`}
      {until && (
        <>
          {' until '}
          <Time at={until} zone={job.timezone} shortToday />
        </>
      )}
      {note && ` · ${note}`}
    </>
  )
}

export function Next({ job }: { job: Job }) {
  if (job.state === 'paused') return <span className="hb-muted hb-nowrap">paused</span>
  if (job.state === 'done') return <span className="hb-muted hb-nowrap">done</span>
  return (
    <span className="hb-nowrap">
      <RelativeTime at={job.next_at} zone={job.timezone} />
    </span>
  )
}

export function LastResult({ job }: { job: Job }) {
  const fate = lastFate(job)
  const { last_run_id: run, last_run_at: at, last_error: error } = job.totals
  if (!fate) return <span className="hb-muted">no run yet</span>
  const hasFailed = fate === 'failed' || fate === 'retrying'
  const outcome = fate === 'failed' && (job.streak ?? 0) > 1 ? `failed ${job.streak}${(job.streak ?? 0) < MAX_STREAK ? '' : '+'} times in a row` : FATE_WORDS[fate]
  return (
    <div className="jobs-result" data-tone={TONES[fate]} title={hasFailed && error ? error : undefined}>
      {run ? (
        <Link href={runPath(run)} className="jobs-plain">
          {outcome}
        </Link>
      ) : (
        outcome
      )}
      <div className="jobs-words">
        <RelativeTime at={at} zone={job.timezone} />
        {hasFailed && error && ` · ${errorLine(error)}`}
      </div>
    </div>
  )
}

export function Recent({ job }: { job: Job }) {
  const zone = useZone(job.timezone)
  return <Sparkline times={job.recent ?? []} zone={zone} />
}

export function Rate({ job }: { job: Job }) {
  const rate = job.totals.success_rate_percent
  if (rate === null || rate === undefined) return <span className="hb-muted">—</span>
  return <span title={`${job.totals.succeeded} succeeded, ${job.totals.failed} failed, ${job.totals.cancelled} cancelled`}>{formatPercent(rate)}</span>
}

export function P95({ job }: { job: Job }) {
  const ms = job.p95_duration_ms
  if (ms === null || ms === undefined) return <span className="hb-muted">—</span>
  return (
    <span className="hb-nowrap" title={job.median_duration_ms ? `median ${formatDuration(job.median_duration_ms)}` : undefined}>
      {formatDuration(ms)}
    </span>
  )
}

