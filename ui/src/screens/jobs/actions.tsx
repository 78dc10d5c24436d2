/** Actions on jobs: their dialogs, their messages and undo. */
import { useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { useLocation } from 'wouter'
import type { JobAction, JobBulkAnswer } from '../../api/types'
import { Button } from '../../components/Button'
import { useConfirm } from '../../components/ConfirmDialog'
import { Dialog } from '../../components/Dialog'
import { errorText } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { useToast } from '../../components/Toast'
import { serverNow } from '../../lib/clock'
import { count } from '../../lib/outcome'
import { runPath, withSearch } from '../../lib/url'
import { actOn, countMatching } from './data'
import type { Chosen, Filter } from './filter'
import { PauseDialog } from './PauseDialog'

const DONE_WORDS: Record<JobAction, string> = {
  pause: 'paused',
  resume: 'resumed',
  trigger: 'started',
  delete: 'deleted',
  tag: 'tagged',
  untag: 'untagged',
}
/** Deleting more than this many jobs asks to type the number. */
const TYPED_FROM = 10

type Open =
  | { kind: 'pause'; chosen: Chosen; number: number }
  | { kind: 'tag' | 'untag'; chosen: Chosen; number: number }
  | { kind: 'refused'; action: JobAction; answer: JobBulkAnswer }

export interface JobActions {
  /** Start an action; dialogs and messages follow. `chosen` is a set of names or "all" that match. */
  start: (action: JobAction, chosen: Chosen) => void
  /** Do it at once, for as many jobs as the user has seen. */
  run: (action: JobAction, chosen: Chosen, number: number, more?: { note?: string; until?: string }) => Promise<void>
  isBusy: boolean
  dialogs: ReactNode
}

export function useJobActions(filter: Filter, onDone: () => void): JobActions {
  const [open, setOpen] = useState<Open | null>(null)
  const [isBusy, setBusy] = useState(false)
  const client = useQueryClient()
  const confirm = useConfirm()
  const toast = useToast()
  const [, navigate] = useLocation()

  const refresh = () => {
    for (const topic of ['jobs', 'job', 'timeline', 'stats']) void client.invalidateQueries({ queryKey: [topic] })
  }
  const label = (chosen: Chosen, number: number) => (chosen !== 'all' && number === 1 ? [...chosen].join('') : count(number, 'job'))

  const run = async (action: JobAction, chosen: Chosen, number: number, more: { note?: string; until?: string; tags?: string[] } = {}) => {
    setBusy(true)
    try {
      const answer = await actOn(chosen, filter, number, { action, ...more })
      const names = new Set(answer.done.map((job) => job.name))
      const firstRun = answer.done[0]?.run_id
      const isOne = names.size === 1
      if (names.size) {
        toast({
          text: `${isOne ? [...names].join('') : count(names.size, 'job')} ${DONE_WORDS[action]}`,
          ...(action === 'pause' ? { undo: () => actOn(names, filter, names.size, { action: 'resume' }).then(refresh) } : {}),
          ...(action === 'trigger' && firstRun
            ? { action: ['Watch', () => navigate(isOne ? runPath(firstRun) : withSearch('/runs', { since: new Date(serverNow() - 60_000).toISOString() }))] as const }
            : {}),
        })
      }
      if (answer.refused.length) setOpen({ kind: 'refused', action, answer })
      else if (!names.size) toast({ text: `No job was ${DONE_WORDS[action]}: no job matches any more.` })
      onDone()
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    } finally {
      setBusy(false)
      refresh()
    }
  }

  const begin = async (action: JobAction, chosen: Chosen) => {
    let number = chosen === 'all' ? 0 : chosen.size
    try {
      if (chosen === 'all') number = await countMatching({ action, filter, ...(action === 'tag' || action === 'untag' ? { tags: ['x'] } : {}) })
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
      return
    }
    if (!number) return
    const what = label(chosen, number)
    if (action === 'pause' || action === 'tag' || action === 'untag') {
      setOpen({ kind: action, chosen, number })
    } else if (action === 'delete') {
      const isSure = await confirm({
        title: `Delete ${what}?`,
        body: <p>No further runs are planned, and waiting runs are cancelled. The history stays readable until retention removes it. This cannot be undone.</p>,
        action: `Delete ${what}`,
        isDanger: true,
        ...(number > TYPED_FROM ? { typed: String(number) } : {}),
      })
      if (isSure) await run(action, chosen, number)
    } else {
      const isSure =
        number === 1 ||
        (await confirm({
          title: action === 'trigger' ? `Run ${what} now?` : `Resume ${what}?`,
          body: <p>{action === 'trigger' ? 'Each job starts one run now, even if it is paused. The schedules do not change.' : 'They run again from now on. Times that were due during the pause stay skipped.'}</p>,
          action: action === 'trigger' ? `Run ${what}` : `Resume ${what}`,
        }))
      if (isSure) await run(action, chosen, number)
    }
  }

  const close = () => setOpen(null)
  const dialogs = open && (
    <>
      {open.kind === 'pause' && (
        <PauseDialog
          title={`Pause ${label(open.chosen, open.number)}`}
          action={`Pause ${label(open.chosen, open.number)}`}
          onClose={close}
          onPause={(more) => {
            close()
            void run('pause', open.chosen, open.number, more)
          }}
        />
      )}
      {(open.kind === 'tag' || open.kind === 'untag') && (
        <TagDialog
          action={open.kind}
          what={label(open.chosen, open.number)}
          onClose={close}
          onTag={(tags) => {
            close()
            void run(open.kind, open.chosen, open.number, { tags })
          }}
        />
      )}
      {open.kind === 'refused' && <RefusedDialog action={open.action} answer={open.answer} onClose={close} />}
    </>
  )
  return { start: (action, chosen) => void begin(action, chosen), run, isBusy, dialogs }
}

function TagDialog({ action, what, onClose, onTag }: { action: 'tag' | 'untag'; what: string; onClose: () => void; onTag: (tags: string[]) => void }) {
  const [text, setText] = useState('')
  const tags = text.split(/[\s,]+/).filter(Boolean)
  const verb = action === 'tag' ? `Tag ${what}` : `Remove tags from ${what}`
  return (
    <Dialog
      title={verb}
      onClose={onClose}
      onSubmit={() => tags.length && onTag(tags)}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!tags.length}>
            {verb}
          </Button>
        </>
      }
    >
      <Field label="Tags" hint="Separate several tags with spaces.">
        <input value={text} onChange={(event) => setText(event.target.value)} autoFocus autoCapitalize="off" spellCheck={false} placeholder="billing nightly" />
      </Field>
    </Dialog>
  )
}

function RefusedDialog({ action, answer, onClose }: { action: JobAction; answer: JobBulkAnswer; onClose: () => void }) {
  return (
    <Dialog title={`${count(answer.refused.length, 'job')} could not be ${DONE_WORDS[action]}`} onClose={onClose} footer={<Button onClick={onClose}>Close</Button>}>
      <p>{answer.done.length ? `${count(answer.done.length, 'job')} ${DONE_WORDS[action]}. ` : ''}The others stay as they are:</p>
      <ul className="jobs-refused">
        {answer.refused.map(({ name, message }) => (
          <li key={name}>
            <strong>{name}</strong>: {message}
          </li>
        ))}
      </ul>
    </Dialog>
  )
}

