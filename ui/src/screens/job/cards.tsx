/** The cards of the job screen: ledger, year, charts, next times, settings, versions. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { getJson, sendJson } from '../../api/client'
import type { Day, JobDetail, LedgerTime, List, Occurrence, Preview, Series, Version } from '../../api/types'
import { useUrlState } from '../../app/urlState'
import { useZone } from '../../app/zone'
import { Button } from '../../components/Button'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Facts } from '../../components/Facts'
import { Field, Select } from '../../components/Field'
import { Loading } from '../../components/Loading'
import { Outcome } from '../../components/Outcome'
import { Pager } from '../../components/Pager'
import { Card } from '../../components/Screen'
import { Tabs } from '../../components/Tabs'
import { RelativeTime, Time } from '../../components/Time'
import { serverNow } from '../../lib/clock'
import { formatDuration } from '../../lib/duration'
import { errorLine } from '../../lib/errorLine'
import { stringifyJson } from '../../lib/exactJson'
import { count, FATE_WORDS, SKIP_WORDS, TONES, type Fate } from '../../lib/outcome'
import { formatClock, formatDate, fromLocal, isoDate, offsetMinutes } from '../../lib/time'
import { readTypedTime } from '../../lib/typedTime'
import { explainPath, runPath, withSearch } from '../../lib/url'
import { diff } from '../audit/diff'
import { fateOfDay, linePath, niceMax, settingsOf, yearCells } from './summary'

const PAGE = 15
const UPCOMING = 10

const FATES = [
  ['', 'Every time'],
  ['failed', 'failed'],
  ['skipped', 'skipped'],
  ['late', 'late'],
  ['succeeded', 'succeeded'],
  ['cancelled', 'cancelled'],
] as const

export function Ledger({ job, onBackfill, onReplay }: { job: JobDetail; onBackfill: (from: string, to: string) => void; onReplay: (run: string) => void }) {
  const [query, set] = useUrlState()
  const fate = query.get('fate') ?? ''
  const cursor = query.get('cursor')
  const until = query.get('until')
  const asked = { fate, cursor, until, limit: PAGE }
  const times = useQuery({
    queryKey: ['job', job.name, 'times', asked],
    queryFn: ({ signal }) => getJson<List<LedgerTime>>(`/jobs/${encodeURIComponent(job.name)}/times`, asked, signal),
    placeholderData: keepPreviousData,
  })
  const rows = times.data?.items ?? []
  const replayed = new Set(rows.map((row) => row.run?.replay_of))
  const hasSeconds = rows.some((row) => !/:00(\.0+)?Z$/.test(row.at) || (row.until !== null && !/:00(\.0+)?Z$/.test(row.until)))
  return (
    <Card title="Scheduled times" controls={<Select className="hb-select-small" aria-label="Which times" value={fate as (typeof FATES)[number][0]} options={FATES} isSet={!!fate} onChange={(next) => set({ fate: next || null, cursor: null })} />}>
      {times.error && <ErrorNotice error={times.error} what="The times could not be loaded" onRetry={() => void times.refetch()} />}
      {!times.data && !times.error && <Loading what="times" />}
      {times.data && !rows.length && <p className="hb-muted">{fate ? 'No time with this outcome is stored.' : 'It has not been due yet.'}</p>}
      {rows.length > 0 && (
        <ol className="job-ledger">
          {rows.map((row) => (
            <LedgerRow key={`${row.at} ${row.run?.id ?? ''}`} row={row} job={job} hasSeconds={hasSeconds} isReplayed={!!row.run && replayed.has(row.run.id)} onBackfill={onBackfill} onReplay={onReplay} />
          ))}
        </ol>
      )}
      {(cursor || times.data?.next_cursor) && (
        <Pager shown={`${rows.length} of the times`} hasPrevious={!!cursor} nextCursor={times.data?.next_cursor} onFirst={() => set({ cursor: null }, { push: true })} onNext={(next) => set({ cursor: next }, { push: true })} />
      )}
    </Card>
  )
}

function LedgerRow({ row, job, hasSeconds, isReplayed, onBackfill, onReplay }: { row: LedgerTime; job: JobDetail; hasSeconds: boolean; isReplayed: boolean; onBackfill: (from: string, to: string) => void; onReplay: (run: string) => void }) {
  const { run, skip } = row
  const zone = useZone(job.timezone)
  const [, navigate] = useLocation()
  const href = run ? runPath(run.id) : explainPath(job.name, row.at)
  const fate = run?.state === 'retrying' ? 'retrying' : row.fate
  const detail = [run && run.kind !== 'scheduled' ? run.kind : '', detailOf(row)].filter(Boolean).join(' · ')
  return (
    <li className="job-time" onDoubleClick={() => navigate(href)}>
      <Link href={href} className="job-time-at">
        <Time at={row.at} zone={job.timezone} seconds={hasSeconds} />
        {row.count > 1 && row.until && (
          <span className="hb-muted hb-small">
            {' '}
            to {sameDay(row.at, row.until, zone) ? formatClock(row.until, zone, { seconds: hasSeconds }) : <Time at={row.until} zone={job.timezone} />}
          </span>
        )}
      </Link>
      <Outcome fate={fate} text={row.count > 1 ? `${row.count} × ${FATE_WORDS[fate]}` : FATE_WORDS[fate]} />
      <span className="job-time-detail">{detail}</span>
      <span className="job-time-end">
        {run?.state === 'failed' && isReplayed && <span className="hb-muted hb-small">replayed</span>}
        {run?.state === 'failed' && !isReplayed && (
          <Button size="small" needs="operator" onClick={() => onReplay(run.id)}>
            Replay
          </Button>
        )}
        {skip && (
          <Button size="small" needs="operator" onClick={() => onBackfill(row.at, row.until ?? row.at)}>
            Backfill
          </Button>
        )}
        {run && run.state !== 'failed' && <span className="hb-muted hb-small">{run.status_code ? `HTTP ${run.status_code}` : run.attempt > 1 ? `attempt ${run.attempt}` : ''}</span>}
      </span>
    </li>
  )
}

function sameDay(one: string, other: string, zone: string): boolean {
  return isoDate(one, zone) === isoDate(other, zone)
}

function detailOf({ run, skip }: LedgerTime): string {
  if (skip) return SKIP_WORDS[skip.reason] ?? skip.reason
  if (!run) return ''
  const parts = [
    run.lateness_ms !== null && run.kind === 'scheduled' ? (run.lateness_ms < 1 ? 'on time' : `${formatDuration(run.lateness_ms)} late`) : '',
    run.state === 'failed' && run.attempt > 1 ? `${count(run.attempt, 'attempt')} over ${formatDuration(run.duration_ms ?? 0)}` : run.duration_ms !== null ? formatDuration(run.duration_ms) : '',
    run.error && run.state !== 'succeeded' ? errorLine(run.error) : '',
  ]
  return parts.filter(Boolean).join(' · ')
}

const CELL = 15
const GAP = 3

export function Year({ job }: { job: JobDetail }) {
  const zone = job.timezone
  const today = isoDate(serverNow(), zone)
  const cells = yearCells(today)
  const [, set] = useUrlState()
  const days = useQuery({ queryKey: ['job', job.name, 'days', today], queryFn: ({ signal }) => getJson<{ items: Day[] }>(`/jobs/${encodeURIComponent(job.name)}/days`, {}, signal), staleTime: 60_000 })
  const byDate = new Map((days.data?.items ?? []).map((day) => [day.date, day]))
  const height = 7 * (CELL + GAP)
  const width = 53 * (CELL + GAP)
  const months = cells.filter((cell) => cell.row === 0 && Number(cell.date.slice(8)) <= 7)
  return (
    <Card title="The last year" controls={<span className="hb-muted hb-small">by day in {zone}</span>}>
      {days.error ? (
        <ErrorNotice error={days.error} what="The days could not be loaded" onRetry={() => void days.refetch()} />
      ) : (
        <div className="job-year" tabIndex={0} role="group" aria-label={`Days of the last year: ${summarizeDays(days.data?.items ?? [])}`}>
          <svg viewBox={`0 0 ${width} ${height + 16}`} width={width}>
            {months.map((cell) => (
              <text key={cell.date} x={cell.column * (CELL + GAP)} y={height + 12} className="job-year-month">
                {MONTHS[Number(cell.date.slice(5, 7)) - 1]}
              </text>
            ))}
            {cells.map((cell) => {
              const day = byDate.get(cell.date)
              const fate = day ? fateOfDay(day) : undefined
              const x = cell.column * (CELL + GAP)
              const y = cell.row * (CELL + GAP)
              return (
                <g key={cell.date} transform={`translate(${x} ${y})`} data-tone={fate && TONES[fate]} onClick={() => day && set({ until: new Date(fromLocal(`${cell.date}T23:59`, zone) + 60_000).toISOString(), cursor: null })} className={day ? 'job-day job-day-link' : 'job-day'}>
                  <title>{day ? `${cell.date}: ${dayText(day)}` : `${cell.date}: nothing due`}</title>
                  <DayMark fate={fate} />
                </g>
              )
            })}
          </svg>
        </div>
      )}
    </Card>
  )
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

function DayMark({ fate }: { fate: Fate | undefined }) {
  if (!fate) return <rect width={CELL} height={CELL} rx="3" className="job-day-none" />
  if (fate === 'skipped' || fate === 'cancelled') return <rect x="0.7" y="0.7" width={CELL - 1.4} height={CELL - 1.4} rx="3" className="job-day-open" />
  return (
    <>
      <rect width={CELL} height={CELL} rx="3" className={fate === 'succeeded' ? 'job-day-soft' : 'job-day-full'} />
      {fate === 'failed' && <path d={`M${CELL / 2} 4 ${CELL - 4} ${CELL / 2} ${CELL / 2} ${CELL - 4} 4 ${CELL / 2}Z`} className="job-day-cut" />}
    </>
  )
}

function dayText(day: Day): string {
  const parts = (['succeeded', 'late', 'failed', 'skipped', 'cancelled', 'unfinished'] as const).filter((key) => day[key]).map((key) => `${day[key]} ${key === 'late' ? 'late' : key}`)
  return parts.join(', ')
}

function summarizeDays(days: readonly Day[]): string {
  const sum = (key: keyof Omit<Day, 'date'>) => days.reduce((total, day) => total + day[key], 0)
  return `${sum('succeeded') + sum('late')} succeeded, ${sum('failed')} failed, ${sum('skipped')} skipped on ${count(days.length, 'day')}`
}

const FEW_POINTS = 20 // drawn as dots, too
const CHART_WIDTH = 900
const CHART_HEIGHT = 120

export function Charts({ job }: { job: JobDetail }) {
  const [shown, setShown] = useState<'duration' | 'lateness'>('duration')
  const [, navigate] = useLocation()
  const series = useQuery({ queryKey: ['job', job.name, 'series'], queryFn: ({ signal }) => getJson<Series>(`/jobs/${encodeURIComponent(job.name)}/series`, { limit: 100 }, signal) })
  const data = series.data
  const items = data?.items ?? []
  const values = items.map((item) => (shown === 'duration' ? item.duration_ms : item.lateness_ms === null ? null : Math.max(0, item.lateness_ms)))
  const max = niceMax(Math.max(0, ...values.map((value) => value ?? 0)))
  const step = items.length > 1 ? CHART_WIDTH / (items.length - 1) : 0
  const median = shown === 'duration' ? data?.median_duration_ms : data?.median_lateness_ms
  const p95 = shown === 'duration' ? data?.p95_duration_ms : data?.p95_lateness_ms
  const slope = data?.duration_slope_ms_per_week
  const facts = [
    count(items.length, 'run'),
    median !== null && median !== undefined ? `median ${formatDuration(median)}` : '',
    p95 !== null && p95 !== undefined ? `p95 ${formatDuration(p95)}` : '',
    shown === 'duration' && slope && Math.abs(slope) >= 1 ? `${slope > 0 ? 'growing' : 'shrinking'} ${formatDuration(Math.abs(slope))} a week` : '',
  ].filter(Boolean)
  return (
    <Card
      title={shown === 'duration' ? 'Duration' : 'Lateness'}
      controls={
        <Tabs
          label="Chart"
          tabs={[
            ['duration', 'Duration'],
            ['lateness', 'Lateness'],
          ]}
          value={shown}
          onChange={setShown}
        />
      }
    >
      {series.error ? (
        <ErrorNotice error={series.error} what="The chart could not be loaded" onRetry={() => void series.refetch()} />
      ) : !items.length ? (
        <p className="hb-muted">{data ? 'No run has ended yet.' : 'Loading…'}</p>
      ) : (
        <figure className="job-chart">
          <svg viewBox={`-4 -8 ${CHART_WIDTH + 8} ${CHART_HEIGHT + 16}`} preserveAspectRatio="none" role="img" aria-label={`${shown === 'duration' ? 'Duration' : 'Lateness'} of the last ${facts.join(', ')}`}>
            {[0, 0.5, 1].map((share) => (
              <line key={share} x1="0" x2={CHART_WIDTH} y1={CHART_HEIGHT * (1 - share)} y2={CHART_HEIGHT * (1 - share)} className="job-chart-grid" />
            ))}
            <path d={linePath(values, CHART_WIDTH, CHART_HEIGHT, max)} className="job-chart-line" />
            {items.map((item, index) => {
              const value = values[index]
              if (value === null || value === undefined) return null
              return (
                <g key={item.run_id} data-tone={item.state === 'failed' ? 'bad' : 'accent'} className="job-chart-point" onClick={() => navigate(runPath(item.run_id))}>
                  <title>{`${new Date(item.at).toISOString()}: ${formatDuration(value)}, ${item.state}`}</title>
                  <rect x={index * step - step / 2} y="0" width={Math.max(step, 6)} height={CHART_HEIGHT} className="job-chart-hit" />
                  {item.state !== 'failed' && items.length <= FEW_POINTS && <path d={`M${index * step} ${CHART_HEIGHT * (1 - value / max)}h0`} className="job-chart-dot" />}
                  {item.state === 'failed' && <path d={`M${index * step} ${CHART_HEIGHT * (1 - value / max) - 5}l5 5-5 5-5-5Z`} className="job-chart-failed" />}
                </g>
              )
            })}
          </svg>
          <span className="job-chart-max hb-muted hb-small">{formatDuration(max)}</span>
          <figcaption className="hb-muted hb-small">{facts.join(' · ')}</figcaption>
        </figure>
      )}
    </Card>
  )
}

/** The next times of the schedule; of a paused job, those that it would have. */
async function nextTimes(job: JobDetail, signal: AbortSignal): Promise<Occurrence[]> {
  if (job.state !== 'paused') return (await getJson<{ items: Occurrence[] }>(`/jobs/${encodeURIComponent(job.name)}/upcoming`, { count: UPCOMING }, signal)).items
  return (await sendJson<Preview>('POST', '/preview', { schedule: job.schedule, timezone: job.timezone, dst: job.dst, name: job.name, count: UPCOMING })).upcoming
}

