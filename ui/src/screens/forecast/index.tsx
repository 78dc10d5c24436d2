import { useEffect, useMemo, useState } from 'react'
import { Link } from 'wouter'
import { useStats } from '../../api/queries'
import { useNow } from '../../app/now'
import { useUrlState } from '../../app/urlState'
import { useZone } from '../../app/zone'
import { Empty } from '../../components/Empty'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Loading } from '../../components/Loading'
import { Card, Screen } from '../../components/Screen'
import { BASE } from '../../api/client'
import { count, formatNumber } from '../../lib/outcome'
import { formatClock, formatDate, formatTime } from '../../lib/time'
import { jobPath, withSearch } from '../../lib/url'
import { isoSeconds } from '../home/scale'
import { addDays, fill, today, weekCells, type Cell, type Counts } from './grid'
import { cellText, HeatMap } from './HeatMap'
import { useActual, useFiring, usePlanned, useWorstMinutes, MAX_PAGES, type Actual, type Minute } from './queries'
import { expectedPeak, hasFixedMinute, withHashedMinute } from './spread'
import './forecast.css'

const HOUR = 3_600_000
const MINUTE = 60_000
const WORST = 8
const LISTED = 50
const JITTERS = [1, 5, 15] as const

interface Chosen {
  from: number
  until: number
}

/** How much will run when: the coming week beside the last one, and what fires at the same minute. */
export default function ForecastScreen() {
  const zone = useZone()
  const stats = useStats()
  const now = useNow(60)
  const [query, set] = useUrlState()
  const isUpright = useNarrow()

  const first = today(now, zone)
  const coming = useMemo(() => weekCells(first, zone), [first, zone])
  const last = useMemo(() => weekCells(addDays(first, -7), zone), [first, zone])
  const end = coming.at(-1)?.at(-1)?.until ?? now
  const thisHour = coming[0]?.findLast((cell) => cell.from <= now)?.from ?? now
  const thisMinute = Math.floor(now / (10 * MINUTE)) * 10 * MINUTE

  const planned = usePlanned(thisHour, end)
  const actual = useActual(last[0]?.[0]?.from ?? now, coming[0]?.[0]?.from ?? now)
  const minutes = useWorstMinutes(thisMinute, WORST)

  const plannedCounts = useMemo(() => fill(coming, planned.data?.hours ?? []), [coming, planned.data])
  const actualCounts = useMemo(() => fill(last, (actual.data?.jobs ?? []).flatMap((job) => job.hours)), [last, actual.data])
  const most = Math.max(1, ...[...plannedCounts.values()].map((found) => found.planned), ...[...actualCounts.values()].map((found) => found.ran))
  const total = [...plannedCounts.values()].reduce((sum, found) => sum + found.planned, 0)
  const fullest = [...plannedCounts].reduce<[Cell, Counts] | null>((best, one) => (!best || one[1].planned > best[1].planned ? one : best), null)

  const chosen = chosenOf(query) ?? (minutes.data?.[0] ? { from: minutes.data[0].at, until: minutes.data[0].at + MINUTE } : null)
  const selected = chosen && chosen.until - chosen.from > MINUTE ? chosen.from : null
  const choose = ({ from, until }: Chosen) => set({ at: isoSeconds(from), for: until - from === MINUTE ? 'minute' : until - from > HOUR ? String((until - from) / HOUR) : null })
  const dayName = (cell: Cell) => formatDate(Date.parse(`${cell.day}T12:00:00Z`), 'UTC')

  if (stats.data?.jobs === 0) {
    return (
      <Screen title="Forecast">
        <section className="hb-card">
          <Empty title="Nothing is planned" examples={[{ label: 'curl', code: `curl '${BASE}/api/v1/forecast?bucket=1h&buckets=168'` }, { label: 'command line', code: 'hourbell forecast --bucket 1h -n 168' }]}>
            <p>
              The forecast counts how many runs each hour of the coming week will have. It needs a job: see the <Link href="/">time line</Link> for how to make one.
            </p>
          </Empty>
        </section>
      </Screen>
    )
  }
  return (
    <Screen
      title="Forecast"
      lead={
        planned.data && (
          <>
            <b>{count(total, 'run')}</b> planned until {formatTime(end, zone, { now })}.{' '}
            {fullest && fullest[1].planned > 0 && (
              <>
                The fullest hour is {dayName(fullest[0])} {formatClock(fullest[0].from, zone)} with <b>{formatNumber(fullest[1].planned)}</b>.
              </>
            )}{' '}
            <span className="hb-muted">Times in {zone}.</span>
          </>
        )
      }
    >
      <div className="forecast-maps">
        <Card title="Planned: the coming 7 days">
          {planned.error && <ErrorNotice error={planned.error} what="The forecast cannot be loaded" onRetry={() => void planned.refetch()} />}
          <HeatMap label="Planned runs by day and hour" of="planned" cells={coming} counts={plannedCounts} most={most} now={now} dayName={dayName} selected={selected} onSelect={choose} isUpright={isUpright} />
          {!!planned.data?.leftOut && <p className="hb-muted hb-small forecast-note">{count(planned.data.leftOut, 'job')} with rare schedules are not counted.</p>}
        </Card>
        <Card title="Ran: the last 7 days">
          {actual.error && <ErrorNotice error={actual.error} what="The last week cannot be loaded" onRetry={() => void actual.refetch()} />}
          <HeatMap label="Runs of the last week by day and hour" of="ran" cells={last} counts={actualCounts} most={most} now={now} dayName={dayName} selected={selected} onSelect={choose} isUpright={isUpright} />
          <p className="hb-muted hb-small forecast-note">
            <span className="forecast-failed-key" /> some failed · ○ all skipped
            {actual.isPending && ' · loading…'}
            {actual.data?.isPart && ` · only the first ${formatNumber(MAX_PAGES * 100)} jobs by name`}
          </p>
        </Card>
      </div>
      <div className="forecast-below">
        <Card title="The fullest minutes of the next 24 hours">
          {minutes.error && <ErrorNotice error={minutes.error} onRetry={() => void minutes.refetch()} />}
          {minutes.data && <WorstMinutes minutes={minutes.data} zone={zone} now={now} chosen={chosen} onChoose={choose} />}
        </Card>
        {chosen && <ChosenSpan chosen={chosen} zone={zone} now={now} actual={actual.data} />}
      </div>
    </Screen>
  )
}

