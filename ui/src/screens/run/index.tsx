import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { Link, useLocation, useParams } from 'wouter'
import { getJson, sendJson } from '../../api/client'
import { keys, useMay } from '../../api/queries'
import type { Attempt, List, Run, RunDetail } from '../../api/types'
import { useShortcuts } from '../../app/shortcuts'
import { useNow } from '../../app/now'
import { Button } from '../../components/Button'
import { Chip } from '../../components/Chip'
import { CodeBlock, copyText } from '../../components/CodeBlock'
import { useConfirm } from '../../components/ConfirmDialog'
import { ErrorNotice, errorText } from '../../components/ErrorNotice'
import { Facts } from '../../components/Facts'
import { Loading } from '../../components/Loading'
import { Outcome, OutcomeMark } from '../../components/Outcome'
import { Card, Screen } from '../../components/Screen'
import { RelativeTime, Time } from '../../components/Time'
import { useToast } from '../../components/Toast'
import { formatDuration } from '../../lib/duration'
import { stringifyJson } from '../../lib/exactJson'
import { fateOf } from '../../lib/outcome'
import { toMs } from '../../lib/time'
import { explainPath, jobPath, runPath } from '../../lib/url'
import { asCurl, type HttpTarget } from './curl'
import { differences, eventsOf, OUTCOME_FATES, splitExcerpt, summaryOf, type RunEvent } from './events'
import './run.css'

const LIVE_MS = 1_000

interface JobVersion {
  version: number
  definition: { timezone?: string; target?: { type: string } & Partial<HttpTarget> & Record<string, unknown> }
}

export default function RunScreen() {
  const id = useParams<{ run: string }>().run
  const run = useQuery({
    queryKey: keys.run(id),
    queryFn: ({ signal }) => getJson<RunDetail>(`/runs/${encodeURIComponent(id)}`, {}, signal),
    // Progress and log lines are no events of the stream.
    refetchInterval: (query) => (query.state.data && ['running', 'retrying', 'pending'].includes(query.state.data.state) ? LIVE_MS : false),
  })
  const data = run.data
  const job = data?.job_id
  const version = useQuery({
    queryKey: ['job', job, 'version', data?.job_version],
    queryFn: ({ signal }) => getJson<JobVersion>(`/jobs/${job}/versions/${data?.job_version}`, {}, signal),
    enabled: !!job && !!data?.job_version,
    staleTime: Infinity,
  })
  const definition = version.data?.definition
  const zone = definition?.timezone
  const target = definition?.target
  if (!data) {
    return (
      <Screen title="Run" path={[['Runs', '/runs']]}>
        {run.error ? <ErrorNotice error={run.error} what="The run could not be loaded" onRetry={() => void run.refetch()} /> : <Loading what="the run" />}
      </Screen>
    )
  }
  const name = data.job_name ?? data.job_id
  return (
    <Screen
      title={`Run of ${name}`}
      path={[
        ['Jobs', '/jobs'],
        [name, jobPath({ name, id: data.job_id })],
      ]}
      beside={
        <>
          <Chip tone={undefined}>{data.kind}</Chip>
          <Outcome fate={fateOf(data.state)} />
        </>
      }
      lead={<Summary run={data} />}
      actions={<Actions run={data} target={target} />}
    >
      {run.error && <ErrorNotice error={run.error} what="The run could not be refreshed" onRetry={() => void run.refetch()} />}
      {data.late_success !== null && data.late_success !== undefined && (
        <p className="run-note" role="status">
          Attempt {data.late_success} succeeded after all: its answer arrived after its node had lost the run.
        </p>
      )}
      {data.progress && <Progress run={data} />}
      <div className="hb-columns">
        <div className="hb-stack">
          <Life run={data} zone={zone} />
          {data.log && data.log.length > 0 && (
            <Card title="Log of this attempt">
              <Log lines={data.log} isLive zone={zone} />
            </Card>
          )}
          {[...(data.attempts ?? [])].reverse().map((attempt) => (
            <AttemptCard key={attempt.number} attempt={attempt} zone={zone} isLast={attempt.number === data.attempts?.at(-1)?.number} />
          ))}
        </div>
        <div className="hb-stack">
          <Details run={data} zone={zone} />
          {target && <Request target={target} payload={data.payload} />}
          {data.payload !== null && data.payload !== undefined && (
            <Card title="Payload">
              <CodeBlock code={stringifyJson(data.payload, 2)} label="JSON" />
            </Card>
          )}
          {data.result !== null && data.result !== undefined && (
            <Card title="Result">
              <CodeBlock code={stringifyJson(data.result, 2)} label="JSON" />
            </Card>
          )}
          <Compare run={data} />
        </div>
      </div>
    </Screen>
  )
}