export function NextTimes({ job }: { job: JobDetail }) {
  const zone = useZone(job.timezone)
  const upcoming = useQuery({
    queryKey: ['job', job.name, 'upcoming', job.version, job.next_at],
    queryFn: ({ signal }) => nextTimes(job, signal),
  })
  const rows = upcoming.data ?? []
  return (
    <Card title="Next times" controls={<span className="hb-muted hb-small">{zone}</span>}>
      {upcoming.error && <ErrorNotice error={upcoming.error} what="The next times could not be loaded" onRetry={() => void upcoming.refetch()} />}
      {job.state === 'paused' && <p className="job-note">Paused: these times are skipped until the job is resumed.</p>}
      {upcoming.data && !rows.length && <p className="hb-muted">The schedule has no more times.</p>}
      <ol className="job-next">
        {rows.map((row, index) => (
          <li key={row.at}>
            <span>
              <Time at={row.at} zone={job.timezone} offset seconds={!row.at.slice(17).startsWith('00')} />
              <ClockNote row={row} before={rows[index - 1]} zone={job.timezone} />
            </span>
            <span className="hb-muted">
              <RelativeTime at={row.at} zone={job.timezone} />
            </span>
          </li>
        ))}
      </ol>
    </Card>
  )
}

function ClockNote({ row, before, zone }: { row: Occurrence; before: Occurrence | undefined; zone: string }) {
  let text = ''
  if (row.shifted) text = `the clock skips ${row.nominal_local.slice(11, 16)} that day, so it runs right after`
  else if (row.fold) text = 'the clock shows this time twice; this is the second'
  else if (before && offsetMinutes(before.at, zone) !== offsetMinutes(row.at, zone)) {
    const isForward = offsetMinutes(row.at, zone) > offsetMinutes(before.at, zone)
    text = `clocks go ${isForward ? 'forward' : 'back'} between ${formatDate(before.at, zone)} and this time; the local time stays`
  }
  return text ? <span className="job-clock-note">{text}</span> : null
}

