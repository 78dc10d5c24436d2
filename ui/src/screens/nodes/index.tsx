import { useQuery } from '@tanstack/react-query'
import { getJson } from '../../api/client'
import { useStats } from '../../api/queries'
import type { List, Node, Outage } from '../../api/types'
import { Chip } from '../../components/Chip'
import { Empty } from '../../components/Empty'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Loading } from '../../components/Loading'
import { Outcome } from '../../components/Outcome'
import { Card, Screen } from '../../components/Screen'
import { Table, type Column } from '../../components/Table'
import { RelativeTime, Time } from '../../components/Time'
import { formatDuration } from '../../lib/duration'
import { count } from '../../lib/outcome'
import { toMs } from '../../lib/time'
import './nodes.css'

const SHOWN_LANES = 6
const REFRESH_MS = 5_000 // a heartbeat is no event of the stream

export default function Nodes() {
  const nodes = useQuery({ queryKey: ['nodes'], queryFn: ({ signal }) => getJson<List<Node>>('/nodes', {}, signal), refetchInterval: REFRESH_MS })
  const stats = useStats().data
  const rows = nodes.data?.items ?? []
  const live = rows.filter((node) => !node.stale).length
  const versions = [...new Set(rows.filter((node) => !node.stale && node.tzdata).map((node) => node.tzdata))]
  return (
    <Screen
      title="Nodes"
      beside={nodes.data && <span className="hb-muted">{live === rows.length ? count(live, 'node') : `${live} live, ${rows.length - live} dead`}</span>}
      lead={stats && <>{stats.running ? `${count(stats.running, 'run')} in progress` : 'No run is in progress'}, {count(stats.waiting, 'run')} waiting{stats.lag_ms === undefined ? '' : `. Scheduler lag ${formatDuration(stats.lag_ms)}`}.</>}
    >
      {nodes.error && <ErrorNotice error={nodes.error} what="The nodes could not be loaded" onRetry={() => void nodes.refetch()} />}
      {!nodes.data && !nodes.error && <Loading what="nodes" />}
      {versions.length > 1 && (
        <p className="nodes-warning" role="status">
          The nodes use different time zone data ({versions.join(', ')}). Install the same version of tzdata on each, so that all plan the same times.
        </p>
      )}
      {rows.length > 0 && <Table label="Nodes" rows={rows} rowKey={(node) => node.id} columns={COLUMNS} />}
      {nodes.data && !rows.length && (
        <Empty title="No node is running" examples={[{ label: 'Start a node', code: 'hourbell serve' }]}>
          <p>Jobs are planned and run while at least one node runs. This server answers requests only.</p>
        </Empty>
      )}
      <Outages />
    </Screen>
  )
}

const COLUMNS: Column<Node>[] = [
  {
    id: 'host',
    header: 'Host',
    cell: (node) => (
      <div className="nodes-host">
        <strong>{node.host}</strong>
        <code className="hb-muted hb-small" title={node.id}>
          {node.id.slice(-12)}
        </code>
      </div>
    ),
  },
  { id: 'state', header: 'State', cell: (node) => <Outcome fate={node.stale ? 'failed' : 'succeeded'} text={node.stale ? 'dead' : 'live'} title={node.stale ? 'It sent no heartbeat within its lease' : undefined} /> },
  { id: 'beat', header: 'Last heartbeat', cell: (node) => <span className="hb-nowrap"><RelativeTime at={node.beat_at} /></span> },
  { id: 'running', header: 'Running', align: 'end', hide: 'narrow', cell: (node) => node.running },
  { id: 'lanes', header: 'Serves', hide: 'narrow', cell: (node) => <Lanes lanes={node.lanes} /> },
  { id: 'started', header: 'Started', hide: 'medium', cell: (node) => <span className="hb-nowrap"><Time at={node.started_at} /></span> },
  { id: 'tzdata', header: 'Time zone data', hide: 'wide', cell: (node) => <span className="hb-muted">{node.tzdata || '—'}</span> },
]

function Lanes({ lanes }: { lanes: readonly string[] }) {
  if (!lanes.length) return <span className="hb-muted">nothing</span>
  return (
    <span className="nodes-lanes">
      {lanes.slice(0, SHOWN_LANES).map((lane) => (
        <Chip key={lane}>{lane}</Chip>
      ))}
      {lanes.length > SHOWN_LANES && (
        <span className="hb-muted hb-small" title={lanes.slice(SHOWN_LANES).join('\n')}>
          and {lanes.length - SHOWN_LANES} more
        </span>
      )}
    </span>
  )
}

const OF: Record<string, string> = { nodes: 'all nodes', database: 'the database' }

/** Times in which nothing could run. */
function Outages() {
  const outages = useQuery({ queryKey: ['nodes', 'outages'], queryFn: ({ signal }) => getJson<List<Outage>>('/outages', { limit: 20 }, signal) })
  const rows = outages.data?.items ?? []
  const columns: Column<Outage>[] = [
    { id: 'from', header: 'From', cell: (outage) => <span className="hb-nowrap"><Time at={outage.from} /></span> },
    { id: 'until', header: 'Until', hide: 'narrow', cell: (outage) => <span className="hb-nowrap">{outage.until ? <Time at={outage.until} /> : 'now'}</span> },
    { id: 'length', header: 'Length', align: 'end', cell: (outage) => (outage.until ? formatDuration(toMs(outage.until) - toMs(outage.from)) : 'since then') },
    { id: 'of', header: 'Down', cell: (outage) => OF[outage.of] ?? outage.of },
  ]
  return (
    <Card title="Outages">
      {outages.error ? (
        <ErrorNotice error={outages.error} what="The outages could not be loaded" onRetry={() => void outages.refetch()} />
      ) : rows.length ? (
        <Table label="Outages" rows={rows} rowKey={(outage) => `${outage.of} ${outage.from}`} columns={columns} />
      ) : (
        <p className="hb-muted">{outages.data ? 'None recorded. Times in which all nodes or the database were down are listed here.' : 'Loading…'}</p>
      )}
    </Card>
  )
}
