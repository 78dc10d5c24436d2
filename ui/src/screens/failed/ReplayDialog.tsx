/** Which errors to replay, and how fast: on this screen, and on home. */
import { useState } from 'react'
import type { FailureGroup } from '../../api/types'
import { Button } from '../../components/Button'
import { Dialog } from '../../components/Dialog'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { Loading } from '../../components/Loading'
import { count } from '../../lib/outcome'
import { useFailureGroups, useGroupActions } from './groups'
import { sum } from './rates'
import './failed.css'

const DEFAULT_PER_MINUTE = 60
const MAX_PER_MINUTE = 60_000

/** Ask which errors to replay, and how fast. `only` is a group that was chosen already. */
export default function ReplayDialog({ job, only, onClose }: { job: string | null; only?: FailureGroup; onClose: () => void }) {
  const groups = useFailureGroups(job)
  const { replay } = useGroupActions(job)
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set())
  const [rate, setRate] = useState(String(DEFAULT_PER_MINUTE))
  const perMinute = Number(rate)
  const isValid = Number.isInteger(perMinute) && perMinute >= 1 && perMinute <= MAX_PER_MINUTE
  const rows = only ? [only] : (groups.data?.items ?? [])
  const chosen = rows.filter(({ fingerprint }) => !left.has(fingerprint))
  const number = sum(chosen.map((group) => group.count))
  const what = count(number, 'run')
  const toggle = (fingerprint: string) => {
    const next = new Set(left)
    if (!next.delete(fingerprint)) next.add(fingerprint)
    setLeft(next)
  }
  const submit = () => {
    if (!isValid || !number) return
    onClose()
    void replay(chosen, perMinute)
  }
  return (
    <Dialog
      title={only || !rows.length ? 'Replay failed runs' : `Replay failed runs${job ? ` of ${job}` : ''}, by error`}
      onClose={onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!isValid || !number}>
            Replay {what}
          </Button>
        </>
      }
    >
      {groups.error && !only && <ErrorNotice error={groups.error} what="The failed runs could not be loaded" onRetry={() => void groups.refetch()} />}
      {!groups.data && !groups.error && !only && <Loading what="failed runs" />}
      {groups.data && !rows.length && <p>No failed runs are left: all were replayed or discarded.</p>}
      {rows.length > 0 && (
        <fieldset className="failed-choices">
          <legend className="hb-hidden">Errors</legend>
          {rows.map((group) => (
            <label key={group.fingerprint}>
              {rows.length > 1 && <input type="checkbox" checked={!left.has(group.fingerprint)} onChange={() => toggle(group.fingerprint)} />}
              <span>
                <span className="failed-choice-error">{group.error || 'no error text'}</span>
                <span className="hb-muted hb-small">
                  {count(group.count, 'run')} · {group.job_count === 1 ? group.jobs[0] : count(group.job_count, 'job')} · {group.lane}
                </span>
              </span>
            </label>
          ))}
        </fieldset>
      )}
      <Field label="Runs a minute" error={isValid ? undefined : 'Write a whole number from 1 to 60,000.'} hint={number ? `The last one is ready after about ${count(Math.ceil(number / perMinute), 'minute')}.` : undefined}>
        <input type="number" min={1} max={MAX_PER_MINUTE} value={rate} onChange={(event) => setRate(event.target.value)} autoFocus />
      </Field>
      <p className="hb-muted">Each is repeated as a new run, with the payload of the failed run and the current target of its job. The failed runs stay in the history.</p>
    </Dialog>
  )
}
