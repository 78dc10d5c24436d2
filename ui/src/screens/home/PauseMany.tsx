/** Pause or resume every job that a text chooses, without leaving home: a note, an end, and how many it will be. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { getJson } from '../../api/client'
import { keys } from '../../api/queries'
import type { Job, List } from '../../api/types'
import { Button } from '../../components/Button'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { count } from '../../lib/outcome'
import { useJobActions } from '../jobs/actions'
import { countMatching } from '../jobs/data'
import type { Filter } from '../jobs/filter'
import { PauseDialog } from '../jobs/PauseDialog'
import { chooseJobs, chosenText, filterText } from './choose'
import type { TimelineFilter } from './queries'

const WAIT_MS = 150
const SHOWN_NAMES = 4

export default function PauseMany({ filter, onClose }: { filter: TimelineFilter; onClose: () => void }) {
  const [text, setText] = useState(filterText(filter))
  const settled = useSettled(text)
  const chosen: Filter = { ...chooseJobs(settled), ...(filter.attention ? { attention: filter.attention } : {}) }
  const toPause = useMatching('pause', { ...chosen, state: 'active' })
  const toResume = useMatching('resume', { ...chosen, state: 'paused' })
  const isSettled = settled === text && !toPause.isPlaceholderData && !toResume.isPlaceholderData
  const [running, paused] = [toPause.data?.number ?? 0, toResume.data?.number ?? 0]
  const pause = useJobActions({ ...chosen, state: 'active' }, onClose)
  const resume = useJobActions({ ...chosen, state: 'paused' }, onClose)
  return (
    <>
      <PauseDialog
        title="Pause or resume jobs"
        action={`Pause ${count(running, 'job')}`}
        isDisabled={!isSettled || !running || pause.isBusy}
        onClose={onClose}
        onPause={(more) => void pause.run('pause', 'all', running, more)}
        other={
          paused > 0 && (
            <Button disabled={!isSettled || resume.isBusy} onClick={() => void resume.run('resume', 'all', paused)}>
              Resume {count(paused, 'job')}
            </Button>
          )
        }
      >
        <Field label="Jobs" hint={<Matching text={chosenText(chosen, running + paused)} names={[...(toPause.data?.names ?? []), ...(toResume.data?.names ?? [])]} total={running + paused} />}>
          <input value={text} onChange={(event) => setText(event.target.value)} autoFocus autoCapitalize="off" autoComplete="off" spellCheck={false} placeholder="leave empty for all, or type the start of a name, or tag:billing" />
        </Field>
        {toPause.error && <ErrorNotice error={toPause.error} what="The jobs could not be counted" onRetry={() => void toPause.refetch()} />}
      </PauseDialog>
      {pause.dialogs}
      {resume.dialogs}
    </>
  )
}

function Matching({ text, names, total }: { text: string; names: readonly string[]; total: number }) {
  const shown = names.slice(0, SHOWN_NAMES)
  return (
    <>
      {text}
      {shown.length > 0 && (
        <>
          : <strong>{shown.join(', ')}</strong>
          {total > shown.length && ` and ${count(total - shown.length, 'more job')}`}
        </>
      )}
    </>
  )
}

/** How many jobs match, exactly, and the first names. */
function useMatching(action: 'pause' | 'resume', filter: Filter) {
  return useQuery({
    queryKey: keys.jobs({ matching: filter }),
    queryFn: async ({ signal }) => {
      const [number, first] = await Promise.all([
        countMatching({ action, filter }),
        getJson<List<Job>>('/jobs', { ...filter, limit: SHOWN_NAMES }, signal),
      ])
      return { number, names: first.items.map((job) => job.name) }
    },
    placeholderData: keepPreviousData,
  })
}

/** The text once no key was pressed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), WAIT_MS)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}
