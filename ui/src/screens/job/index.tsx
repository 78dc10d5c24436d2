import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useLocation, useParams } from 'wouter'
import { ApiError } from '../../api/errors'
import { sendJson } from '../../api/client'
import { useJob, useMay } from '../../api/queries'
import type { JobDetail } from '../../api/types'
import { useShortcuts } from '../../app/shortcuts'
import { useZone } from '../../app/zone'
import { Button, LinkButton } from '../../components/Button'
import { Chip } from '../../components/Chip'
import { CopyButton } from '../../components/CodeBlock'
import { Empty } from '../../components/Empty'
import { ErrorNotice, errorText } from '../../components/ErrorNotice'
import { Loading } from '../../components/Loading'
import { Menu, MenuItem } from '../../components/Menu'
import { Screen } from '../../components/Screen'
import { RelativeTime, Time } from '../../components/Time'
import { useToast } from '../../components/Toast'
import { serverNow } from '../../lib/clock'
import { formatTime } from '../../lib/time'
import { jobPath, runPath, withSearch } from '../../lib/url'
import { useJobActions } from '../jobs/actions'
import { Charts, Ledger, NextTimes, Settings, Versions, WhyNot, Year } from './cards'
import { BackfillDialog, TriggerDialog } from './dialogs'
import { recentSentence } from './summary'
import './job.css'

type Open = { kind: 'trigger' } | { kind: 'backfill'; from?: string; to?: string }

export default function JobScreen() {
  const name = useParams<{ job: string }>().job
  const job = useJob(decodeURIComponent(name))
  if (job.data) return <Shown job={job.data} error={job.error} onRetry={() => void job.refetch()} />
  const isMissing = job.error instanceof ApiError && job.error.status === 404
  return (
    <Screen title={decodeURIComponent(name)} path={[['Jobs', '/jobs']]}>
      {isMissing ? (
        <Empty title="No such job">
          <p>It may have been deleted or renamed.</p>
          <LinkButton href="/jobs">All jobs</LinkButton>
        </Empty>
      ) : job.error ? (
        <ErrorNotice error={job.error} what="The job could not be loaded" onRetry={() => void job.refetch()} />
      ) : (
        <Loading what="the job" />
      )}
    </Screen>
  )
}

