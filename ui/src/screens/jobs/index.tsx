import { useEffect, useMemo, useRef, useState, type RefObject } from 'react'
import { useLocation } from 'wouter'
import { sendJson } from '../../api/client'
import { useMay, useSession, useStats } from '../../api/queries'
import type { Job } from '../../api/types'
import { useShortcuts } from '../../app/shortcuts'
import { useUrlState } from '../../app/urlState'
import { Button, LinkButton } from '../../components/Button'
import { Chip } from '../../components/Chip'
import { Empty } from '../../components/Empty'
import { ErrorNotice, errorText } from '../../components/ErrorNotice'
import { Select } from '../../components/Field'
import { Loading } from '../../components/Loading'
import { Pager } from '../../components/Pager'
import { Screen } from '../../components/Screen'
import { Table, type Column } from '../../components/Table'
import { useToast } from '../../components/Toast'
import { BASE } from '../../api/client'
import { count, formatNumber } from '../../lib/outcome'
import { jobPath, oneOf } from '../../lib/url'
import { useJobActions, type JobActions } from './actions'
import { JobName, LastResult, Next, P95, Recent, Rate } from './cells'
import { useJobs, useTags } from './data'
import {
  ATTENTION_OPTIONS,
  describeCount,
  FILTERS,
  isSortable,
  OWNER_OPTIONS,
  readChosen,
  readFilter,
  RESULT_OPTIONS,
  SORTS,
  STATE_OPTIONS,
  TARGET_OPTIONS,
  writeChosen,
  type Chosen,
  type Filter,
  type FilterName,
} from './filter'
import './jobs.css'

const SEARCH_WAIT_MS = 100

export default function Jobs() {
  const [query, set] = useUrlState()
  const [, navigate] = useLocation()
  const filter = readFilter(query)
  const sort = isSortable(filter) ? oneOf(query.get('sort'), SORTS) : undefined
  const cursor = query.get('cursor')
  const chosen = readChosen(query.get('sel'))
  const jobs = useJobs(filter, sort, cursor)
  const stats = useStats().data
  const tags = useTags()
  const search = useRef<HTMLInputElement>(null)
  const mayAct = useMay('operator')
  const isFiltered = FILTERS.some((name) => filter[name])
  const rows = jobs.data?.items ?? []

  /** Another list: back to its first page, with nothing selected. */
  const change = (patch: Partial<Record<FilterName | 'sort', string | null>>) => set({ ...patch, cursor: null, sel: null })
  const choose = (next: Chosen) => set({ sel: writeChosen(next) })
  const actions = useJobActions(filter, () => set({ sel: null }))
  const byName = useMemo(() => new Map(rows.map((job) => [job.name, job])), [rows])

  useShortcuts([
    { keys: '/', label: 'Search jobs', run: () => search.current?.select() },
    { keys: 'Escape', run: () => chosen === 'all' || chosen.size ? choose(new Set()) : undefined },
    { keys: 'n', label: 'New job', run: () => navigate('/jobs/new') },
  ])

  const columns: Column<Job>[] = [
    { id: 'name', header: 'Job', sort: 'name', cell: (job) => <JobName job={job} onTag={(tag) => change({ tag })} /> },
    { id: 'zone', header: 'Zone', hide: 'medium', cell: (job) => <span className="hb-muted hb-small hb-nowrap">{job.timezone}</span> },
    { id: 'next', header: 'Next', sort: 'next_at', cell: (job) => <Next job={job} /> },
    { id: 'result', header: 'Last result', hide: 'narrow', cell: (job) => <LastResult job={job} /> },
    { id: 'recent', header: 'Last 20', hide: 'medium', cell: (job) => <Recent job={job} /> },
    { id: 'rate', header: 'Success', align: 'end', hide: 'wide', cell: (job) => <Rate job={job} /> },
    { id: 'p95', header: 'p95', align: 'end', hide: 'wide', cell: (job) => <P95 job={job} /> },
    ...(mayAct ? [{ id: 'actions', header: 'Actions', isHeaderHidden: true, align: 'end' as const, hide: 'narrow' as const, cell: (job: Job) => <RowActions job={job} actions={actions} /> }] : []),
  ]
  const togglePause = (job: Job) => actions.start(job.state === 'paused' ? 'resume' : 'pause', new Set([job.name]))
  const shownKeys = chosen === 'all' ? new Set(rows.map((job) => job.name)) : chosen

  return (
    <Screen
      title="Jobs"
      beside={jobs.data && <span className="hb-muted">{describeCount(rows.length, !!jobs.data.next_cursor, !cursor, isFiltered ? (jobs.data.total ?? undefined) : stats?.jobs)}</span>}
      actions={
        <LinkButton href="/jobs/new" look="primary" needs="editor">
          New job
        </LinkButton>
      }
    >
      <Filters filter={filter} onChange={change} tags={tags} search={search} />
      {jobs.error && <ErrorNotice error={jobs.error} what="The jobs could not be loaded" onRetry={() => void jobs.refetch()} />}
      {!jobs.data && !jobs.error && <Loading what="jobs" />}
      {jobs.data && rows.length > 0 && (
        <>
          <Table
            label="Jobs"
            rows={rows}
            rowKey={(job) => job.name}
            rowName={(job) => job.name}
            columns={columns}
            href={jobPath}
            resetKey={jobs.data.of}
            {...(sort ? { sort: { by: sort, onChange: (by: string) => change({ sort: by === 'name' ? null : by }) } } : {})}
            {...(mayAct
              ? {
                  selection: { keys: shownKeys, onChange: choose },
                  rowKeys: [
                    { keys: 'p', label: 'Pause or resume the row', run: togglePause },
                    { keys: 't', label: 'Run the row now', run: (job: Job) => actions.start('trigger', new Set([job.name])) },
                  ],
                }
              : {})}
          />
          <Pager
            shown={describeCount(rows.length, !!jobs.data.next_cursor, !cursor, undefined)}
            hasPrevious={!!cursor}
            nextCursor={jobs.data.next_cursor}
            onFirst={() => set({ cursor: null }, { push: true })}
            onNext={(next) => {
              set({ cursor: next }, { push: true })
              window.scrollTo(0, 0)
            }}
          />
        </>
      )}
      {jobs.data && !rows.length && (isFiltered ? <NoMatch onClear={() => change(Object.fromEntries(FILTERS.map((name) => [name, null])))} /> : <NoJobs />)}
      {mayAct && shownKeys.size > 0 && <SelectionBar chosen={chosen} hasMore={!!jobs.data?.next_cursor || !!cursor} isPageChosen={rows.length > 0 && rows.every((job) => shownKeys.has(job.name))} byName={byName} actions={actions} total={isFiltered ? jobs.data?.total : stats?.jobs} onChoose={choose} />}
      {actions.dialogs}
    </Screen>
  )
}

