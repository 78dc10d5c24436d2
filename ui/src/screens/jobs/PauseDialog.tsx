/** The note and the end of a pause: of one job, of those selected, or of those that a text chooses. */
import { useState, type ReactNode } from 'react'
import { useZone } from '../../app/zone'
import { Button } from '../../components/Button'
import { Dialog } from '../../components/Dialog'
import { Field } from '../../components/Field'
import { serverNow } from '../../lib/clock'
import { formatRelative } from '../../lib/duration'
import { formatTime } from '../../lib/time'
import { readTypedEnd } from '../../lib/typedTime'
import './jobs.css'

export interface Pause {
  note?: string
  until?: string
}

const USUAL_ENDS = ['1 h', '4 h', '1 d', 'tomorrow 8:00'] as const

interface Props {
  title: string
  /** What the button says: "Pause 12 jobs". */
  action: string
  onClose: () => void
  onPause: (pause: Pause) => void
  /** Which jobs, if that is chosen here. Its first field has the focus. */
  children?: ReactNode
  /** Another action on the same jobs. */
  other?: ReactNode
  isDisabled?: boolean
}

export function PauseDialog({ title, action, onClose, onPause, children, other, isDisabled = false }: Props) {
  const [note, setNote] = useState('')
  const [end, setEnd] = useState('')
  const [isAsked, setAsked] = useState(false)
  const zone = useZone()
  const now = serverNow()
  const until = readTypedEnd(end, now, zone)
  const submit = () => {
    setAsked(true)
    if (until === undefined || isDisabled) return
    onPause({ ...(note.trim() ? { note: note.trim() } : {}), ...(until ? { until: new Date(until).toISOString() } : {}) })
  }
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          {other}
          <Button type="submit" look="primary" disabled={isDisabled}>
            {action}
          </Button>
        </>
      }
    >
      {children}
      <Field label="Note" hint="Optional. It is shown with the job.">
        <input value={note} onChange={(event) => setNote(event.target.value)} maxLength={500} autoFocus={!children} placeholder="database maintenance" />
      </Field>
      <div>
        <Field
          label="End"
          hint={until ? `Until ${formatTime(until, zone, { now, offset: true })}, ${formatRelative(until, now)}.` : until === null ? 'Until it is resumed.' : undefined}
          error={until === undefined && isAsked ? 'Write a time in the future: “2h”, “18:00”, “tomorrow 8:00” or “2026-11-18 08:00”.' : undefined}
        >
          <input value={end} onChange={(event) => setEnd(event.target.value)} onBlur={() => setAsked(end !== '')} autoComplete="off" spellCheck={false} placeholder="2h, 18:00, tomorrow 8:00" />
        </Field>
        <div className="jobs-ends" role="group" aria-label="Common choices">
          {USUAL_ENDS.map((text) => (
            <Button key={text} size="small" aria-pressed={end === text} onClick={() => setEnd(end === text ? '' : text)}>
              {text}
            </Button>
          ))}
        </div>
      </div>
      <p className="hb-muted">No runs are planned while a job is paused. Runs that are already planned continue.</p>
    </Dialog>
  )
}