export function WhyNot({ job }: { job: JobDetail }) {
  const zone = useZone(job.timezone)
  const [text, setText] = useState('')
  const [error, setError] = useState<string>()
  const [, navigate] = useLocation()
  const ask = () => {
    const local = readTypedTime(text, isoDate(serverNow(), zone))
    const parsed = local ? fromLocal(local, zone) : Date.parse(text)
    if (Number.isNaN(parsed)) setError('Write a time such as “08:00 today”, “yesterday 9:30” or “2026-11-18 08:00”.')
    else navigate(explainPath(job.name, new Date(parsed).toISOString()))
  }
  return (
    <Card title="Why not at…">
      <form
        className="job-why"
        onSubmit={(event) => {
          event.preventDefault()
          ask()
        }}
      >
        <Field label={`A time (${zone})`} isLabelHidden error={error}>
          <input value={text} onChange={(event) => setText(event.target.value)} placeholder="08:00 today" autoComplete="off" />
        </Field>
        <Button type="submit" disabled={!text.trim()}>
          Explain
        </Button>
      </form>
    </Card>
  )
}

export function Settings({ job }: { job: JobDetail }) {
  const { type, ...target } = job.target as { type: string; url?: string; method?: string; name?: string; function?: string; command?: string | string[] }
  const where = type === 'http' ? `${target.method ?? 'POST'} ${target.url}` : type === 'task' ? `task ${target.name}` : type === 'sql' ? `SQL function ${target.function}` : type === 'command' ? `command ${Array.isArray(target.command) ? target.command.join(' ') : target.command}` : type
  return (
    <Card title="Settings">
      <Facts>
        <dt>Target</dt>
        <dd>{where}</dd>
        {(job.secrets ?? []).length > 0 && (
          <>
            <dt>Secrets</dt>
            <dd>{(job.secrets ?? []).map((secret) => (secret.origin ? `${secret.field} for ${secret.origin}` : secret.field)).join(', ')}</dd>
          </>
        )}
        {settingsOf(job).map((setting) => (
          <SettingRow key={setting.label} {...setting} />
        ))}
        <dt>Owner</dt>
        <dd>
          {job.managed_by}
          {job.source ? `: ${job.source}` : ''}, version {job.version}
        </dd>
        <dt>Id</dt>
        <dd>
          <code>{job.id}</code>
        </dd>
      </Facts>
    </Card>
  )
}