function chosenOf(query: URLSearchParams): Chosen | null {
  const from = Date.parse(query.get('at') ?? '')
  if (!Number.isFinite(from)) return null
  if (query.get('for') === 'minute') return { from, until: from + MINUTE }
  const hours = Number(query.get('for') ?? 1)
  return { from, until: from + (hours > 0 && hours <= 3 ? hours : 1) * HOUR }
}

function WorstMinutes({ minutes, zone, now, chosen, onChoose }: { minutes: readonly Minute[]; zone: string; now: number; chosen: Chosen | null; onChoose: (chosen: Chosen) => void }) {
  if (!minutes.length) return <p className="hb-muted">Nothing is planned.</p>
  const most = minutes[0]?.count ?? 1
  return (
    <ol className="forecast-minutes">
      {minutes.map(({ at, count: number }) => (
        <li key={at}>
          <button type="button" aria-pressed={chosen?.from === at && chosen.until - chosen.from === MINUTE} onClick={() => onChoose({ from: at, until: at + MINUTE })}>
            <span className="forecast-minute-time">{formatTime(at, zone, { now })}</span>
            <span className="forecast-minute-bar" aria-hidden="true">
              <span style={{ width: `${(100 * number) / most}%` }} />
            </span>
            <span className="forecast-minute-count">{count(number, 'run')}</span>
          </button>
        </li>
      ))}
    </ol>
  )
}

