import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { BASE, getJson } from '../../api/client'
import type { Channel, Incident, IncidentDetail, List } from '../../api/types'
import { useNow } from '../../app/now'
import { useUrlState } from '../../app/urlState'
import { Chip } from '../../components/Chip'
import { Empty } from '../../components/Empty'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Loading } from '../../components/Loading'
import { Outcome } from '../../components/Outcome'
import { Pager } from '../../components/Pager'
import { Screen } from '../../components/Screen'
import { Table, type Column } from '../../components/Table'
import { Tabs } from '../../components/Tabs'
import { RelativeTime, Time } from '../../components/Time'
import { errorLine } from '../../lib/errorLine'
import { count, formatNumber, TONES } from '../../lib/outcome'
import { jobPath, oneOf, runPath } from '../../lib/url'
import { ActionButtons, useIncidentActions, type IncidentActions } from './actions'
import { Channels, NewChannelButton } from './Channels'
import { NewPolicyButton, Policies } from './Policies'
import { hostOf, isMuted, listed, openFirst, STATE_FATES, stateText, titleOf } from './words'
import './incidents.css'

const TABS = [
  ['incidents', 'Incidents'],
  ['channels', 'Channels'],
  ['policies', 'Policies'],
] as const
const VIEWS = [
  ['open', 'Not resolved'],
  ['resolved', 'Resolved'],
] as const
const STATES = { open: ['open', 'acknowledged'], resolved: ['resolved'] }
const PAGE = 50
const REFRESH_MS = 15_000 // a further failure is no event of the stream
const MOST_TOLD = 12

export function incidentPath(id: string): string {
  return `/incidents/${id}`
}

export default function Incidents() {
  const [query, set] = useUrlState()
  const tab = oneOf(query.get('tab'), ['incidents', 'channels', 'policies'])
  return (
    <Screen
      title="Incidents"
      beside={<Tabs label="Part" tabs={TABS} value={tab} onChange={(next) => set({ tab: next === 'incidents' ? null : next, state: null, job: null, cursor: null }, { push: true })} />}
      actions={tab === 'channels' ? <NewChannelButton /> : tab === 'policies' ? <NewPolicyButton /> : undefined}
    >
      {tab === 'incidents' ? <IncidentTable /> : tab === 'channels' ? <Channels /> : <Policies />}
    </Screen>
  )
}

function IncidentTable() {
  const [query, set] = useUrlState()
  const view = oneOf(query.get('state'), ['open', 'resolved'])
  const job = query.get('job')
  const cursor = query.get('cursor')
  const incidents = useQuery({
    queryKey: ['incidents', 'list', view, job, cursor],
    queryFn: async ({ signal }) => ({ ...(await getJson<List<Incident>>('/incidents', { state: STATES[view], job, cursor, limit: PAGE }, signal)), of: `${view} ${job} ${cursor}` }),
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  })
  const actions = useIncidentActions()
  const rows = openFirst(incidents.data?.items ?? [])
  return (
    <>
      <div className="hb-toolbar incidents-filters" role="search">
        <Tabs label="Which incidents" tabs={VIEWS} value={view} onChange={(next) => set({ state: next === 'open' ? null : next, cursor: null })} />
        {job && <Chip onRemove={() => set({ job: null, cursor: null })}>{job}</Chip>}
      </div>
      {incidents.error && <ErrorNotice error={incidents.error} what="The incidents could not be loaded" onRetry={() => void incidents.refetch()} />}
      {!incidents.data && !incidents.error && <Loading what="incidents" />}
      {rows.length > 0 && (
        <div className="incidents-list">
          <Table
            label="Incidents"
            rows={rows}
            rowKey={(incident) => incident.id}
            columns={columnsFor(actions, view, rows.length <= MOST_TOLD)}
            href={(incident) => incidentPath(incident.id)}
            resetKey={incidents.data?.of ?? ''}
            rowKeys={
              actions.mayAct
                ? [
                    { keys: 'a', label: 'Acknowledge the incident', run: actions.acknowledge },
                    { keys: 'm', label: 'Mute the incident', run: actions.mute },
                    { keys: 'r', label: 'Resolve the incident', run: actions.resolve },
                  ]
                : []
            }
          />
        </div>
      )}
      {(cursor || incidents.data?.next_cursor) && (
        <Pager shown={count(rows.length, 'incident')} hasPrevious={!!cursor} nextCursor={incidents.data?.next_cursor} onFirst={() => set({ cursor: null }, { push: true })} onNext={(next) => set({ cursor: next }, { push: true })} />
      )}
      {incidents.data && !rows.length && <NoIncidents view={view} job={job} />}
      {actions.dialog}
    </>
  )
}