function SettingRow({ label, value, isDefault, note }: { label: string; value: string; isDefault: boolean; note?: string }) {
  return (
    <>
      <dt>{label}</dt>
      <dd title={note}>
        {value} {isDefault && <span className="hb-muted hb-small">default</span>}
        {note && <span className="job-setting-note">{note}</span>}
      </dd>
    </>
  )
}

export function Versions({ job }: { job: JobDetail }) {
  const [isOpen, setOpen] = useState(false)
  const versions = useQuery({ queryKey: ['job', job.name, 'versions', job.version], queryFn: ({ signal }) => getJson<List<Version>>(`/jobs/${encodeURIComponent(job.name)}/versions`, { limit: 20 }, signal), enabled: isOpen })
  const rows = versions.data?.items ?? []
  return (
    <Card
      title="Versions"
      controls={
        <Button size="small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? 'Hide' : `Show ${job.version}`}
        </Button>
      }
    >
      {!isOpen && (
        <p className="hb-muted hb-small">
          Changed last <Time at={job.updated_at} />. Every change is kept.
        </p>
      )}
      {isOpen && versions.error && <ErrorNotice error={versions.error} what="The versions could not be loaded" onRetry={() => void versions.refetch()} />}
      {isOpen && (
        <ol className="job-versions">
          {rows.map((version, index) => {
            const before = rows[index + 1]
            const changes = before ? diff(before.definition, version.definition) : []
            return (
              <li key={version.version}>
                <strong>{version.version}</strong> <Time at={version.changed_at} /> <span className="hb-muted">by {version.changed_by}</span>
                {changes.map((change) => (
                  <div key={change.field} className="job-version-change">
                    {change.field}: <del>{show(change.before)}</del> → <ins>{show(change.after)}</ins>
                  </div>
                ))}
                {!before && version.version === 1 && <div className="hb-muted hb-small">created</div>}
              </li>
            )
          })}
        </ol>
      )}
      {isOpen && versions.data?.next_cursor && (
        <p className="hb-small">
          <Link href={withSearch('/audit', { subject: job.id })}>Older versions are in the audit</Link>
        </p>
      )}
    </Card>
  )
}

function show(value: unknown): string {
  if (value === undefined || value === null) return '—'
  return typeof value === 'string' ? value || '""' : stringifyJson(value)
}
