import { Link } from 'wouter'
import { useNow } from '../../app/now'
import type { Stats, TimelineRow } from '../../api/types'
import { LinkButton } from '../../components/Button'
import { CopyButton } from '../../components/CodeBlock'
import { Loading } from '../../components/Loading'
import { Card } from '../../components/Screen'
import { RelativeTime } from '../../components/Time'
import { errorLine } from '../../lib/errorLine'
import { count, formatNumber } from '../../lib/outcome'
import { formatTime } from '../../lib/time'
import { explainPath, jobPath, runPath, withSearch } from '../../lib/url'
import { FixOverlap, Replay, ReplayJob, Resume, RunNow } from './actions'
import { failurePath } from './describe'
import { pickAttention } from './attention'
import { useNextJobs, useOpenIncidents } from './queries'
import { usualText } from './rows'

const MOST = 4

/** The jobs to look at first, each with the button that fixes it. */
export function NeedsAttention({ rows, stats, zone }: { rows: readonly TimelineRow[] | undefined; stats: Stats | undefined; zone: string }) {
  const now = useNow(60)
  const conflicts = stats?.conflicts ?? []
  const open = useOpenIncidents().data
  const shown = pickAttention(rows ?? [], MOST - Math.min(2, conflicts.length + (open?.count ? 1 : 0)))
  const total = stats && stats.failing !== undefined ? stats.failing + (stats.retrying ?? 0) + (stats.losing ?? 0) + (stats.late ?? 0) + stats.paused : null
  const more = total === null || !rows ? 0 : total - shown.length
  const failed = stats?.dead_letters ?? 0
  const controls = failed > 0 && (
    <>
      <Link href="/failed" className="hb-link hb-small">
        {count(failed, 'failed run')}
      </Link>
      <Replay job={null} failed={failed} />
    </>
  )
  return (
    <Card title="Needs attention" controls={controls}>
      {!rows ? (
        <Loading what="the jobs" />
      ) : !shown.length && !conflicts.length && !open?.count ? (
        <p className="hb-muted">No job is failing, retrying, losing runs, late or paused.</p>
      ) : (
        <ul className="home-list">
          {!!open?.count && <OpenIncidents {...open} />}
          {shown.map((row) => (
            <li key={row.job.id}>
              <AttentionText row={row} zone={zone} now={now} />
              <div className="hb-actions">
                <AttentionActions row={row} />
              </div>
            </li>
          ))}
          {conflicts.slice(0, 2).map((conflict) => (
            <li key={conflict.job}>
              <div>
                <p>
                  <Link href={jobPath(conflict.job)}>
                    <strong>{conflict.job}</strong>
                  </Link>{' '}
                  is defined by {conflict.program}, but belongs to {conflict.owner}
                </p>
                <p className="hb-muted">{conflict.hint}</p>
              </div>
              <div className="hb-actions">
                <CopyButton text={conflict.command} what="the command that transfers it" label="Copy the command" />
              </div>
            </li>
          ))}
        </ul>
      )}
      {more > 0 && (
        <p className="home-more hb-muted">
          {formatNumber(more)} more; all:{' '}
          {(['failing', 'retrying', 'losing', 'late', 'paused'] as const)
            .filter((kind) => stats?.[kind])
            .map((kind, index) => (
              <span key={kind}>
                {index > 0 && ', '}
                <Link href={withSearch('/jobs', { attention: kind })}>
                  {formatNumber(stats?.[kind] ?? 0)} {kind === 'losing' ? 'losing runs' : kind}
                </Link>
              </span>
            ))}
        </p>
      )}
    </Card>
  )
}

/** How many incidents nobody has acknowledged, and what the newest is about. */
function OpenIncidents({ count: number, isMore, newest }: { count: number; isMore: boolean; newest: string }) {
  return (
    <li>
      <div>
        <p>
          <Link href="/incidents">
            <strong>{isMore ? `${formatNumber(number)}+ open incidents` : count(number, 'open incident')}</strong>
          </Link>
        </p>
        <p className="hb-muted">{number > 1 ? `the newest: ${newest}` : newest}</p>
      </div>
      <div className="hb-actions">
        <LinkButton size="small" href="/incidents">
          Open
        </LinkButton>
      </div>
    </li>
  )
}

