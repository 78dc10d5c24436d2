import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useLocation, useParams } from 'wouter'
import { getJson } from '../../api/client'
import { useJob } from '../../api/queries'
import type { Explanation, JobDetail } from '../../api/types'
import { useUrlState } from '../../app/urlState'
import { useZone } from '../../app/zone'
import { Button, LinkButton } from '../../components/Button'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Facts } from '../../components/Facts'
import { Field } from '../../components/Field'
import { Loading } from '../../components/Loading'
import { Outcome } from '../../components/Outcome'
import { Card, Screen } from '../../components/Screen'
import { Time } from '../../components/Time'
import { serverNow } from '../../lib/clock'
import { fateOf, SKIP_WORDS, type Fate } from '../../lib/outcome'
import { fromLocal, isoDate } from '../../lib/time'
import { readTypedTime } from '../../lib/typedTime'
import { explainPath, jobPath, runPath, withSearch } from '../../lib/url'
import { BackfillDialog } from '../job/dialogs'
import { OVERLAP } from '../job/summary'
import { useJobActions } from '../jobs/actions'
import './explain.css'

interface Data {
  run?: { id: string; state: string; reason: string | null; attempt: number; scheduled_at: string } | null
  replays?: { id: string; state: string }[]
  skip?: { reason: string; first_at: string; last_at: string; count: number } | null
  previous_at?: string | null
  next_at?: string | null
  job_version?: number | null
  schedule?: string
}

/** "Why not 08:00 today?": the sentence, the records behind it, and the button that helps. */
export default function Explain() {
  const name = decodeURIComponent(useParams<{ job: string }>().job)
  const job = useJob(name)
  const [query, set] = useUrlState()
  const at = query.get('at')
  const zone = useZone(job.data?.timezone)
  const explained = useQuery({
    queryKey: ['job', name, 'explain', at],
    queryFn: ({ signal }) => getJson<Explanation>('/explain', { job: name, at }, signal),
    enabled: !!at,
  })
  return (
    <Screen
      title="Explain a time"
      path={[
        ['Jobs', '/jobs'],
        [name, jobPath(name)],
      ]}
    >
      <AskForm zone={zone} at={at} onAsk={(next) => set({ at: next }, { push: true })} />
      {job.error && <ErrorNotice error={job.error} what="The job could not be loaded" onRetry={() => void job.refetch()} />}
      {explained.error && <ErrorNotice error={explained.error} what="The time could not be explained" onRetry={() => void explained.refetch()} />}
      {at && !explained.data && !explained.error && <Loading what="the explanation" />}
      {explained.data && job.data && <Answer job={job.data} found={explained.data} />}
      {!at && job.data?.recent && (
        <Card title="Its last times">
          <ul className="explain-times">
            {[...job.data.recent].reverse().map((time) => (
              <li key={`${time.at} ${time.run_id}`}>
                <Link href={explainPath(name, time.at)}>
                  <Time at={time.at} zone={job.data?.timezone} seconds />
                </Link>
                <Outcome fate={time.fate} />
              </li>
            ))}
          </ul>
        </Card>
      )}
    </Screen>
  )
}

function AskForm({ zone, at, onAsk }: { zone: string; at: string | null; onAsk: (at: string) => void }) {
  const [text, setText] = useState('')
  const [error, setError] = useState<string>()
  const ask = () => {
    const local = readTypedTime(text, isoDate(serverNow(), zone))
    const parsed = local ? fromLocal(local, zone) : Date.parse(text)
    if (Number.isNaN(parsed)) setError('Write a time such as “08:00 today”, “yesterday 9:30” or “2026-11-18 08:00”.')
    else {
      setError(undefined)
      onAsk(new Date(parsed).toISOString())
    }
  }
  return (
    <form
      className="explain-ask"
      onSubmit={(event) => {
        event.preventDefault()
        ask()
      }}
    >
      <Field label={`Why (not) at which time? (${zone})`} error={error}>
        <input value={text} onChange={(event) => setText(event.target.value)} placeholder="08:00 today" autoFocus={!at} autoComplete="off" />
      </Field>
      <Button type="submit" look="primary" disabled={!text.trim()}>
        Explain
      </Button>
    </form>
  )
}

