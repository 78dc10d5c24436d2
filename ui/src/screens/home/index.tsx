import { useCallback, useEffect, useRef, useState } from 'react'
import { Link } from 'wouter'
import { useStats } from '../../api/queries'
import type { TimelineRow } from '../../api/types'
import { useNow } from '../../app/now'
import { useUrlState } from '../../app/urlState'
import { useZone } from '../../app/zone'
import { Button } from '../../components/Button'
import { Chip } from '../../components/Chip'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Loading } from '../../components/Loading'
import { Menu, MenuItem } from '../../components/Menu'
import { OutcomeMark } from '../../components/Outcome'
import { Screen } from '../../components/Screen'
import { Tabs } from '../../components/Tabs'
import { serverNow } from '../../lib/clock'
import { count, formatNumber, type Fate } from '../../lib/outcome'
import { formatDate } from '../../lib/time'
import { steady } from '../../lib/steady'
import { withSearch } from '../../lib/url'
import { PauseMany, RemoveDemo } from './actions'
import { outageText } from './describe'
import { FirstSteps } from './FirstSteps'
import { MarkTable } from './MarkTable'
import { NeedsAttention, NextJobs } from './Panels'
import { ATTENTIONS, totalOf, useTimeline, type AttentionFilter, type TimelineFilter, type TimelineQuery } from './queries'
import { spanOf, viewOf, viewPatch, ZOOMS, type View, type Zoom } from './scale'
import { TimeLine } from './TimeLine'
import { Tiles } from './Tiles'
import './home.css'

const SIZES = [10, 25, 50, 100] as const
const GROUPED_SIZE = 100
const FILTER_WORDS: Record<AttentionFilter, string> = { failing: 'failing', retrying: 'retrying', losing: 'losing runs', late: 'late now', paused: 'paused', due: 'due within the hour' }
const EMPTY_WORDS: Record<AttentionFilter, string> = { failing: 'No job is failing.', retrying: 'No run is waiting for another attempt.', losing: 'No job lost runs in the last 24 hours.', late: 'No run is late.', paused: 'No job is paused.', due: 'No job fires within the hour.' }

