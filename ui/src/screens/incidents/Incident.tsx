import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from 'wouter'
import { getJson } from '../../api/client'
import type { IncidentDetail } from '../../api/types'
import { useNow } from '../../app/now'
import { useShortcuts } from '../../app/shortcuts'
import { Chip } from '../../components/Chip'
import { CodeBlock } from '../../components/CodeBlock'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Loading } from '../../components/Loading'
import { Outcome } from '../../components/Outcome'
import { Card, Screen } from '../../components/Screen'
import { Table, type Column } from '../../components/Table'
import { RelativeTime, Time } from '../../components/Time'
import { errorLine } from '../../lib/errorLine'
import { formatDuration } from '../../lib/duration'
import { count, formatNumber } from '../../lib/outcome'
import { toMs } from '../../lib/time'
import { jobPath, runPath, withSearch } from '../../lib/url'
import { ActionButtons, useIncidentActions } from './actions'
import { State } from './index'
import { deliveryOf, eventText, hostOf, storyOf, titleOf, type Notification } from './words'
import './incidents.css'

export default function IncidentScreen() {
  const { incident: id = '' } = useParams()
  const found = useQuery({ queryKey: ['incident', id], queryFn: ({ signal }) => getJson<IncidentDetail>(`/incidents/${encodeURIComponent(id)}`, {}, signal) })
  const incident = found.data
  const actions = useIncidentActions()
  useShortcuts(
    incident && actions.mayAct && incident.state !== 'resolved'
      ? [
          incident.state === 'open' && { keys: 'a', label: 'Acknowledge the incident', run: () => actions.acknowledge(incident) },
          { keys: 'm', label: 'Mute the incident', run: () => actions.mute(incident) },
          { keys: 'r', label: 'Resolve the incident', run: () => actions.resolve(incident) },
        ]
      : [],
  )
  if (!incident) {
    return (
      <Screen title="Incident" path={[['Incidents', '/incidents']]}>
        {found.error ? <ErrorNotice error={found.error} what="The incident could not be loaded" onRetry={() => void found.refetch()} /> : <Loading what="the incident" />}
      </Screen>
    )
  }
  return (
    <Screen
      title={titleOf(incident)}
      path={[['Incidents', '/incidents']]}
      beside={
        <>
          <State incident={incident} />
          {incident.is_flapping && <Chip title="It recurs: messages are combined into one digest a day">flapping</Chip>}
        </>
      }
      actions={<ActionButtons incident={incident} actions={actions} size="normal" />}
      lead={incident.error ? <span className={incident.state === 'resolved' ? 'hb-muted' : 'incidents-why'}>{errorLine(incident.error)}</span> : undefined}
    >
      {found.error && <ErrorNotice error={found.error} what="The incident could not be refreshed" onRetry={() => void found.refetch()} />}
      <div className="hb-columns">
        <div className="hb-stack">
          <Card title="What happened">
            <Story incident={incident} />
          </Card>
          <Messages incident={incident} />
          {incident.error.trim() !== errorLine(incident.error) && (
            <Card title="The error">
              <CodeBlock code={incident.error} name="the error" />
            </Card>
          )}
        </div>
        <Card title="About">
          <About incident={incident} />
        </Card>
      </div>
      {actions.dialog}
    </Screen>
  )
}

function Story({ incident }: { incident: IncidentDetail }) {
  const now = useNow(15)
  return (
    <ol className="incidents-story">
      {storyOf(incident, now).map((line, index) => (
        <li key={index} data-tone={line.tone ?? 'muted'} data-planned={line.isPlanned || undefined}>
          <span className="incidents-story-at">
            <Time at={line.at} seconds shortToday offset />
          </span>
          <span>
            {line.text}
            {line.note && <span className="hb-muted"> · {line.note}</span>}
          </span>
        </li>
      ))}
    </ol>
  )
}

