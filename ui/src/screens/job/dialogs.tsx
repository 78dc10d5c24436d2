/** Run with a payload, and backfill with a preview. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useLocation } from 'wouter'
import { ApiError } from '../../api/errors'
import { sendJson } from '../../api/client'
import type { JobDetail } from '../../api/types'
import { useZone } from '../../app/zone'
import { Button } from '../../components/Button'
import { Dialog } from '../../components/Dialog'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { Time } from '../../components/Time'
import { useToast } from '../../components/Toast'
import { serverNow } from '../../lib/clock'
import { parseJson, stringifyJson } from '../../lib/exactJson'
import { count } from '../../lib/outcome'
import { fromLocal, isoDate } from '../../lib/time'
import { runPath } from '../../lib/url'

const SHOWN_TIMES = 12

export function TriggerDialog({ job, onClose }: { job: JobDetail; onClose: () => void }) {
  const [text, setText] = useState(stringifyJson(job.payload ?? null, 2))
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const client = useQueryClient()
  const [, navigate] = useLocation()
  const run = async () => {
    setError(undefined)
    let payload: unknown
    try {
      payload = parseJson(text)
    } catch {
      setError(new Error('The payload is not JSON: strings need double quotes, and there is no comma after the last value.'))
      return
    }
    setBusy(true)
    try {
      const made = await sendJson<{ run_id: string }>('POST', `/jobs/${encodeURIComponent(job.name)}/trigger`, { payload })
      void client.invalidateQueries()
      navigate(runPath(made.run_id))
    } catch (error) {
      setError(error)
      setBusy(false)
    }
  }
  return (
    <Dialog
      title={`Run ${job.name} with a payload`}
      onClose={onClose}
      onSubmit={() => void run()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isBusy={isBusy}>
            Run now
          </Button>
        </>
      }
    >
      {error !== undefined && <ErrorNotice error={error} what="The run was not started" />}
      <Field label="Payload (JSON)" hint="For this run only. The schedule and the stored payload stay as they are.">
        <TextArea value={text} onChange={setText} />
      </Field>
    </Dialog>
  )
}

function TextArea({ value, onChange, ...rest }: { value: string; onChange: (value: string) => void }) {
  return <textarea {...rest} className="hb-input job-payload" rows={10} value={value} onChange={(event) => onChange(event.target.value)} spellCheck={false} autoFocus />
}

interface Filled {
  instants: string[]
  runs: string[]
}

export function BackfillDialog({ job, from, to, onClose }: { job: JobDetail; from?: string; to?: string; onClose: () => void }) {
  const zone = useZone(job.timezone)
  const local = (at: string) => `${isoDate(at, zone)}T${new Date(Date.parse(at)).toLocaleTimeString('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit' })}`
  const [start, setStart] = useState(local(from ?? new Date(serverNow() - 86_400_000).toISOString()))
  const [end, setEnd] = useState(local(to ? new Date(Date.parse(to) + 60_000).toISOString() : new Date(serverNow()).toISOString()))
  const [rate, setRate] = useState('60')
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const client = useQueryClient()
  const toast = useToast()
  const body = { from: instant(start, zone), to: instant(end, zone), per_minute: Number(rate) }
  const path = `/jobs/${encodeURIComponent(job.name)}/backfill`
  const preview = useQuery({
    queryKey: ['job', job.name, 'backfill', body],
    queryFn: () => sendJson<Filled>('POST', path, body, { dry_run: true }),
    enabled: body.from !== null && body.to !== null && Number.isInteger(body.per_minute),
    retry: false,
  })
  const times = preview.data?.instants ?? []
  const what = count(times.length, 'missed time')
  const fill = async () => {
    setBusy(true)
    setError(undefined)
    try {
      const done = await sendJson<Filled>('POST', path, body)
      toast({ text: `${count(done.runs.length, 'run')} added` })
      void client.invalidateQueries()
      onClose()
    } catch (error) {
      setError(error)
      setBusy(false)
    }
  }
  const field = (pointer: string) => (preview.error instanceof ApiError ? preview.error.fieldError(pointer) : undefined)
  return (
    <Dialog
      title={`Backfill ${job.name}`}
      onClose={onClose}
      onSubmit={() => times.length && void fill()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isBusy={isBusy} disabled={!times.length || preview.isFetching}>
            Run {what}
          </Button>
        </>
      }
    >
      <p className="hb-muted">Past times without a run get one now, each with its own scheduled time. Times that have a run are left alone; replay a run to repeat it.</p>
      <div className="job-range">
        <Field label={`From (${zone})`} error={field('/from')}>
          <input type="datetime-local" value={start} onChange={(event) => setStart(event.target.value)} required />
        </Field>
        <Field label={`To (${zone})`} error={field('/to')}>
          <input type="datetime-local" value={end} onChange={(event) => setEnd(event.target.value)} required />
        </Field>
        <Field label="Runs a minute" error={field('/per_minute')}>
          <input type="number" min={1} max={60000} value={rate} onChange={(event) => setRate(event.target.value)} required />
        </Field>
      </div>
      {error !== undefined && <ErrorNotice error={error} what="Nothing was added" />}
      {preview.error && !field('/from') && !field('/to') && !field('/per_minute') && <ErrorNotice error={preview.error} what="This range cannot be backfilled" />}
      {preview.data && (
        <div aria-live="polite">
          {times.length ? `${what} would run:` : 'Every time in this range has a run, or the schedule has no times there.'}
          <ul className="job-instants">
            {times.slice(0, SHOWN_TIMES).map((at) => (
              <li key={at}>
                <Time at={at} zone={job.timezone} seconds />
              </li>
            ))}
            {times.length > SHOWN_TIMES && <li className="hb-muted">and {times.length - SHOWN_TIMES} more</li>}
          </ul>
        </div>
      )}
    </Dialog>
  )
}

function instant(local: string, zone: string): string | null {
  const at = local ? fromLocal(local, zone) : NaN
  return Number.isNaN(at) ? null : new Date(at).toISOString()
}
