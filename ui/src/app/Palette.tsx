/** Ctrl-K: jobs by name, runs by id, screens, and actions such as "pause report". */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState, type KeyboardEvent, type ReactNode } from 'react'
import { useLocation } from 'wouter'
import { api, call, sendJson } from '../api/client'
import { keys, useJobSearch, useSession } from '../api/queries'
import type { Job } from '../api/types'
import { errorText } from '../components/ErrorNotice'
import { Keys } from '../components/Keys'
import { OutcomeMark } from '../components/Outcome'
import { RelativeTime } from '../components/Time'
import { useToast } from '../components/Toast'
import { fateOf } from '../lib/outcome'
import { runIdIn, score, splitVerb, type Verb } from '../lib/palette'
import { may, type Role } from '../lib/roles'
import { explainPath, jobPath, runPath, withSearch } from '../lib/url'
import { THEMES, useTheme } from './theme'
import { useZoneMode } from './zone'

interface Item {
  id: string
  group: string
  label: ReactNode
  detail?: ReactNode
  side?: ReactNode
  run: () => void | Promise<void>
}

const SCREENS: readonly { label: string; path: string; keys?: string; needs?: Role; also?: string }[] = [
  { label: 'Home', path: '/', keys: 'g h', also: 'time line' },
  { label: 'Jobs', path: '/jobs', keys: 'g j' },
  { label: 'Runs', path: '/runs', keys: 'g r' },
  { label: 'Failed runs', path: '/failed', also: 'dead letters replay' },
  { label: 'Failing jobs', path: '/jobs?attention=failing' },
  { label: 'Retrying jobs', path: '/jobs?attention=retrying' },
  { label: 'Jobs that lose runs', path: '/jobs?attention=losing', also: 'skipped' },
  { label: 'Paused jobs', path: '/jobs?attention=paused' },
  { label: 'Forecast', path: '/forecast', keys: 'g f', also: 'load heat map' },
  { label: 'Incidents', path: '/incidents', keys: 'g i', also: 'alerts acknowledge mute' },
  { label: 'Alert channels', path: '/incidents?tab=channels', also: 'notifications webhook test' },
  { label: 'Alert policies', path: '/incidents?tab=policies', also: 'notifications escalate quiet hours' },
  { label: 'Nodes', path: '/nodes', keys: 'g n', also: 'lanes' },
  { label: 'Audit', path: '/audit', keys: 'g a', needs: 'admin', also: 'changes who' },
  { label: 'Tokens', path: '/tokens', needs: 'admin' },
  { label: 'New job', path: '/jobs/new', needs: 'editor', also: 'create add' },
  { label: 'Import a crontab or jobs file', path: '/import', needs: 'editor' },
]
const SEARCH_WAIT_MS = 80
const MAX_JOBS = 8

