import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { Link } from 'wouter'
import { getJson } from '../../api/client'
import { useJobSearch } from '../../api/queries'
import type { List, Run } from '../../api/types'
import { useUrlState } from '../../app/urlState'
import { LinkButton } from '../../components/Button'
import { Chip } from '../../components/Chip'
import { Empty } from '../../components/Empty'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Select } from '../../components/Field'
import { Loading } from '../../components/Loading'
import { Outcome } from '../../components/Outcome'
import { Pager } from '../../components/Pager'
import { Screen } from '../../components/Screen'
import { Table, type Column } from '../../components/Table'
import { Tabs } from '../../components/Tabs'
import { RelativeTime, Time } from '../../components/Time'
import { BASE } from '../../api/client'
import { serverNow } from '../../lib/clock'
import { formatDuration } from '../../lib/duration'
import { fateOf, REASON_WORDS } from '../../lib/outcome'
import { jobPath, oneOf, runPath } from '../../lib/url'
import { ENDPOINTS, sinceOf, SPANS, STATES, VIEWS, VIEW_NOTES, type Span, type View } from './filter'
import './runs.css'

const PAGE = 100
const SEARCH_WAIT_MS = 250

export default function Runs() {
  const [query, set] = useUrlState()
  const view = oneOf(query.get('view'), VIEWS.map(([key]) => key) as [View, ...View[]])
  const job = query.get('job')
  const state = query.get('state')
  const since = query.get('since')
  const until = query.get('until')
  const cursor = query.get('cursor')
  const filter = view === 'all' ? { job, state, since: since ? sinceOf(since, serverNow()) : null, until } : {}
  const runs = useQuery({
    queryKey: ['runs', view, job, state, since, until, cursor],
    queryFn: async ({ signal }) => ({ ...(await getJson<List<Run>>(ENDPOINTS[view], { ...filter, cursor, limit: PAGE }, signal)), of: `${view} ${job} ${state} ${since} ${until} ${cursor}` }),
    placeholderData: keepPreviousData,
  })
  const rows = runs.data?.items ?? []
  const change = (patch: Record<string, string | null>) => set({ ...patch, cursor: null })
  const isFiltered = view === 'all' && !!(job || state || since || until)
  return (
    <Screen
      title="Runs"
      actions={
        <LinkButton href="/failed">Failed runs by error</LinkButton>
      }
    >
      <div className="runs-filters hb-toolbar" role="search">
        <Tabs label="Which runs" tabs={VIEWS} value={view} onChange={(next) => set({ view: next === 'all' ? null : next, cursor: null })} />
        {view === 'all' && (
          <>
            <JobFilter value={job ?? ''} onChange={(name) => change({ job: name || null })} />
            <Select aria-label="State" value={state ?? ''} options={STATES} isSet={!!state} onChange={(value) => change({ state: value || null })} />
            <Select aria-label="Since" value={(SPANS.some(([key]) => key === since) ? since : '') as Span} options={SPANS} isSet={!!since} onChange={(value) => change({ since: value || null })} />
            {since && !SPANS.some(([key]) => key === since) && (
              <Chip onRemove={() => change({ since: null })}>{`since ${since}`}</Chip>
            )}
            {until && <Chip onRemove={() => change({ until: null })}>{`until ${until}`}</Chip>}
          </>
        )}
      </div>
      {VIEW_NOTES[view] && <p className="hb-muted">{VIEW_NOTES[view]}</p>}
      {runs.error && <ErrorNotice error={runs.error} what="The runs could not be loaded" onRetry={() => void runs.refetch()} />}
      {!runs.data && !runs.error && <Loading what="runs" />}
      {runs.data && rows.length > 0 && (
        <>
          <Table label="Runs" rows={rows} rowKey={(run) => run.id} rowName={(run) => `run of ${run.job_name ?? run.job_id}`} columns={COLUMNS} href={(run) => runPath(run.id)} resetKey={runs.data.of} />
          <Pager shown={`${rows.length} runs`} hasPrevious={!!cursor} nextCursor={runs.data.next_cursor} onFirst={() => set({ cursor: null }, { push: true })} onNext={(next) => set({ cursor: next }, { push: true })} />
        </>
      )}
      {runs.data && !rows.length && <NoRuns isFiltered={isFiltered} view={view} />}
    </Screen>
  )
}

