/** What saving would do: the fields that change, the next times before and after, warnings. */
import type { Intention, Occurrence, Preview } from '../../api/types'
import { useZone } from '../../app/zone'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Card } from '../../components/Screen'
import { Time } from '../../components/Time'
import { count } from '../../lib/outcome'
import { isZone } from '../../lib/time'
import { compareTimes } from './times'

interface Props {
  isNew: boolean
  zone: string
  storedZone: string
  fields: readonly string[]
  plan: Intention | undefined
  /** Shown while the job is not complete enough for a plan. */
  preview: Preview | undefined
  error: unknown
  missing: readonly string[]
  isPaused: boolean
  isStale: boolean
}

export function PlanCard({ isNew, zone, storedZone, fields, plan, preview, error, missing, isPaused, isStale }: Props) {
  const shown = useZone(zone)
  const after: readonly Occurrence[] = plan?.after ?? preview?.upcoming ?? []
  const before = plan && !isNew ? plan.before : []
  const times = isNew || !plan ? after.map((occurrence) => ({ at: occurrence.at, mark: 'later' as const, occurrence })) : compareTimes(before, after)
  const warnings = plan?.warnings ?? preview?.warnings ?? []
  const added = times.filter(({ mark }) => mark === 'added').length
  const removed = times.filter(({ mark }) => mark === 'removed').length
  return (
    <Card title="Change plan" className="edit-plan">
      <div className="edit-plan-body" aria-busy={isStale || undefined}>
        <dl className="edit-facts">
          <dt>Action</dt>
          <dd>{isNew ? 'create the job' : fields.length ? `change ${count(fields.length, 'field')}` : 'nothing changes'}</dd>
          {!isNew && fields.length > 0 && (
            <>
              <dt>Fields</dt>
              <dd className="edit-fields">
                {fields.map((field) => (
                  <code key={field}>{field}</code>
                ))}
              </dd>
            </>
          )}
          <dt>Fires now</dt>
          <dd>{plan?.fires_now ? 'yes' : 'no'}</dd>
          {!isNew && plan && (
            <>
              <dt>Next times</dt>
              <dd>{added || removed ? [added && `${added} new`, removed && `${removed} no longer`].filter(Boolean).join(', ') : 'unchanged'}</dd>
            </>
          )}
        </dl>
        {missing.length > 0 && <p className="hb-field-hint">Still needed: {missing.join(', ')}. The times below follow from the schedule alone.</p>}
        {Boolean(error) && <ErrorNotice error={error} what="Cannot be saved yet" />}
        {warnings.map((warning, index) => (
          <div key={index} className="edit-warning" data-tone="late">
            <strong>Note</strong> {warning.message}
            {warning.at.length > 0 && (
              <span className="edit-warning-times">
                {warning.at.slice(0, 4).map((at) => (
                  <Time key={at} at={at} zone={zone} offset seconds={warning.at.some(hasSeconds)} />
                ))}
              </span>
            )}
          </div>
        ))}
        <div className="edit-times-head">
          <h3>{isNew || !plan ? 'Next times' : 'Next ten times, before → after'}</h3>
          <span className="hb-muted">{shown}</span>
        </div>
        {isPaused && <p className="hb-field-hint">The job is paused: these times are skipped until it is resumed.</p>}
        {times.length === 0 ? (
          <p className="hb-muted">{after.length || preview || plan ? 'This schedule has no more times.' : 'The schedule has an error.'}</p>
        ) : (
          <ol className="edit-times">
            {times.map(({ mark, occurrence }) => (
              <li key={`${occurrence.at} ${mark}`} data-mark={mark}>
                <span className="edit-times-mark">{mark === 'added' ? '+' : mark === 'removed' ? '−' : ''}</span>
                <span>
                  <Time at={occurrence.at} zone={zone} offset seconds={hasSeconds(occurrence.at)} />
                  {occurrence.shifted && <span className="edit-times-note">moved from {occurrence.nominal_local.slice(11, 16)}: the clock skips it</span>}
                </span>
                <span className="hb-muted">
                  {mark === 'added' ? 'new' : mark === 'removed' ? 'no longer' : ''}
                  {mark !== 'removed' && isZone(zone) && zone !== shown ? ` ${occurrence.local.slice(11, 16)} ${occurrence.zone_abbreviation}` : ''}
                </span>
              </li>
            ))}
          </ol>
        )}
        {!isNew && storedZone !== zone && <p className="hb-field-hint">The time zone changes from {storedZone} to {zone}.</p>}
      </div>
    </Card>
  )
}

function hasSeconds(at: string): boolean {
  return !/:00(\.0+)?Z$/.test(at)
}