function Summary({ run }: { run: RunDetail }) {
  return <>{summaryOf(run, useNow(run.state === 'retrying' ? 1 : 3600))}</>
}

function Actions({ run, target }: { run: RunDetail; target: JobVersion['definition']['target'] }) {
  const client = useQueryClient()
  const confirm = useConfirm()
  const toast = useToast()
  const [, navigate] = useLocation()
  const mayAct = useMay('operator')
  const hasEnded = ['succeeded', 'failed', 'cancelled'].includes(run.state)
  const isDeadLetter = run.state === 'failed' && !run.cleared_at
  const refresh = () => {
    for (const topic of ['run', 'runs', 'stats', 'jobs', 'timeline']) void client.invalidateQueries({ queryKey: [topic] })
  }
  const act = async (verb: 'cancel' | 'discard' | 'replay', text: string) => {
    try {
      const answer = await sendJson<{ run_id: string; ended?: boolean }>('POST', `/runs/${run.id}/${verb}`)
      if (verb === 'replay') navigate(runPath(answer.run_id))
      toast({ text: verb === 'cancel' && answer.ended === false ? 'Its node was asked to stop it' : text })
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
    refresh()
  }
  const replay = async () => {
    const isSure =
      run.state !== 'succeeded' ||
      (await confirm({ title: 'Replay a run that succeeded?', body: <p>Its effects are repeated: the new run has the same payload and the current target of the job.</p>, action: 'Replay the run' }))
    if (isSure) await act('replay', 'This is the replay')
  }
  const cancel = async () => {
    const isSure = await confirm({
      title: 'Cancel this run?',
      body: <p>{run.state === 'running' ? 'Its node is asked to stop it. Requests that were sent cannot be undone.' : 'It has not started and will not start.'}</p>,
      action: 'Cancel the run',
      isDanger: true,
    })
    if (isSure) await act('cancel', 'The run is cancelled')
  }
  const copy = async () => {
    const isDone = await copyText(asCurl(target as HttpTarget, run.payload ?? null, (value) => stringifyJson(value)))
    toast(isDone ? { text: 'Copied as a curl command, without secrets and signature' } : { text: 'The browser did not allow copying', tone: 'bad' })
  }
  useShortcuts([mayAct && hasEnded && { keys: 'r', label: 'Replay the run', run: () => void replay() }])
  return (
    <>
      {target?.type === 'http' && <Button onClick={() => void copy()}>Copy as curl</Button>}
      {isDeadLetter && (
        <Button needs="operator" onClick={() => void act('discard', 'The run is discarded')}>
          Discard
        </Button>
      )}
      {!hasEnded && (
        <Button needs="operator" look={run.state === 'retrying' ? 'plain' : 'danger'} disabled={run.cancel_requested} onClick={() => void cancel()}>
          {run.cancel_requested ? 'Asked to stop' : 'Cancel'}
        </Button>
      )}
      {hasEnded && (
        <Button needs="operator" look="primary" onClick={() => void replay()}>
          Replay
        </Button>
      )}
      {run.state === 'retrying' && (
        <Button needs="operator" look="primary" onClick={() => void act('replay', 'Started now as a new run; the waiting run is cancelled')}>
          Try now
        </Button>
      )}
    </>
  )
}

/** What happened when, each with its distance from the event before. */
function Life({ run, zone }: { run: RunDetail; zone: string | undefined }) {
  const now = useNow(run.finished_at ? 3600 : 1)
  const events = eventsOf(run)
  const first = events[0]?.at ?? 0
  const last = Math.max(...events.map((event) => event.until ?? event.at), run.finished_at ? 0 : Math.min(now, first + 366 * 86_400_000))
  const span = Math.max(1, last - first)
  const percent = (at: number) => `${Math.max(0, Math.min(100, ((at - first) / span) * 100))}%`
  return (
    <Card title="What happened">
      <ol className="run-life">
        {events.map((event, index) => (
          <li key={index} className="run-event">
            <span className="run-event-mark">{event.fate ? <OutcomeMark fate={event.fate} /> : <span className="run-dot" aria-hidden="true" />}</span>
            <span className="run-event-text">
              <strong>{event.text}</strong>
              {event.detail && <span className="hb-muted run-event-detail"> {event.detail}</span>}
            </span>
            <span className="run-event-bar" aria-hidden="true">
              <span data-tone={event.fate === 'failed' ? 'bad' : event.fate === 'succeeded' ? 'ok' : 'accent'} style={{ left: `min(${percent(event.at)}, calc(100% - 3px))`, width: `max(3px, calc(${percent(event.until === null ? now : (event.until ?? event.at))} - ${percent(event.at)}))` }} />
            </span>
            <span className="run-event-time">
              <Time at={event.at} zone={zone} seconds />
              <span className="hb-muted hb-small">{distance(events, index, now)}</span>
            </span>
          </li>
        ))}
      </ol>
    </Card>
  )
}

function distance(events: readonly RunEvent[], index: number, now: number): string {
  const event = events[index]
  const before = events[index - 1]
  if (!event) return ''
  if (event.until !== undefined) return `${formatDuration(Math.max(0, (event.until ?? now) - event.at))} long`
  if (!before) return ''
  const wait = event.at - (before.until ?? before.at)
  return wait > 0 ? `after ${formatDuration(wait)}` : ''
}

const PHASES: readonly (readonly [key: string, label: string])[] = [
  ['dns', 'DNS lookup'],
  ['connect', 'connect'],
  ['tls', 'TLS'],
  ['send', 'send'],
  ['wait', 'wait for the answer'],
  ['read', 'read'],
]

function AttemptCard({ attempt, zone, isLast }: { attempt: Attempt; zone: string | undefined; isLast: boolean }) {
  const { headers, body } = splitExcerpt(attempt.excerpt ?? '')
  const phases = PHASES.filter(([key]) => (attempt.phases as Record<string, number>)[key] !== undefined).map(([key, label]) => [label, (attempt.phases as Record<string, number>)[key] ?? 0] as const)
  const total = phases.reduce((sum, [, seconds]) => sum + seconds, 0)
  return (
    <Card
      title={`Attempt ${attempt.number}`}
      controls={
        <>
          {attempt.status_code !== null && attempt.status_code !== undefined && <Chip>{`HTTP ${attempt.status_code}`}</Chip>}
          <Outcome fate={OUTCOME_FATES[attempt.outcome] ?? 'failed'} text={attempt.outcome} />
        </>
      }
    >
      <p className="hb-muted hb-small">
        {attempt.started_at ? <Time at={attempt.started_at} zone={zone} seconds /> : 'not begun'}
        {attempt.duration_ms !== null && attempt.duration_ms !== undefined && <> · {formatDuration(attempt.duration_ms)}</>}
        {attempt.node && (
          <>
            {' '}
            · node <code title={attempt.node}>{attempt.node.slice(-12)}</code>
          </>
        )}
        {attempt.late_outcome && <> · after its lease was lost it reported: {attempt.late_outcome}</>}
      </p>
      {attempt.error && (
        <pre className="run-error" tabIndex={0} aria-label="Error">
          {attempt.error}
        </pre>
      )}
      {total > 0 && (
        <ul className="run-phases" aria-label="Where the time went">
          {phases.map(([label, seconds]) => (
            <li key={label}>
              <span>{label}</span>
              <span className="run-phase-bar" aria-hidden="true">
                <span style={{ width: `${(seconds / total) * 100}%` }} />
              </span>
              <span className="run-phase-time">{seconds < 0.0005 ? '< 1 ms' : formatDuration(seconds * 1000)}</span>
            </li>
          ))}
        </ul>
      )}
      {attempt.log && attempt.log.length > 0 && <Log lines={attempt.log} zone={zone} />}
      {headers && (
        <details className="run-details">
          <summary>Headers of the answer</summary>
          <pre tabIndex={0}>{headers}</pre>
        </details>
      )}
      {body && (
        <details className="run-details" open={isLast && attempt.outcome !== 'succeeded'}>
          <summary>{headers ? 'Body of the answer' : 'Answer'}</summary>
          <pre tabIndex={0}>{body}</pre>
        </details>
      )}
    </Card>
  )
}

function Log({ lines, isLive = false, zone }: { lines: readonly { at: string; text: string }[]; isLive?: boolean; zone: string | undefined }) {
  const box = useRef<HTMLOListElement>(null)
  const count = lines.length
  useEffect(() => {
    const element = box.current
    // Follow the end while it is in view.
    if (isLive && element && element.scrollHeight - element.scrollTop - element.clientHeight < 80) element.scrollTop = element.scrollHeight
  }, [count, isLive])
  return (
    <ol className="run-log" ref={box} tabIndex={0} aria-label="Log lines">
      {lines.map((line, index) => (
        <li key={index}>
          <Time at={line.at} zone={zone} seconds="ms" />
          <span>{line.text}</span>
        </li>
      ))}
    </ol>
  )
}

function Progress({ run }: { run: RunDetail }) {
  const fraction = run.progress?.fraction
  return (
    <Card title="Progress">
      <div className="run-progress">
        <progress value={fraction ?? undefined} max={1} aria-label="Progress" />
        <span>
          {fraction !== null && fraction !== undefined && <strong>{Math.floor(fraction * 100)} % </strong>}
          {run.progress?.message} <span className="hb-muted">{run.progress && <RelativeTime at={run.progress.at} />}</span>
        </span>
      </div>
    </Card>
  )
}

function Details({ run, zone }: { run: RunDetail; zone: string | undefined }) {
  return (
    <Card title="Details">
      <Facts>
        <dt>Run</dt>
        <dd>
          <code>{run.id}</code>
        </dd>
        <dt>Started by</dt>
        <dd>
          {run.trigger || run.kind}
          {run.replay_of && (
            <>
              {' '}
              of <Link href={runPath(run.replay_of)}>{run.replay_of.slice(-12)}</Link>
            </>
          )}
        </dd>
        <dt>Scheduled for</dt>
        <dd>
          <Time at={run.scheduled_at} zone={zone} seconds offset />{' '}
          {run.kind === 'scheduled' && (
            <Link href={explainPath(run.job_name ?? run.job_id, run.scheduled_at)} className="hb-small">
              explain
            </Link>
          )}
        </dd>
        <dt>Late by</dt>
        <dd>{run.lateness_ms === null || run.lateness_ms === undefined ? '—' : formatDuration(Math.max(0, run.lateness_ms))}</dd>
        <dt>Version</dt>
        <dd>{run.job_version ?? '—'}</dd>
        <dt>Lane</dt>
        <dd>{run.lane}</dd>
        {run.node && (
          <>
            <dt>Node</dt>
            <dd>
              <code title={run.node}>{run.node.slice(-12)}</code>
            </dd>
          </>
        )}
        {run.state !== 'succeeded' && run.expires_at && !run.finished_at && (
          <>
            <dt>Gives up</dt>
            <dd>
              <RelativeTime at={run.expires_at} zone={zone} />
            </dd>
          </>
        )}
        {run.crashes > 0 && (
          <>
            <dt>Lost nodes</dt>
            <dd>{run.crashes}</dd>
          </>
        )}
        {run.cleared_at && (
          <>
            <dt>Cleared</dt>
            <dd>
              <Time at={run.cleared_at} zone={zone} />
            </dd>
          </>
        )}
      </Facts>
    </Card>
  )
}

/** What was sent where, as the version of the run defines it. Secrets are never part of a definition. */
function Request({ target, payload }: { target: NonNullable<JobVersion['definition']['target']>; payload: unknown }) {
  if (target.type !== 'http' || typeof target.url !== 'string') {
    const { type, ...rest } = target
    return (
      <Card title={type === 'task' ? 'Task' : type === 'sql' ? 'SQL function' : type === 'command' ? 'Command' : 'Target'}>
        <Facts>
          {Object.entries(rest).map(([field, value]) => (
            <Fact key={field} name={field} value={typeof value === 'string' ? value : stringifyJson(value)} />
          ))}
        </Facts>
      </Card>
    )
  }
  const shown = { ...target, url: target.url }
  return (
    <Card title="Request">
      <p className="run-url">
        <strong>{shown.method ?? 'POST'}</strong> {shown.url}
      </p>
      {Object.keys(shown.headers ?? {}).length > 0 && (
        <Facts>
          {Object.entries(shown.headers ?? {}).map(([name, value]) => (
            <Fact key={name} name={name} value={typeof value === 'string' ? value : '••• secret'} />
          ))}
        </Facts>
      )}
      <details className="run-details">
        <summary>As curl</summary>
        <CodeBlock code={asCurl(shown, payload ?? null, (value) => stringifyJson(value))} label="Without secrets and signature" />
      </details>
    </Card>
  )
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  )
}