function columnsFor(actions: IncidentActions, view: 'open' | 'resolved', withNames: boolean): Column<Incident>[] {
  const isResolved = view === 'resolved'
  return [
    {
      id: 'what',
      header: 'Incident',
      cell: (incident) => (
        <div className="incidents-what">
          <Link href={incidentPath(incident.id)} className="incidents-title">
            {titleOf(incident)}
          </Link>
          {incident.error && (
            <div className="incidents-error" data-over={incident.state === 'resolved' || undefined} title={incident.error}>
              {errorLine(incident.error)}
            </div>
          )}
          <Facts incident={incident} />
        </div>
      ),
    },
    { id: 'state', header: 'State', cell: (incident) => <State incident={incident} /> },
    {
      id: 'since',
      header: isResolved ? 'Resolved' : 'Since',
      cell: (incident) => (
        <div className="incidents-since">
          <RelativeTime at={isResolved ? incident.resolved_at : incident.opened_at} />
          <span className="hb-muted hb-small">
            <Time at={isResolved ? incident.resolved_at : incident.opened_at} shortToday offset />
          </span>
        </div>
      ),
    },
    { id: 'times', header: 'Times', align: 'end', hide: 'narrow', cell: (incident) => formatNumber(incident.count) },
    { id: 'told', header: withNames ? 'Notified' : 'Last message', cell: (incident) => (withNames ? <Notified incident={incident} /> : <RelativeTime at={incident.notified_at} />) },
    ...(isResolved || !actions.mayAct ? [] : [{ id: 'actions', header: 'Actions', isHeaderHidden: true, align: 'end', cell: (incident: Incident) => <ActionButtons incident={incident} actions={actions} /> } satisfies Column<Incident>]),
  ]
}

/** Links to job and run, the host, and whether it recurs. */
function Facts({ incident }: { incident: Incident }) {
  return (
    <div className="incidents-facts hb-muted hb-small">
      {incident.job_name && (
        <Link href={jobPath({ name: incident.job_name, ...(incident.job_id ? { id: incident.job_id } : {}) })} aria-label={`Job ${incident.job_name}`}>
          job
        </Link>
      )}
      {incident.run_id && (
        <Link href={runPath(incident.run_id)} aria-label={`Last run of ${incident.job_name ?? titleOf(incident)}`}>
          last run
        </Link>
      )}
      {incident.lane && incident.kind !== 'unserved' && <span>{hostOf(incident.lane)}</span>}
      {incident.is_flapping && <Chip title="It recurred within a day">flapping</Chip>}
    </div>
  )
}

/** Who got messages. The list does not say it, so each incident of a short list is asked. */
function Notified({ incident }: { incident: Incident }) {
  const found = useQuery({ queryKey: ['incidents', 'notified', incident.id], queryFn: ({ signal }) => getJson<IncidentDetail>(`/incidents/${incident.id}`, {}, signal), refetchInterval: REFRESH_MS })
  if (!found.data) return null
  const messages = found.data.notifications ?? []
  if (!messages.length) return <span className="hb-muted"><span className="incidents-label">notified: </span>{incident.state === 'resolved' ? 'nobody' : 'nobody yet'}</span>
  const isBad = messages.some(({ state }) => state === 'failed' || state === 'retrying')
  return (
    <div className="incidents-notified">
      <span><span className="incidents-label hb-muted">notified: </span>{listed(messages.map(({ channel }) => channel))}</span>{isBad && ' '}
      {isBad && <Outcome fate="failed" text="not all delivered" />}
    </div>
  )
}

export function State({ incident }: { incident: Incident }) {
  const now = useNow(30)
  const fate = STATE_FATES[incident.state] ?? 'failed'
  return (
    <div className="incidents-state" data-tone={TONES[fate]}>
      <Outcome fate={fate} text={stateText(incident)} />
      {isMuted(incident, now) && (
        <span className="hb-muted hb-small">
          muted until <Time at={incident.muted_until} shortToday offset />
        </span>
      )}
    </div>
  )
}

function NoIncidents({ view, job }: { view: 'open' | 'resolved'; job: string | null }) {
  const channels = useQuery({ queryKey: ['channels'], queryFn: ({ signal }) => getJson<{ items: Channel[] }>('/channels', {}, signal) })
  if (view === 'resolved') return <p className="hb-muted">{job ? `No incident of ${job} has been resolved.` : 'No incident has been resolved yet.'}</p>
  if (!channels.data) return null
  if (channels.data.items.length) {
    return (
      <p className="incidents-calm">
        <Outcome fate="succeeded" text={job ? `No incident of ${job}.` : 'No incidents.'} />{' '}
        <span className="hb-muted">
          {count(channels.data.items.length, 'channel')} will be notified: <Link href="/incidents?tab=channels">{channels.data.items.map(({ name }) => name).join(', ')}</Link>
        </span>
      </p>
    )
  }
  return (
    <Empty title="No incidents, but nobody would be notified" examples={CHANNEL_EXAMPLES}>
      <p>Every job is watched: if one fails, misses its times or waits too long, an incident opens here. Create a channel to notify somebody.</p>
      <div>
        <NewChannelButton />
      </div>
    </Empty>
  )
}

const CHANNEL_EXAMPLES = [
  { label: 'Shell', code: 'hourbell channel create ops --type webhook --url https://example.com/alerts\nhourbell channel test ops' },
  {
    label: 'curl',
    code: `curl -X PUT ${BASE}/api/v1/channels/ops \\
  -H 'Content-Type: application/json' \\
  -d '{"type": "webhook", "url": "https://example.com/alerts"}'`,
  },
]