export default function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  const [typed, setTyped] = useState('')
  const [active, setActive] = useState(0)
  const dialog = useRef<HTMLDialogElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const items = useItems(typed, onClose, onHelp)
  const at = Math.min(active, items.length - 1)

  useEffect(() => {
    const before = document.activeElement
    dialog.current?.showModal()
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' })
  }, [at, items.length])

  const choose = (item: Item | undefined) => {
    if (!item) return
    onClose()
    void item.run()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: typed ? undefined : 0, End: typed ? undefined : items.length - 1 }[event.key]
    if (to !== undefined && items.length) {
      event.preventDefault()
      setActive((to + items.length) % items.length)
    } else if (event.key === 'Enter' && !event.nativeEvent.isComposing) {
      event.preventDefault()
      choose(items[at])
    } else if (event.key === 'k' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      onClose()
    }
  }
  const groups = [...new Set(items.map((item) => item.group))]
  return (
    <dialog
      ref={dialog}
      className="hb-dialog hb-palette"
      aria-label="Search"
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onMouseDown={(event) => event.target === dialog.current && onClose()}
    >
      <input
        className="hb-input"
        role="combobox"
        aria-label="Find a job, run, screen or action"
        aria-expanded="true"
        aria-controls="hb-palette-list"
        aria-activedescendant={items[at] ? `hb-palette-${items[at].id}` : undefined}
        aria-autocomplete="list"
        placeholder="Find a job, run or screen, or type an action: pause report"
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value)
          setActive(0)
        }}
        onKeyDown={onKeyDown}
        autoFocus
        autoComplete="off"
        autoCapitalize="off"
        spellCheck={false}
      />
      <div className="hb-palette-list" id="hb-palette-list" role="listbox" aria-label="Results" ref={list} tabIndex={-1}>
        {groups.map((group) => (
          <div key={group} role="group" aria-label={group}>
            <div className="hb-palette-group" aria-hidden="true">
              {group}
            </div>
            {items.map((item, index) =>
              item.group === group ? (
                <div key={item.id} id={`hb-palette-${item.id}`} role="option" aria-selected={index === at} className="hb-palette-item" onPointerMove={() => setActive(index)} onClick={() => choose(item)}>
                  <div>
                    {item.label}
                    {item.detail && <small>{item.detail}</small>}
                  </div>
                  {item.side}
                </div>
              ) : null,
            )}
          </div>
        ))}
        {!items.length && (
          <div className="hb-palette-group" role="option" aria-selected="false" aria-disabled="true">
            Nothing found. Search jobs by the start of their name and runs by their complete id.
          </div>
        )}
      </div>
      <div className="hb-palette-foot">
        <span>
          <kbd>↑</kbd> <kbd>↓</kbd> choose
        </span>
        <span>
          <kbd>Enter</kbd> open
        </span>
        <span>
          <kbd>Esc</kbd> close
        </span>
        <span>run, pause, resume, edit, explain + a job</span>
      </div>
    </dialog>
  )
}

function useItems(typed: string, onClose: () => void, onHelp: () => void): Item[] {
  const [path, navigate] = useLocation()
  const role = useSession().data?.role
  const [theme, setTheme] = useTheme()
  const zone = useZoneMode()
  const act = useJobAct(navigate)
  const { verb, rest } = splitVerb(typed)
  const wanted = useDelayed(rest, SEARCH_WAIT_MS)
  const found = useJobSearch(wanted, MAX_JOBS).data ?? []
  const jobs = rest ? found.filter((job) => score(job.name, rest) > 0) : found.slice(0, 5)
  const runId = runIdIn(typed)
  const run = useQuery({
    queryKey: keys.run(runId ?? ''),
    queryFn: () => call(api.GET('/api/v1/runs/{run}', { params: { path: { run: runId ?? '' } } })),
    enabled: runId !== null,
    retry: false,
  }).data
  const open = (to: string) => () => {
    onClose()
    navigate(to)
  }
  const items: Item[] = []

  if (run) {
    items.push({
      id: run.id,
      group: 'Run',
      label: `${run.job_name ?? 'deleted job'}: ${run.state}`,
      detail: run.id,
      side: <RelativeTime at={run.scheduled_at} />,
      run: open(runPath(run.id)),
    })
  }
  for (const job of jobs) {
    if (verb) {
      if (isAllowed(verb, role)) items.push({ id: `${verb}-${job.id}`, group: VERB_WORDS[verb].group, label: `${VERB_WORDS[verb].label} ${job.name}`, detail: job.words, run: () => act(verb, job) })
    } else {
      items.push(jobItem(job, open(jobPath(job))))
    }
  }
  const [first] = jobs
  if (first && rest && !verb && score(first.name, rest) >= 4) {
    const verbs: Verb[] = ['run', first.state === 'paused' ? 'resume' : 'pause', 'edit', 'explain']
    for (const each of verbs.filter((each) => isAllowed(each, role))) {
      items.push({ id: `${each}-${first.id}`, group: 'Actions', label: `${VERB_WORDS[each].label} ${first.name}`, run: () => act(each, first) })
    }
  }
  const more: (Item & { score: number })[] = [
    ...SCREENS.filter(({ needs, path: to }) => (!needs || may(role, needs)) && (typed || to !== path)).map(({ label, path: to, keys: shortcut, also }) => ({
      id: `screen-${label.replace(/\W+/g, '-')}`,
      group: 'Screens',
      label,
      side: shortcut ? <Keys keys={shortcut} /> : undefined,
      run: open(to),
      score: score(`${label} ${also ?? ''}`, typed),
    })),
    ...THEMES.filter((name) => name !== theme && typed).map((name) => ({ id: `theme-${name}`, group: 'Settings', label: `Theme: ${name}`, run: () => setTheme(name), score: score(`Theme: ${name}`, typed) })),
    ...(typed
      ? ([
          ['utc', 'Time zone: UTC'],
          ['browser', "Time zone: the browser's"],
          ['job', "Time zone: each job's"],
        ] as const
        ).map(([mode, label]) => ({ id: `zone-${mode}`, group: 'Settings', label, run: () => zone.setMode(mode), score: score(label, typed) }))
      : []),
    { id: 'help', group: 'Settings', label: 'Keyboard shortcuts', side: <Keys keys="?" />, run: onHelp, score: typed ? score('Keyboard shortcuts help', typed) : 1 },
  ]
  if (!verb) items.push(...more.filter((item) => item.score > 0).sort((a, b) => (a.group === b.group ? b.score - a.score : 0)))
  if (rest && found.length >= MAX_JOBS && !verb) {
    items.push({ id: 'all', group: 'Jobs', label: `All jobs that begin with ${rest}`, run: open(withSearch('/jobs', { q: rest })) })
  }
  const order = ['Run', 'Jobs', 'Actions', VERB_WORDS[verb ?? 'run'].group, 'Screens', 'Settings']
  return items.sort((a, b) => order.indexOf(a.group) - order.indexOf(b.group))
}

