/** What can be done with a job without leaving the time line. */
import { useQueryClient } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import { useLocation } from 'wouter'
import { sendJson } from '../../api/client'
import type { TimelineRow } from '../../api/types'
import { Button } from '../../components/Button'
import { Dialog } from '../../components/Dialog'
import { errorText } from '../../components/ErrorNotice'
import { useToast } from '../../components/Toast'
import { useMay } from '../../api/queries'
import { formatDuration } from '../../lib/duration'
import { count, formatNumber } from '../../lib/outcome'
import { runPath } from '../../lib/url'
import { useReplayable, type TimelineFilter } from './queries'

// Dialogs are not part of the first load.
const PauseManyDialog = lazy(() => import('./PauseMany'))
const ReplayDialog = lazy(() => import('../failed/ReplayDialog'))

/** Run an action once at a time; an error becomes a message. */
function useAction(): [isBusy: boolean, run: (action: () => Promise<void>) => void] {
  const [isBusy, setBusy] = useState(false)
  const toast = useToast()
  const client = useQueryClient()
  const run = (action: () => Promise<void>) => {
    setBusy(true)
    action()
      .catch((error: unknown) => toast({ text: errorText(error), tone: 'bad' }))
      .finally(() => {
        setBusy(false)
        void client.invalidateQueries({ predicate: ({ queryKey }) => ['timeline', 'jobs', 'stats', 'runs'].includes(String(queryKey[0])) })
      })
  }
  return [isBusy, run]
}

export function jobUrl(name: string, action = ''): string {
  return `/jobs/${encodeURIComponent(name)}${action}`
}

export function RunNow({ job }: { job: string }) {
  const [isBusy, run] = useAction()
  const toast = useToast()
  const [, navigate] = useLocation()
  const trigger = async () => {
    const { run_id } = await sendJson<{ run_id: string }>('POST', jobUrl(job, '/trigger'), {})
    toast({ text: `${job} was started`, action: ['Watch the run', () => navigate(runPath(run_id))] })
  }
  return (
    <Button size="small" needs="operator" isBusy={isBusy} onClick={() => run(trigger)} aria-label={`Run now: ${job}`}>
      Run now
    </Button>
  )
}

/** Replay what failed, of one job or of all: grouped by error, at a rate. */
export function Replay({ job, failed }: { job: string | null; failed: number }) {
  const [isOpen, setOpen] = useState(false)
  if (!failed) return null
  return (
    <>
      <Button size="small" needs="operator" onClick={() => setOpen(true)} aria-label={job ? `Replay ${count(failed, 'failed run')} of ${job}` : 'Replay failed runs by error'}>
        {job ? `Replay ${formatNumber(failed)}` : 'Replay…'}
      </Button>
      {isOpen && (
        <Suspense>
          <ReplayDialog job={job} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  )
}

export function ReplayJob({ row }: { row: TimelineRow }) {
  const { name, streak } = row.job
  return <Replay job={name} failed={useReplayable(name, streak, useMay('operator')) ?? 0} />
}

export function PauseMany({ filter }: { filter: TimelineFilter }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button size="small" needs="operator" onClick={() => setOpen(true)}>
        Pause or resume…
      </Button>
      {isOpen && (
        <Suspense>
          <PauseManyDialog filter={filter} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  )
}

export function Resume({ row }: { row: TimelineRow }) {
  const { name, paused } = row.job
  const [isBusy, run] = useAction()
  const toast = useToast()
  const resume = async () => {
    await sendJson('POST', jobUrl(name, '/resume'), {})
    toast({ text: `${name} resumed`, undo: () => sendJson('POST', jobUrl(name, '/pause'), { note: paused?.note ?? '', ...(paused?.until ? { until: paused.until } : {}) }) })
  }
  return (
    <Button size="small" needs="operator" isBusy={isBusy} onClick={() => run(resume)} aria-label={`Resume ${name}`}>
      Resume
    </Button>
  )
}

const OVERLAPS = [
  ['queue_one', 'Queue one', 'One run waits for the previous one; further times are skipped.'],
  ['queue_all', 'Queue all', 'Runs wait, one at a time, and nothing is skipped. The queue grows if runs take longer than the interval.'],
  ['allow', 'Run in parallel', 'The next run starts while the previous one is unfinished.'],
  ['cancel_running', 'Cancel the previous run', 'The next run starts, and the previous one is asked to stop.'],
  ['skip', 'Skip', 'The time is skipped while a run is unfinished.'],
] as const

export function FixOverlap({ row }: { row: TimelineRow }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button size="small" needs="editor" onClick={() => setOpen(true)} aria-label={`Fix overlap of ${row.job.name}`}>
        Fix overlap
      </Button>
      {isOpen && <OverlapDialog row={row} onClose={() => setOpen(false)} />}
    </>
  )
}

function OverlapDialog({ row, onClose }: { row: TimelineRow; onClose: () => void }) {
  const { name, words, schedule, median_duration_ms: usual } = row.job
  const [choice, setChoice] = useState<string>('queue_one')
  const [isBusy, run] = useAction()
  const toast = useToast()
  const save = () =>
    run(async () => {
      await sendJson('PATCH', jobUrl(name), { overlap: choice })
      toast({ text: `${name}: overlap is now “${OVERLAPS.find(([value]) => value === choice)?.[1]}”` })
      onClose()
    })
  return (
    <Dialog
      title={`If a run of ${name} is unfinished at the next time`}
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isBusy={isBusy}>
            Save
          </Button>
        </>
      }
    >
      <p>
        {words ?? schedule}
        {usual !== null && `; a run usually takes ${formatDuration(usual)}`}. Times that fall due while a run is unfinished are skipped.
      </p>
      <fieldset className="home-choices">
        <legend className="hb-hidden">What to do</legend>
        {OVERLAPS.map(([value, label, explanation]) => (
          <label key={value}>
            <input type="radio" name="overlap" value={value} checked={choice === value} onChange={() => setChoice(value)} />
            <span>
              <strong>{label}</strong> <code>{value}</code>
              <br />
              <span className="hb-muted hb-small">{explanation}</span>
            </span>
          </label>
        ))}
      </fieldset>
    </Dialog>
  )
}

export function CreateDemo() {
  const [isBusy, run] = useAction()
  return (
    <Button needs="admin" isBusy={isBusy} onClick={() => run(async () => void (await sendJson('POST', '/demo')))}>
      Create a demo
    </Button>
  )
}

export function RemoveDemo() {
  const [isBusy, run] = useAction()
  const toast = useToast()
  const remove = async () => {
    await sendJson('DELETE', '/demo')
    toast({ text: 'The demo jobs are deleted' })
  }
  return (
    <Button size="small" needs="admin" isBusy={isBusy} onClick={() => run(remove)}>
      Remove the demo
    </Button>
  )
}
