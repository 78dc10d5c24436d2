import { useState } from 'react'
import { Link } from 'wouter'
import { useStats } from '../../api/queries'
import type { FailureGroup } from '../../api/types'
import { useUrlState } from '../../app/urlState'
import { Button, LinkButton } from '../../components/Button'
import { Chip } from '../../components/Chip'
import { Empty } from '../../components/Empty'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Loading } from '../../components/Loading'
import { Outcome } from '../../components/Outcome'
import { Screen } from '../../components/Screen'
import { Time } from '../../components/Time'
import { count, REASON_WORDS } from '../../lib/outcome'
import { jobPath, runPath, withSearch } from '../../lib/url'
import { useFailureGroups, useGroupActions } from './groups'
import ReplayDialog from './ReplayDialog'
import './failed.css'

const SHOWN_JOBS = 5

/** Failed runs that nobody replayed or discarded, grouped by error and receiver. */
export default function Failed() {
  const [query, set] = useUrlState()
  const job = query.get('job')
  const stats = useStats().data
  const groups = useFailureGroups(job)
  const [replayed, setReplayed] = useState<FailureGroup | 'all' | null>(null)
  const rows = groups.data?.items ?? []
  const act = useGroupActions(job)
  return (
    <Screen
      title="Failed runs"
      path={[['Runs', '/runs']]}
      beside={stats && <span className="hb-muted">{count(stats.dead_letters, 'run')}</span>}
      lead="Failed runs that nobody has replayed or discarded, grouped by error and receiver."
      actions={
        <>
          {job && <Chip onRemove={() => set({ job: null })}>{`only ${job}`}</Chip>}
          {rows.length > 1 && (
            <Button needs="operator" onClick={() => setReplayed('all')}>
              Replay by error…
            </Button>
          )}
        </>
      }
    >
      {groups.error && <ErrorNotice error={groups.error} what="The failed runs could not be loaded" onRetry={() => void groups.refetch()} />}
      {!groups.data && !groups.error && <Loading what="failed runs" />}
      {groups.data?.is_sampled && <p className="hb-muted">There are more failed runs than one page can group; these are the newest.</p>}
      {rows.length > 0 && (
        <ul className="failed-groups">
          {rows.map((group) => (
            <Group key={`${group.fingerprint} ${group.lane}`} group={group} onReplay={() => setReplayed(group)} onDiscard={() => void act.discard(group)} />
          ))}
        </ul>
      )}
      {groups.data && !rows.length && (
        <Empty title="No failed runs">
          <p>A run that has failed after its last retry stays here until somebody replays or discards it.</p>
        </Empty>
      )}
      {replayed && <ReplayDialog job={job} {...(replayed === 'all' ? {} : { only: replayed })} onClose={() => setReplayed(null)} />}
    </Screen>
  )
}

function Group({ group, onReplay, onDiscard }: { group: FailureGroup; onReplay: () => void; onDiscard: () => void }) {
  const what = count(group.count, 'run')
  return (
    <li className="hb-card failed-group">
      <div className="failed-head">
        <Outcome fate="failed" text={what} />
        <span className="hb-muted">
          {group.lane} · {REASON_WORDS[group.reason] ?? group.reason}
        </span>
      </div>
      <pre className="failed-error" tabIndex={0} aria-label="Error">
        {group.error || 'no error text'}
      </pre>
      <p className="failed-jobs">
        {group.jobs.slice(0, SHOWN_JOBS).map((name) => (
          <Chip key={name} href={jobPath(name)}>
            {name}
          </Chip>
        ))}
        {group.job_count > Math.min(SHOWN_JOBS, group.jobs.length) && <span className="hb-muted">and {group.job_count - Math.min(SHOWN_JOBS, group.jobs.length)} more jobs</span>}
      </p>
      <div className="failed-foot">
        <span className="hb-muted hb-small">
          first <Time at={group.first_at} /> · last <Time at={group.last_at} /> · <Link href={runPath(group.sample_run_id)}>an example</Link>
        </span>
        <span className="hb-actions">
          {group.job_count === 1 && group.jobs[0] && (
            <LinkButton size="small" href={withSearch('/runs', { state: 'failed', job: group.jobs[0] })}>
              List
            </LinkButton>
          )}
          <Button size="small" needs="operator" onClick={onDiscard}>
            Discard {group.count}
          </Button>
          <Button size="small" look="primary" needs="operator" onClick={onReplay}>
            Replay {group.count}
          </Button>
        </span>
      </div>
    </li>
  )
}