/** The jobs behind a cell or a minute. */
function ChosenSpan({ chosen, zone, now, actual }: { chosen: Chosen; zone: string; now: number; actual: Actual | undefined }) {
  const { from, until } = chosen
  const isPast = until <= now
  const firing = useFiring(from, until, !isPast)
  const isMinute = until - from === MINUTE
  const title = isMinute ? formatTime(from, zone, { now }) : `${formatTime(from, zone, { now })}–${formatClock(until, zone)}`
  const past = useMemo(() => (isPast ? ranIn(actual, from, until) : null), [isPast, actual, from, until])
  const lines = past ?? firing.data?.jobs.map(({ row, count: number }) => ({ row, text: `${count(number, 'run')} planned`, number })) ?? null
  const runs = lines?.reduce((sum, { number }) => sum + number, 0) ?? 0
  return (
    <Card
      title={`${title} ${zone}`}
      controls={
        <Link href={withSearch('/', { from: isoSeconds(from - (isMinute ? 30 * MINUTE : 0)), until: isoSeconds(until + (isMinute ? 30 * MINUTE : 0)), rows: 50 })} className="hb-link hb-small">
          On the time line
        </Link>
      }
    >
      {firing.error && !isPast && <ErrorNotice error={firing.error} onRetry={() => void firing.refetch()} />}
      {!lines ? (
        <Loading what="the jobs" />
      ) : (
        <>
          <p>
            {past ? cellText({ planned: 0, ran: runs, failed: past.reduce((sum, one) => sum + one.failed, 0), skipped: past.reduce((sum, one) => sum + one.skipped, 0) }, 'ran') : `${count(runs, 'run')} of ${count(lines.length, 'job')}`}
            {(isPast ? actual?.isPart : firing.data?.isPart) && ` among the first ${formatNumber(MAX_PAGES * 100)} jobs`}
          </p>
          {!isPast && isMinute && <Spreading runs={runs} schedules={lines.map(({ row }) => row.job.schedule)} />}
          <ul className="forecast-jobs">
            {lines.slice(0, LISTED).map(({ row, text }) => (
              <li key={row.job.id}>
                <span>
                  <Link href={jobPath(row.job)}>{row.job.name}</Link> <span className="hb-muted hb-small">{row.job.words ?? row.job.schedule} · {row.job.timezone}</span>
                </span>
                <span className="hb-muted hb-nowrap">{text}</span>
              </li>
            ))}
          </ul>
          {lines.length > LISTED && <p className="hb-muted hb-small forecast-note">and {formatNumber(lines.length - LISTED)} more jobs</p>}
        </>
      )}
    </Card>
  )
}

/** What `H` and jitter would do to a full minute. */
function Spreading({ runs, schedules }: { runs: number; schedules: readonly string[] }) {
  const fixed = schedules.filter(hasFixedMinute)
  const example = fixed.map((schedule) => [schedule, withHashedMinute(schedule)] as const).find(([, hashed]) => hashed)
  if (runs < 2) return <p className="hb-muted">One run; nothing to spread.</p>
  return (
    <dl className="forecast-spread">
      <div>
        <dt>As it is</dt>
        <dd>
          <b>{formatNumber(runs)}</b> in this minute
        </dd>
      </div>
      {example && (
        <div>
          <dt>
            With <code>H</code> for the minute
          </dt>
          <dd>
            about <b>{formatNumber(Math.max(expectedPeak(fixed.length, 60), runs - fixed.length))}</b> in a minute: {formatNumber(fixed.length)} of {count(schedules.length, 'job')} {fixed.length === 1 ? 'has' : 'have'} a fixed minute; <code>H</code> gives each its own, for example <code>{example[0]}</code> → <code>{example[1]}</code>
          </dd>
        </div>
      )}
      {JITTERS.map((minutes) => (
        <div key={minutes}>
          <dt>
            With <code>jitter = "{minutes}m"</code>
          </dt>
          <dd>
            about <b>{formatNumber(minutes === 1 ? runs : expectedPeak(runs, minutes))}</b> in a minute{minutes === 1 ? `, about ${formatNumber(expectedPeak(runs, 60))} in a second` : ''}; each run begins up to {minutes} min later
          </dd>
        </div>
      ))}
    </dl>
  )
}

function ranIn(actual: Actual | undefined, from: number, until: number) {
  if (!actual) return null
  return actual.jobs
    .map(({ row, hours }) => {
      const inside = hours.filter(({ at }) => at >= from && at < until)
      const sum = (key: keyof Counts) => inside.reduce((all, { counts }) => all + (counts[key] ?? 0), 0)
      const found = { planned: 0, ran: sum('ran'), failed: sum('failed'), skipped: sum('skipped') }
      return { row, number: found.ran, failed: found.failed, skipped: found.skipped, text: cellText(found, 'ran') }
    })
    .filter(({ number, skipped }) => number || skipped)
    .sort((one, other) => other.failed - one.failed || other.number - one.number || one.row.job.name.localeCompare(other.row.job.name))
}

function useNarrow(): boolean {
  const query = '(max-width: 640px)'
  const [matches, setMatches] = useState(() => window.matchMedia(query).matches)
  useEffect(() => {
    const list = window.matchMedia(query)
    const onChange = () => setMatches(list.matches)
    list.addEventListener('change', onChange)
    return () => list.removeEventListener('change', onChange)
  }, [])
  return matches
}