interface FiltersProps {
  filter: Filter
  onChange: (patch: Partial<Record<FilterName, string | null>>) => void
  tags: readonly string[]
  search: RefObject<HTMLInputElement | null>
}

function Filters({ filter, onChange, tags, search }: FiltersProps) {
  const [text, setText] = useSearchText(filter.q ?? '', (q) => onChange({ q }))
  const [tag, setTag] = useSearchText(filter.tag ?? '', (value) => onChange({ tag: value }))
  const select = <T extends string>(name: FilterName, label: string, options: readonly (readonly [T, string])[]) => (
    <Select aria-label={label} value={(filter[name] ?? '') as T} options={options} isSet={!!filter[name]} onChange={(value) => onChange({ [name]: value })} />
  )
  return (
    <div className="jobs-filters hb-toolbar" role="search">
      <input
        ref={search}
        type="search"
        className="hb-input jobs-search"
        aria-label="Search jobs by name"
        aria-keyshortcuts="/"
        placeholder="Search by name"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return
          event.preventDefault() // the browser would clear the search
          event.currentTarget.blur()
        }}
        autoCapitalize="off"
        spellCheck={false}
      />
      <div className="jobs-selects">
        {select('attention', 'Attention', ATTENTION_OPTIONS)}
        {select('state', 'State', STATE_OPTIONS)}
        {select('last_result', 'Last result', RESULT_OPTIONS)}
        {select('target', 'Target', TARGET_OPTIONS)}
        {select('managed_by', 'Owner', OWNER_OPTIONS)}
        <input className="hb-input jobs-tag" list="jobs-tags" aria-label="Tag" placeholder="Tag" value={tag} data-set={!!filter.tag || undefined} onChange={(event) => setTag(event.target.value)} autoCapitalize="off" spellCheck={false} />
        <datalist id="jobs-tags">
          {tags.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        {(['source', 'subject'] as const).map((name) =>
          filter[name] ? (
            <Chip key={name} onRemove={() => onChange({ [name]: null })}>
              {`${name}: ${filter[name]}`}
            </Chip>
          ) : null,
        )}
        {FILTERS.some((name) => filter[name]) && (
          <Button look="quiet" onClick={() => onChange(Object.fromEntries(FILTERS.map((name) => [name, null])))}>
            Clear
          </Button>
        )}
      </div>
    </div>
  )
}

/** The text of a field that is sent a moment after the last key; the address may change it, too. */
function useSearchText(value: string, send: (text: string) => void): [string, (text: string) => void] {
  const [text, setText] = useState(value)
  const sent = useRef(value)
  const latest = useRef(send)
  latest.current = send
  useEffect(() => {
    if (value === sent.current) return
    sent.current = value
    setText(value)
  }, [value])
  useEffect(() => {
    if (text.trim() === sent.current) return undefined
    const timer = setTimeout(() => {
      sent.current = text.trim()
      latest.current(sent.current)
    }, SEARCH_WAIT_MS)
    return () => clearTimeout(timer)
  }, [text])
  return [text, setText]
}