const VERB_WORDS: Record<Verb, { label: string; group: string; needs: Role }> = {
  run: { label: 'Run', group: 'Run now', needs: 'operator' },
  pause: { label: 'Pause', group: 'Pause', needs: 'operator' },
  resume: { label: 'Resume', group: 'Resume', needs: 'operator' },
  edit: { label: 'Edit', group: 'Edit', needs: 'editor' },
  explain: { label: 'Explain a time of', group: 'Explain', needs: 'viewer' },
}

function isAllowed(verb: Verb, role: Role | undefined): boolean {
  return may(role, VERB_WORDS[verb].needs)
}

function jobItem(job: Job, run: () => void): Item {
  const fate = job.state === 'paused' ? 'paused' : job.totals.last_state ? fateOf(job.totals.last_state) : null
  return {
    id: job.id,
    group: 'Jobs',
    label: (
      <>
        {fate && <OutcomeMark fate={fate} label={fate} />} {job.name}
      </>
    ),
    detail: [job.words, job.timezone].filter(Boolean).join(' · '),
    side: <span className="hb-muted hb-small">{job.state === 'active' ? <RelativeTime at={job.next_at} zone={job.timezone} /> : job.state}</span>,
    run,
  }
}

/** Do it, say what was done, and offer the next step. */
function useJobAct(navigate: (to: string) => void): (verb: Verb, job: Job) => Promise<void> {
  const toast = useToast()
  const client = useQueryClient()
  return async (verb, job) => {
    const post = <T,>(action: string) => sendJson<T>('POST', `/jobs/${job.id}/${action}`, {})
    const refresh = () => {
      for (const topic of ['jobs', 'job', 'timeline', 'stats']) void client.invalidateQueries({ queryKey: [topic] })
    }
    try {
      if (verb === 'edit') navigate(`${jobPath(job)}/edit`)
      else if (verb === 'explain') navigate(explainPath(job.name))
      else if (verb === 'run') {
        const { run_id } = await post<{ run_id: string }>('trigger')
        toast({ text: `${job.name} started`, action: ['Watch', () => navigate(runPath(run_id))] })
      } else {
        await post(verb)
        toast({ text: `${job.name} ${verb === 'pause' ? 'paused' : 'resumed'}`, ...(verb === 'pause' ? { undo: () => post('resume').then(refresh) } : {}) })
      }
      refresh()
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
  }
}

function useDelayed(value: string, ms: number): string {
  const [delayed, setDelayed] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), ms)
    return () => clearTimeout(timer)
  }, [value, ms])
  return delayed
}