function AttentionText({ row, zone, now }: { row: TimelineRow; zone: string; now: number }) {
  const { job } = row
  const time = (at: string) => formatTime(at, zone, { now, shortToday: true })
  const name = (
    <Link href={jobPath(job)}>
      <strong>{job.name}</strong>
    </Link>
  )
  if (job.attention === 'paused') {
    const { paused } = job
    return (
      <div>
        <p>
          {name} is paused{paused?.until && ` until ${time(paused.until)}`}
        </p>
        <p className="hb-muted">{[paused?.by && `by ${paused.by}`, paused?.note].filter(Boolean).join(' · ') || job.words}</p>
      </div>
    )
  }
  if (job.attention === 'retrying' && job.retry) {
    const { attempt, next_at, error } = job.retry
    return (
      <div>
        <p>
          {name} attempt {attempt} failed, attempt {attempt + 1} {next_at === null ? 'is running' : Date.parse(next_at) <= now ? 'is due' : <RelativeTime at={next_at} zone={zone} />}
        </p>
        <p className="home-second">
          <span className="home-why">{error ? errorLine(error) : 'no error message'}</span>
          <span className="hb-muted"> · {usualText(row)}</span>
        </p>
      </div>
    )
  }
  const note = job.attention_note ?? ''
  const [what = '', why = ''] = splitNote(note)
  const streak = row.runs.filter((run) => run.state !== 'pending' && run.state !== 'running').slice(-job.streak)
  const since = job.attention === 'failing' && job.streak > 1 && streak.length === job.streak ? streak[0]?.scheduled_at : undefined
  return (
    <div>
      <p>
        {name} {job.attention === 'losing' ? lostText(what) : what}
      </p>
      <p className="home-second">
        {job.attention === 'failing' ? (
          <>
            <span className="home-why">{why || 'no error message'}</span>
            {since && <span className="hb-muted"> · since {time(since)}</span>}
          </>
        ) : (
          <span className="hb-muted">{[why, usualText(row)].filter(Boolean).join(' · ')}</span>
        )}
      </p>
    </div>
  )
}

/** "skipped 3 times in 24 h" → "lost 3 runs in 24 h" */
function lostText(what: string): string {
  return what.replace(/^skipped once/, 'lost 1 run').replace(/^skipped ([\d,]+) times/, 'lost $1 runs')
}

/** "failed 9 times in a row: HTTP 503" → both halves. */
function splitNote(note: string): [string, string] {
  const at = note.indexOf(': ')
  return at < 0 ? [note.replace(/, since [0-9T:.Z-]+$/, ''), ''] : [note.slice(0, at), note.slice(at + 2)]
}

function AttentionActions({ row }: { row: TimelineRow }) {
  switch (row.job.attention) {
    case 'failing':
      return (
        <>
          <LinkButton size="small" href={failurePath(row)}>
            Why?
          </LinkButton>
          <ReplayJob row={row} />
        </>
      )
    case 'retrying':
      return (
        <LinkButton size="small" href={row.job.retry ? runPath(row.job.retry.run_id) : jobPath(row.job)}>
          Why?
        </LinkButton>
      )
    case 'losing': {
      const last = row.skips.at(-1)
      return (
        <>
          <LinkButton size="small" href={last ? explainPath(row.job.name, last.last_at) : jobPath(row.job)}>
            Why?
          </LinkButton>
          {row.job.attention_note?.includes('overlap') && <FixOverlap row={row} />}
        </>
      )
    }
    case 'late': {
      const waiting = row.runs.find((run) => run.is_late && !run.finished_at && !run.started_at)
      return (
        <LinkButton size="small" href={waiting ? `/runs/${waiting.id}` : jobPath(row.job)}>
          Why?
        </LinkButton>
      )
    }
    case 'paused':
      return <Resume row={row} />
    default:
      return null
  }
}

/** What fires next, with a button to run it at once. */
export function NextJobs() {
  const jobs = useNextJobs(MOST + 2)
  return (
    <Card title="Next">
      {jobs.data && !jobs.data.length ? (
        <p className="hb-muted">No job has a next time.</p>
      ) : (
        <ul className="home-list home-next">
          {(jobs.data ?? []).map((job) => (
            <li key={job.id}>
              <p>
                <Link href={jobPath(job)}>{job.name}</Link>
              </p>
              <div className="hb-actions">
                <span className="hb-muted hb-nowrap">
                  <RelativeTime at={job.next_at} zone={job.timezone} />
                </span>
                <RunNow job={job.name} />
              </div>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