const COLUMNS: Column<Notification>[] = [
  { id: 'channel', header: 'Channel', cell: (each) => <Link href="/incidents?tab=channels">{each.channel}</Link> },
  { id: 'why', header: 'Message', cell: (each) => eventText(each.event) },
  { id: 'at', header: 'When', cell: (each) => <span className="hb-nowrap"><Time at={each.planned_at} seconds shortToday offset /></span> },
  {
    id: 'outcome',
    header: 'Outcome',
    cell: (each) => {
      const { fate, text } = deliveryOf(each)
      const outcome = <Outcome fate={fate} text={text} />
      return (
        <div className="incidents-delivery">
          {each.state ? <Link href={runPath(each.run_id)} aria-label={`${text}: the run of the message to ${each.channel}`}>{outcome}</Link> : outcome}
          <span className="hb-muted hb-small">
            {[each.finished_at && `after ${formatDuration(Math.max(0, toMs(each.finished_at) - toMs(each.planned_at)))}`, (each.attempt ?? 0) > 1 && count(each.attempt ?? 0, 'attempt')].filter(Boolean).join(' · ')}
          </span>
          {each.error && <span className="incidents-error">{errorLine(each.error)}</span>}
        </div>
      )
    },
  },
]

function Messages({ incident }: { incident: IncidentDetail }) {
  const all = [...(incident.notifications ?? [])].sort((one, other) => toMs(other.planned_at) - toMs(one.planned_at))
  return (
    <Card title="Notifications">
      {all.length ? (
        <div className="incidents-list">
          <Table label="Notifications" rows={all} rowKey={(each) => each.run_id} columns={COLUMNS} />
        </div>
      ) : (
        <p className="hb-muted">
          None yet. {incident.next_at && incident.state === 'open' ? <>The next step is due <RelativeTime at={incident.next_at} />. </> : ''}
          <Link href="/incidents?tab=channels">Channels</Link> and the policy <Link href="/incidents?tab=policies">{incident.policy}</Link> decide who is notified.
        </p>
      )}
    </Card>
  )
}

function About({ incident }: { incident: IncidentDetail }) {
  const jobs = incident.jobs?.length ? incident.jobs : incident.job_name ? [incident.job_name] : []
  const until = incident.resolved_at ? toMs(incident.resolved_at) : undefined
  const now = useNow(15)
  return (
    <dl className="incidents-about">
      {jobs.length > 0 && (
        <div>
          <dt>{incident.group_size > 1 ? `${formatNumber(incident.group_size)} jobs` : 'Job'}</dt>
          <dd>
            <ul>
              {jobs.map((name) => (
                <li key={name}>
                  <Link href={jobPath(name)}>{name}</Link>
                </li>
              ))}
              {incident.group_size > jobs.length && <li className="hb-muted">and {formatNumber(incident.group_size - jobs.length)} more</li>}
            </ul>
          </dd>
        </div>
      )}
      {incident.run_id && (
        <div>
          <dt>Last seen in</dt>
          <dd>
            <Link href={runPath(incident.run_id)}>the run</Link> <span className="hb-muted"><RelativeTime at={incident.last_at} /></span>
          </dd>
        </div>
      )}
      <div>
        <dt>{until === undefined ? 'Lasts' : 'Lasted'}</dt>
        <dd>{formatDuration(Math.max(0, (until ?? now) - toMs(incident.opened_at)))}</dd>
      </div>
      <div>
        <dt>Happened</dt>
        <dd>{count(incident.count, 'time')}</dd>
      </div>
      {incident.lane && (
        <div>
          <dt>{incident.kind === 'unserved' ? 'Lane' : 'Host'}</dt>
          <dd title={incident.lane}>{hostOf(incident.lane)}</dd>
        </div>
      )}
      <div>
        <dt>Policy</dt>
        <dd>
          <Link href="/incidents?tab=policies">{incident.policy}</Link>
        </dd>
      </div>
      {incident.next_at && incident.state !== 'resolved' && (
        <div>
          <dt>Next step</dt>
          <dd>
            <RelativeTime at={incident.next_at} />
          </dd>
        </div>
      )}
      {incident.job_name && (
        <div>
          <dt>Before</dt>
          <dd>
            <Link href={withSearch('/incidents', { state: 'resolved', job: incident.job_name })}>resolved incidents of {incident.job_name}</Link>
          </dd>
        </div>
      )}
    </dl>
  )
}