function RowActions({ job, actions }: { job: Job; actions: JobActions }) {
  const one = new Set([job.name])
  const isPaused = job.state === 'paused'
  return (
    <div className="jobs-actions">
      <Button size="small" onClick={() => actions.start(isPaused ? 'resume' : 'pause', one)} aria-label={`${isPaused ? 'Resume' : 'Pause'} ${job.name}`}>
        {isPaused ? 'Resume' : 'Pause'}
      </Button>
      <Button size="small" onClick={() => actions.start('trigger', one)} aria-label={`Run now: ${job.name}`}>
        Run now
      </Button>
    </div>
  )
}

interface BarProps {
  chosen: Chosen
  hasMore: boolean
  isPageChosen: boolean
  byName: ReadonlyMap<string, Job>
  actions: JobActions
  /** How many jobs match, if that is known. */
  total: number | null | undefined
  onChoose: (chosen: Chosen) => void
}

function SelectionBar({ chosen, hasMore, isPageChosen, byName, actions, total, onChoose }: BarProps) {
  const known = chosen === 'all' ? [] : [...chosen].flatMap((name) => byName.get(name) ?? [])
  const paused = known.filter((job) => job.state === 'paused').length
  const canPause = chosen === 'all' || known.length < chosen.size || paused < known.length
  const canResume = chosen === 'all' || known.length < chosen.size || paused > 0
  const button = (action: Parameters<JobActions['start']>[0], text: string, needs: 'operator' | 'editor' = 'operator') => (
    <Button needs={needs} disabled={actions.isBusy} onClick={() => actions.start(action, chosen)}>
      {text}
    </Button>
  )
  return (
    <div className="jobs-bar" role="region" aria-label="Actions on the selected jobs">
      <span className="jobs-bar-count">{chosen === 'all' ? (total ? `All ${count(total, 'job')} that match` : 'All jobs that match') : `${count(chosen.size, 'job')} selected`}</span>
      {chosen !== 'all' && hasMore && isPageChosen && (
        <Button look="quiet" className="jobs-bar-all" onClick={() => onChoose('all')}>
          {total ? `Select all ${formatNumber(total)} that match` : 'Select all that match'}
        </Button>
      )}
      <div className="hb-actions">
        {canPause && button('pause', 'Pause')}
        {canResume && button('resume', 'Resume')}
        {button('trigger', 'Run now')}
        {button('tag', 'Tag', 'editor')}
        {button('untag', 'Untag', 'editor')}
        {button('delete', 'Delete', 'editor')}
        <Button look="quiet" onClick={() => onChoose(new Set())}>
          Clear
        </Button>
      </div>
    </div>
  )
}

function NoMatch({ onClear }: { onClear: () => void }) {
  return (
    <div className="hb-card">
      <Empty title="No job matches">
        <p className="hb-muted">Change the search or a filter, or see all jobs.</p>
        <div>
          <Button onClick={onClear}>Clear search and filters</Button>
        </div>
      </Empty>
    </div>
  )
}

function NoJobs() {
  const toast = useToast()
  const isOpen = useSession().data?.kind === 'open'
  const [isBusy, setBusy] = useState(false)
  const demo = async () => {
    setBusy(true)
    try {
      await sendJson('POST', '/demo')
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
    setBusy(false)
  }
  return (
    <div className="hb-card">
      <Empty
        title="No jobs yet"
        examples={[
          {
            label: 'curl',
            code: `curl ${BASE}/api/v1/jobs${isOpen ? '' : ' -H "Authorization: Bearer $TOKEN"'} --json '{\n  "name": "report", "schedule": "0 9 * * 1-5",\n  "timezone": "Europe/Paris", "target": {"type": "http", "url": "https://example.com/report"}}'`,
          },
          {
            label: 'Python',
            code: `from hourbell import Scheduler\n\nscheduler = Scheduler("shop")\n\n@scheduler.job("0 9 * * 1-5", timezone="Europe/Paris")\nasync def weekly_report(run):\n    ...`,
          },
          {
            label: 'Command line',
            code: `hourbell job create report --schedule '0 9 * * 1-5' --timezone Europe/Paris \\\n  --url https://example.com/report`,
          },
        ]}
      >
        <p className="hb-muted">A job is a schedule and a target. Create one here, or in one of these ways:</p>
        <div className="hb-actions">
          <LinkButton href="/jobs/new" look="primary" needs="editor">
            New job
          </LinkButton>
          <LinkButton href="/import" needs="editor">
            Import a crontab
          </LinkButton>
          <Button needs="admin" isBusy={isBusy} onClick={() => void demo()}>
            Add three demo jobs for an hour
          </Button>
        </div>
      </Empty>
    </div>
  )
}