function Shown({ job, error, onRetry }: { job: JobDetail; error: unknown; onRetry: () => void }) {
  const [open, setOpen] = useState<Open | null>(null)
  const [, navigate] = useLocation()
  const client = useQueryClient()
  const toast = useToast()
  const mayAct = useMay('operator')
  const mayEdit = useMay('editor')
  const one = new Set([job.name])
  const actions = useJobActions({}, () => undefined)
  const togglePause = () => actions.start(job.state === 'paused' ? 'resume' : 'pause', one)
  const editPath = `${jobPath(job)}/edit`
  const replay = async (run: string) => {
    try {
      const made = await sendJson<{ run_id: string }>('POST', `/runs/${run}/replay`)
      toast({ text: 'Replayed as a new run', action: ['Watch', () => navigate(runPath(made.run_id))] })
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
    for (const topic of ['job', 'jobs', 'runs', 'stats', 'timeline']) void client.invalidateQueries({ queryKey: [topic] })
  }
  useShortcuts([
    mayAct && { keys: 'p', label: 'Pause or resume the job', run: togglePause },
    mayAct && { keys: 't', label: 'Run the job now', run: () => actions.start('trigger', one) },
    mayEdit && { keys: 'e', label: 'Edit the job', run: () => navigate(editPath) },
  ])
  return (
    <Screen
      title={job.name}
      path={[['Jobs', '/jobs']]}
      beside={(job.tags ?? []).map((tag) => (
        <Chip key={tag} href={withSearch('/jobs', { tag })}>
          {tag}
        </Chip>
      ))}
      lead={<Lead job={job} />}
      actions={
        <>
          <Button needs="operator" onClick={togglePause}>
            {job.state === 'paused' ? 'Resume' : 'Pause'}
          </Button>
          <LinkButton href={editPath} needs="editor">
            Edit
          </LinkButton>
          {(mayAct || mayEdit) && (
            <Menu label="⋯" name="More actions">
              <MenuItem needs="operator" onSelect={() => setOpen({ kind: 'trigger' })}>
                Run with a payload…
              </MenuItem>
              <MenuItem needs="operator" onSelect={() => setOpen({ kind: 'backfill' })}>
                Backfill…
              </MenuItem>
              <MenuItem needs="editor" onSelect={() => navigate(withSearch('/jobs/new', { from: job.name }))}>
                Duplicate
              </MenuItem>
              <MenuItem needs="editor" onSelect={() => actions.start('tag', one)}>
                Tag…
              </MenuItem>
              <MenuItem needs="editor" isDanger onSelect={() => actions.start('delete', one)}>
                Delete…
              </MenuItem>
            </Menu>
          )}
          <Button needs="operator" look="primary" onClick={() => actions.start('trigger', one)}>
            Run now
          </Button>
        </>
      }
    >
      {Boolean(error) && <ErrorNotice error={error} what="The job could not be refreshed" onRetry={onRetry} />}
      {job.state === 'paused' && <PausedBanner job={job} onResume={() => actions.start('resume', one)} />}
      {job.error && (
        <div className="job-banner" data-tone="bad" role="alert">
          <strong>This job cannot be planned.</strong> {job.error}
          <LinkButton size="small" href={editPath} needs="editor">
            Edit
          </LinkButton>
        </div>
      )}
      {job.description && <p className="job-description">{job.description}</p>}
      <div className="hb-columns">
        <div className="hb-stack">
          <Ledger job={job} onBackfill={(from, to) => setOpen({ kind: 'backfill', from, to })} onReplay={(run) => void replay(run)} />
          <Year job={job} />
          <Charts job={job} />
        </div>
        <div className="hb-stack">
          <NextTimes job={job} />
          <WhyNot job={job} />
          <Settings job={job} />
          <Versions job={job} />
        </div>
      </div>
      {open?.kind === 'trigger' && <TriggerDialog job={job} onClose={() => setOpen(null)} />}
      {open?.kind === 'backfill' && <BackfillDialog job={job} {...(open.from ? { from: open.from } : {})} {...(open.to ? { to: open.to } : {})} onClose={() => setOpen(null)} />}
      {actions.dialogs}
    </Screen>
  )
}

/** "At 09:00, Monday through Friday, Europe/Paris. Next in 18 h (Wed 18 Nov, 09:00). Of the last 20 times …" */
function Lead({ job }: { job: JobDetail }) {
  const zone = useZone(job.timezone)
  return (
    <>
      <strong>
        {job.words ?? job.schedule}, {job.timezone}
      </strong>{' '}
      <span className="job-expression">
        <code>{job.schedule}</code>
        <CopyButton text={job.schedule} what="the schedule" />
      </span>
      <br />
      {job.state === 'active' && job.next_at && (
        <>
          Next{' '}
          <strong>
            <RelativeTime at={job.next_at} zone={job.timezone} />
          </strong>{' '}
          ({formatTime(job.next_at, zone, { now: serverNow(), offset: true })}).{' '}
        </>
      )}
      {job.state === 'done' && 'It has no more times. '}
      {job.recent && recentSentence(job.recent)}
    </>
  )
}

function PausedBanner({ job, onResume }: { job: JobDetail; onResume: () => void }) {
  const paused = job.paused
  return (
    <div className="job-banner" data-tone="late" role="status">
      <span>
        <strong>Paused{paused?.by ? ` by ${paused.by}` : ''}</strong>
        {paused?.note && `: ${paused.note}`}
        {'. '}
        {paused?.until ? (
          <>
            It resumes by itself <Time at={paused.until} zone={job.timezone} offset />.
          </>
        ) : (
          'It does not run until it is resumed.'
        )}
      </span>
      <Button needs="operator" onClick={onResume}>
        Resume
      </Button>
    </div>
  )
}