const COLUMNS: Column<Run>[] = [
  {
    id: 'state',
    header: 'Outcome',
    cell: (run) => (
      <div className="runs-outcome">
        <Outcome fate={fateOf(run.state)} />
        <span className="hb-muted hb-small">
          {run.state === 'retrying' ? (
            <>
              next attempt <RelativeTime at={run.ready_at} />
            </>
          ) : (
            (run.waits_for ?? (run.reason ? (REASON_WORDS[run.reason] ?? run.reason) : ''))
          )}
        </span>
      </div>
    ),
  },
  {
    id: 'job',
    header: 'Job',
    cell: (run) => (
      <div className="runs-job">
        <Link href={jobPath({ name: run.job_name ?? run.job_id, id: run.job_id })}>{run.job_name ?? run.job_id}</Link>
        <span className="hb-muted hb-small runs-trigger">{(run.trigger || run.kind).replace(/^schedule:/, '')}</span>
        <span className="hb-muted hb-small runs-when">
          <Time at={run.scheduled_at} seconds />
        </span>
      </div>
    ),
  },
  { id: 'scheduled', header: 'Scheduled', hide: 'narrow', cell: (run) => <span className="hb-nowrap"><Time at={run.scheduled_at} seconds /></span> },
  { id: 'started', header: 'Started', hide: 'medium', cell: (run) => <span className="hb-nowrap"><Time at={run.started_at} seconds /></span> },
  { id: 'late', header: 'Late by', align: 'end', hide: 'narrow', cell: (run) => (run.lateness_ms === null || run.lateness_ms === undefined ? <span className="hb-muted">—</span> : formatDuration(Math.max(0, run.lateness_ms))) },
  { id: 'duration', header: 'Duration', align: 'end', hide: 'narrow', cell: (run) => (run.duration_ms === null || run.duration_ms === undefined ? <span className="hb-muted">—</span> : formatDuration(run.duration_ms)) },
  { id: 'attempt', header: 'Attempts', align: 'end', hide: 'wide', cell: (run) => run.attempt },
]

/** A field that suggests jobs; the list changes when the name is one that exists, or on Enter. */
function JobFilter({ value, onChange }: { value: string; onChange: (name: string) => void }) {
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  const found = useJobSearch(text)
  const names = (found.data ?? []).map((job) => job.name)
  const isKnown = names.includes(text)
  useEffect(() => {
    if (text === value || (text && !isKnown)) return undefined
    const timer = setTimeout(() => onChange(text), SEARCH_WAIT_MS)
    return () => clearTimeout(timer)
  }, [text, value, isKnown, onChange])
  return (
    <>
      <input
        className="hb-input runs-filter-job"
        type="search"
        list="runs-jobs"
        aria-label="Job"
        placeholder="Job"
        value={text}
        data-set={!!value || undefined}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => event.key === 'Enter' && onChange(text)}
        autoCapitalize="off"
        spellCheck={false}
      />
      <datalist id="runs-jobs">
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  )
}

function NoRuns({ isFiltered, view }: { isFiltered: boolean; view: View }) {
  if (isFiltered) return <Empty title="No run matches" />
  if (view === 'late') return <Empty title="No run began late" />
  if (view === 'stuck') return <Empty title="No run is stuck" />
  return (
    <Empty title="No runs yet" examples={[{ label: 'Run a job now', code: `curl -X POST ${BASE}/api/v1/jobs/NAME/trigger` }, { label: 'Command line', code: 'hourbell job trigger NAME' }]}>
      <p>Each scheduled time of a job becomes a run, or a skip that says why it did not run.</p>
    </Empty>
  )
}