export default function Home() {
  const [query, set] = useUrlState()
  const search = query.toString()
  const zone = useZone()
  const now = useNow(10)
  const stats = useStats()

  const attention = ATTENTIONS.find((known) => known === query.get('attention')) ?? null
  const filter: TimelineFilter = { attention, tag: query.get('tag'), q: query.get('q') }
  const isFiltered = attention !== null || !!filter.tag || !!filter.q
  const isGrouped = query.get('order') === 'tag'
  const limit = SIZES.find((size) => String(size) === query.get('rows')) ?? (isGrouped ? GROUPED_SIZE : SIZES[0])
  const cursor = query.get('cursor')
  const skip = cursor ? Math.max(0, Number(query.get('skip')) || 0) : 0
  const [view, setView] = useView(query, set)

  const [maxMarks, setMaxMarks] = useState<number | null>(null)
  const onWidth = useCallback((width: number) => width && setMaxMarks(Math.max(40, Math.min(240, Math.round(width / 4 / 20) * 20))), [])
  const asked: TimelineQuery | null = maxMarks === null ? null : { ...filter, view, sort: isGrouped ? 'name' : 'attention', limit, cursor, maxMarks }
  const timeline = useTimeline(asked)
  const isDefault = !isFiltered && !isGrouped && !cursor && view.zoom === '24h'
  const first = useTimeline(asked && !isDefault ? { attention: null, tag: null, q: null, view: { zoom: '24h', span: null }, sort: 'attention', limit: SIZES[0], cursor: null, maxMarks: 100 } : null)
  const needy = isDefault ? timeline.data : first.data

  const [isHeld, setHeld] = useState(false)
  const rows = useHeldRows(timeline.data?.items ?? NONE, isHeld, timeline.data?.asked ?? '')

  const isEmpty = stats.data?.jobs === 0 && !isFiltered
  if (isEmpty) {
    return (
      <Screen title="Home" isTitleHidden>
        <Tiles stats={stats.data} search={search} attention={attention} />
        <FirstSteps />
      </Screen>
    )
  }
  const outages = timeline.data?.outages ?? []
  const nextCursor = timeline.data?.next_cursor ?? null
  const total = totalOf(stats.data, filter) ?? (nextCursor || skip ? null : rows.length)
  const isTable = query.get('view') === 'table'
  const clear = { attention: null, tag: null, q: null, cursor: null, skip: null }
  const shownText = rowsText(skip, rows.length, total, !nextCursor)
  const hasDemo = rows.some(({ job }) => job.tags.includes('demo') && job.name.startsWith('demo-'))
  return (
    <Screen title="Home" isTitleHidden>
      <Tiles stats={stats.data} search={search} attention={attention} />
      <section className="hb-card home-timeline" aria-label="Time line">
        <div className="hb-card-head home-head">
          <div className="hb-actions">
            <h2>Time line</h2>
            <span className="home-head-zone hb-muted hb-small">
              {formatDate(spanOf(view, now).from, zone)} · {zone}
            </span>
            {attention && <Chip onRemove={() => set(clear)}>{FILTER_WORDS[attention]}</Chip>}
            {filter.tag && <Chip onRemove={() => set(clear)}>{filter.tag}</Chip>}
            {filter.q && <Chip onRemove={() => set(clear)}>{`name begins with ${filter.q}`}</Chip>}
            {isFiltered && (
              <Link href={withSearch('/jobs', { attention, tag: filter.tag, q: filter.q })} className="hb-link hb-small">
                Open in Jobs
              </Link>
            )}
          </div>
          <div className="hb-actions home-controls">
            {view.span && (
              <Button size="small" onClick={() => setView({ zoom: '24h', span: null })}>
                Back to now
              </Button>
            )}
            <Tabs<Zoom | ''> label="Zoom" tabs={(['1h', '24h', '7d', '30d'] as const).map((zoom) => [zoom, ZOOM_LABELS[zoom]] as const)} value={view.zoom ?? ''} onChange={(zoom) => zoom && zoom in ZOOMS && setView({ zoom, span: null })} />
            <Tabs label="Order" tabs={[['attention', 'needs attention first'], ['tag', 'by tag']] as const} value={isGrouped ? 'tag' : 'attention'} onChange={(order) => set({ order: order === 'tag' ? 'tag' : null, rows: null, cursor: null, skip: null })} />
            <Button size="small" aria-pressed={isTable} onClick={() => set({ view: isTable ? null : 'table' })}>
              As table
            </Button>
            <PauseMany filter={filter} />
            <Menu size="small" label={timeline.data ? shownText : 'Jobs'} name={`${shownText}: choose how many`}>
              {SIZES.map((size) => (
                <MenuItem key={size} onSelect={() => set({ rows: size === 10 && !isGrouped ? null : size, cursor: null, skip: null })}>
                  Show {size} jobs
                </MenuItem>
              ))}
            </Menu>
          </div>
        </div>
        {timeline.error && <ErrorNotice error={timeline.error} what="The time line cannot be loaded" onRetry={() => void timeline.refetch()} />}
        {timeline.data && !rows.length ? (
          <div className="hb-empty">
            <p>{attention ? EMPTY_WORDS[attention] : 'No job matches.'}</p>
            <div>
              <Button onClick={() => set(clear)}>Show all jobs</Button>
            </div>
          </div>
        ) : isTable && timeline.data ? (
          <MarkTable rows={rows} bucketSeconds={timeline.data.bucket_seconds} span={spanOf(view, now)} zone={zone} now={now} />
        ) : (
          <>
            <TimeLine rows={rows} bucketSeconds={timeline.data?.bucket_seconds ?? 1} outages={outages} isGrouped={isGrouped} view={view} onView={setView} zone={zone} onWidth={onWidth} onHold={setHeld} />
            {timeline.isPending && <Loading what="the time line" />}
          </>
        )}
        <div className="home-foot">
          {!isTable && <Legend outages={outages.map((outage) => outageText(outage, zone, now))} />}
          <div className="hb-actions home-pages">
            {hasDemo && <RemoveDemo />}
            {cursor && (
              <Button size="small" onClick={() => set({ cursor: null, skip: null }, { push: true })}>
                First {limit}
              </Button>
            )}
            {nextCursor && (
              <Button size="small" onClick={() => set({ cursor: nextCursor, skip: skip + rows.length }, { push: true })}>
                Next {limit}
              </Button>
            )}
          </div>
        </div>
      </section>
      <div className="home-panels">
        <NeedsAttention rows={needy?.items} stats={stats.data} zone={zone} />
        <NextJobs />
      </div>
    </Screen>
  )
}