const VERDICT_FATES: Record<string, Fate> = { skipped: 'skipped', not_due_yet: 'planned', paused: 'paused' }

function Answer({ job, found }: { job: JobDetail; found: Explanation }) {
  const [isFilling, setFilling] = useState(false)
  const [, navigate] = useLocation()
  const actions = useJobActions({}, () => undefined)
  const data = found.data as Data
  const fate: Fate | undefined = data.run ? fateOf(data.run.state) : data.skip ? 'skipped' : VERDICT_FATES[found.verdict]
  const skip = data.skip
  const canFill = !!skip || ['before_the_job', 'no_record', 'pruned'].includes(found.verdict)
  return (
    <>
      <section className="explain-answer hb-card" aria-live="polite" aria-label="Explanation">
        <div className="explain-head">
          <strong className="explain-time">
            <Time at={found.at} zone={job.timezone} seconds offset />
          </strong>
          {fate && <Outcome fate={fate} />}
        </div>
        <p className="explain-sentence">{found.sentence}</p>
        {skip?.reason === 'overlap' && <p className="hb-muted">The overlap policy is {job.overlap}: {OVERLAP[job.overlap]}.</p>}
        <div className="hb-actions">
          {data.run && (
            <LinkButton href={runPath(data.run.id)} look="primary">
              Open the run
            </LinkButton>
          )}
          {canFill && (
            <Button needs="operator" look="primary" onClick={() => setFilling(true)}>
              Backfill…
            </Button>
          )}
          {skip?.reason === 'overlap' && (
            <LinkButton needs="editor" href={`${jobPath(job)}/edit`}>
              Change overlap
            </LinkButton>
          )}
          {job.state === 'paused' && (
            <Button needs="operator" onClick={() => actions.start('resume', new Set([job.name]))}>
              Resume the job
            </Button>
          )}
          {data.previous_at && (
            <Button onClick={() => navigate(explainPath(job.name, data.previous_at))}>
              The time before: <Time at={data.previous_at} zone={job.timezone} />
            </Button>
          )}
          {data.next_at && (
            <Button onClick={() => navigate(explainPath(job.name, data.next_at))}>
              The time after: <Time at={data.next_at} zone={job.timezone} />
            </Button>
          )}
        </div>
      </section>
      <Card title="Records">
        <Facts>
          <dt>Schedule then</dt>
          <dd>
            <code>{data.schedule ?? job.schedule}</code> in {job.timezone}
            {data.job_version ? `, version ${data.job_version}` : ''}
          </dd>
          {data.run && (
            <>
              <dt>Run</dt>
              <dd>
                <Link href={runPath(data.run.id)}>{data.run.id}</Link>: {data.run.state}
                {data.run.reason ? `, ${data.run.reason}` : ''}
              </dd>
            </>
          )}
          {skip && (
            <>
              <dt>Skip</dt>
              <dd>
                <Time at={skip.first_at} zone={job.timezone} seconds />
                {skip.count > 1 && (
                  <>
                    {' '}
                    to <Time at={skip.last_at} zone={job.timezone} seconds />, {skip.count} times
                  </>
                )}
                : {SKIP_WORDS[skip.reason] ?? skip.reason}{' '}
                <Link href={withSearch(jobPath(job), { fate: 'skipped' })} className="hb-small">
                  all skips
                </Link>
              </dd>
            </>
          )}
          {(data.replays ?? []).map((replay) => (
            <Replay key={replay.id} id={replay.id} state={replay.state} />
          ))}
          {!data.run && !skip && (
            <>
              <dt>On record</dt>
              <dd>no run and no skip</dd>
            </>
          )}
        </Facts>
      </Card>
      {isFilling && <BackfillDialog job={job} from={skip?.first_at ?? found.at} to={skip?.last_at ?? found.at} onClose={() => setFilling(false)} />}
      {actions.dialogs}
    </>
  )
}

function Replay({ id, state }: { id: string; state: string }) {
  return (
    <>
      <dt>Replay</dt>
      <dd>
        <Link href={runPath(id)}>{id}</Link>: {state}
      </dd>
    </>
  )
}
