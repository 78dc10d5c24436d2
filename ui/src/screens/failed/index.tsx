import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import { getJson, sendJson } from '../../api/client'
import { useStats } from '../../api/queries'
import type { FailureGroup, List } from '../../api/types'
import { useUrlState } from '../../app/urlState'
import { Button, LinkButton } from '../../components/Button'
import { Chip } from '../../components/Chip'
import { useConfirm } from '../../components/ConfirmDialog'
import { Dialog } from '../../components/Dialog'
import { Empty } from '../../components/Empty'
import { ErrorNotice, errorText } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { Loading } from '../../components/Loading'
import { Outcome } from '../../components/Outcome'
import { Screen } from '../../components/Screen'
import { Time } from '../../components/Time'
import { useToast } from '../../components/Toast'
import { count, REASON_WORDS } from '../../lib/outcome'
import { jobPath, runPath, withSearch } from '../../lib/url'
import './failed.css'

const SHOWN_JOBS = 5
const DEFAULT_PER_MINUTE = 60

interface Groups extends List<FailureGroup> {
  is_sampled?: boolean
}

interface BulkAnswer {
  matched: number
  has_more: boolean
  done: { run_id: string; new_run_id: string | null }[]
  refused: { run_id: string; message: string }[]
}

/** Failed runs that nobody replayed or discarded, grouped by error and receiver. */
export default function Failed() {
  const [query, set] = useUrlState()
  const job = query.get('job')
  const stats = useStats().data
  const groups = useQuery({ queryKey: ['runs', 'groups', job], queryFn: ({ signal }) => getJson<Groups>('/runs/groups', { job, limit: 100 }, signal) })
  const [replayed, setReplayed] = useState<FailureGroup | null>(null)
  const rows = groups.data?.items ?? []
  const act = useGroupActions(job)
  return (
    <Screen
      title="Failed runs"
      path={[['Runs', '/runs']]}
      beside={stats && <span className="hb-muted">{count(stats.dead_letters, 'run')}</span>}
      lead="Failed runs that nobody has replayed or discarded, grouped by error and receiver."
      actions={job && <Chip onRemove={() => set({ job: null })}>{`only ${job}`}</Chip>}
    >
      {groups.error && <ErrorNotice error={groups.error} what="The failed runs could not be loaded" onRetry={() => void groups.refetch()} />}
      {!groups.data && !groups.error && <Loading what="failed runs" />}
      {groups.data?.is_sampled && <p className="hb-muted">There are more failed runs than are read at once; these groups are of the newest ones.</p>}
      {rows.length > 0 && (
        <ul className="failed-groups">
          {rows.map((group) => (
            <Group key={`${group.fingerprint} ${group.lane}`} group={group} onReplay={() => setReplayed(group)} onDiscard={() => void act.discard(group)} />
          ))}
        </ul>
      )}
      {groups.data && !rows.length && (
        <Empty title="No failed runs">
          <p>A run that fails for good, after its retries, waits here until somebody replays or discards it.</p>
        </Empty>
      )}
      {replayed && (
        <ReplayDialog
          group={replayed}
          onClose={() => setReplayed(null)}
          onReplay={(perMinute) => {
            setReplayed(null)
            void act.replay(replayed, perMinute)
          }}
        />
      )}
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

function useGroupActions(job: string | null) {
  const client = useQueryClient()
  const confirm = useConfirm()
  const toast = useToast()
  const act = async (verb: 'replay' | 'discard', group: FailureGroup, more: Record<string, unknown> = {}) => {
    try {
      const answer = await sendJson<BulkAnswer>('POST', `/runs/${verb}`, { state: 'failed', fingerprint: group.fingerprint, ...(job ? { job } : {}), ...more })
      const rest = answer.has_more ? '; more remain, repeat it' : ''
      const refused = answer.refused.length ? `, ${answer.refused.length} refused: ${answer.refused[0]?.message}` : ''
      toast({ text: `${count(answer.done.length, 'run')} ${verb === 'replay' ? 'replayed' : 'discarded'}${refused}${rest}`, ...(answer.refused.length ? { tone: 'bad' as const } : {}) })
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
    for (const topic of ['runs', 'stats', 'jobs', 'timeline']) void client.invalidateQueries({ queryKey: [topic] })
  }
  return {
    replay: (group: FailureGroup, perMinute: number) => act('replay', group, { per_minute: perMinute }),
    discard: async (group: FailureGroup) => {
      const what = count(group.count, 'failed run')
      const isSure = await confirm({ title: `Discard ${what}?`, body: <p>They leave this list and count as dealt with. Their history stays until retention removes it.</p>, action: `Discard ${what}`, isDanger: true })
      if (isSure) await act('discard', group)
    },
  }
}

function ReplayDialog({ group, onClose, onReplay }: { group: FailureGroup; onClose: () => void; onReplay: (perMinute: number) => void }) {
  const [rate, setRate] = useState(String(DEFAULT_PER_MINUTE))
  const perMinute = Number(rate)
  const isValid = Number.isInteger(perMinute) && perMinute >= 1 && perMinute <= 60_000
  const what = count(group.count, 'run')
  const minutes = isValid ? Math.ceil(group.count / perMinute) : 0
  return (
    <Dialog
      title={`Replay ${what}?`}
      onClose={onClose}
      onSubmit={() => isValid && onReplay(perMinute)}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!isValid}>
            Replay {what}
          </Button>
        </>
      }
    >
      <p>Each becomes a new run with the payload of the failed one and the present target of its job, at {group.lane}.</p>
      <Field label="Runs a minute" error={isValid ? undefined : 'Write a whole number from 1 to 60,000.'} hint={`The last one is ready after about ${count(minutes, 'minute')}.`}>
        <input type="number" min={1} max={60000} value={rate} onChange={(event) => setRate(event.target.value)} />
      </Field>
    </Dialog>
  )
}