const NONE: TimelineRow[] = []
const ZOOM_LABELS: Record<Zoom, string> = { '1h': '1 h', '24h': '24 h', '7d': '7 d', '30d': '30 d' }

/** "10 of 1,204 jobs", "11–20 of 1,204 jobs", "11–20" */
function rowsText(skip: number, shown: number, total: number | null, isLast: boolean): string {
  const numbers = skip ? `${formatNumber(skip + 1)}–${formatNumber(skip + shown)}` : formatNumber(shown)
  if (total !== null && total > shown) return `${numbers} of ${count(total, 'job')}`
  return total === null && !isLast ? `${numbers} of more jobs` : count(shown, 'job')
}

/** The view in the address. Between two changes it is the same object, so that it can be compared. */
function useView(query: URLSearchParams, set: (patch: Record<string, string | null>) => void): [View, (view: View) => void] {
  const key = `${query.get('zoom') ?? ''} ${query.get('from') ?? ''} ${query.get('until') ?? ''}`
  const last = useRef<{ key: string; view: View } | null>(null)
  if (last.current?.key !== key) last.current = { key, view: viewOf(query, serverNow()) }
  const setView = useCallback((view: View) => set(viewPatch(view)), [set])
  return [last.current.view, setView]
}

/** Rows that keep their places while the pointer is inside. */
function useHeldRows(rows: readonly TimelineRow[], isHeld: boolean, key: string): readonly TimelineRow[] {
  const last = useRef<{ key: string; rows: readonly TimelineRow[] }>({ key, rows })
  const isSame = last.current.key === key
  const result = isHeld && isSame ? steady(last.current.rows, rows, (row) => row.job.id, true).rows : rows
  useEffect(() => {
    last.current = { key, rows: result }
  })
  return result
}

const LEGEND: readonly (readonly [fate: Fate, label: string])[] = [
  ['succeeded', 'succeeded'],
  ['late', 'late'],
  ['failed', 'failed'],
  ['retrying', 'retrying'],
  ['skipped', 'skipped'],
  ['running', 'running'],
  ['planned', 'planned'],
]

function Legend({ outages }: { outages: readonly string[] }) {
  return (
    <ul className="home-legend" aria-label="Legend">
      {LEGEND.map(([fate, label]) => (
        <li key={fate}>
          <OutcomeMark fate={fate} />
          {label}
        </li>
      ))}
      <li>
        <svg className="hb-mark" data-tone="late" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
          <path d="M1 1h10v4H1ZM1 7h10v4H1Z" fill="currentColor" />
        </svg>
        retried
      </li>
      <li>
        <svg className="hb-mark" data-tone="ok" viewBox="0 0 14 12" width="14" height="12" aria-hidden="true">
          <path d="M0 1h4v10H0Z" fill="currentColor" opacity="0.4" />
          <path d="M5 1h4v10H5Z" fill="currentColor" opacity="0.7" />
          <path d="M10 1h4v10h-4Z" fill="currentColor" />
        </svg>
        many: click to zoom in
      </li>
      {outages.slice(0, 2).map((text) => (
        <li key={text}>
          <span className="home-legend-band" />
          {text}
        </li>
      ))}
      {outages.length > 2 && <li>and {outages.length - 2} more outages</li>}
    </ul>
  )
}