/** A failed run beside the last one that succeeded. */
function Compare({ run }: { run: RunDetail }) {
  const isFailing = run.state === 'failed' || run.state === 'retrying'
  const last = useQuery({
    queryKey: ['runs', 'last-success', run.job_id],
    queryFn: async ({ signal }) => (await getJson<List<Run>>(`/jobs/${run.job_id}/runs`, { state: 'succeeded', limit: 1 }, signal)).items[0] ?? null,
    enabled: isFailing,
  })
  if (!isFailing || last.data === undefined) return null
  if (last.data === null) {
    return (
      <Card title="The last success">
        <p className="hb-muted">No run of this job has succeeded within the retention.</p>
      </Card>
    )
  }
  const rows = differences(run, last.data, (value) => stringifyJson(value))
  return (
    <Card title="Compared with the last success">
      <p className="hb-small">
        <Link href={runPath(last.data.id)}>
          <Time at={toMs(last.data.scheduled_at)} />
        </Link>
        {rows.some((row) => row.what === 'Version of the job') ? '; the job was changed since.' : '; same version of the job.'}
      </p>
      <table className="run-compare">
        <thead>
          <tr>
            <th scope="col">
              <span className="hb-hidden">What</span>
            </th>
            <th scope="col">This run</th>
            <th scope="col">Last success</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.what}>
              <th scope="row">{row.what}</th>
              <td>{row.here}</td>
              <td>{row.there}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  )
}
