import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState, type ReactNode } from 'react'
import { useLocation } from 'wouter'
import { BASE, getJson, sendJson } from '../../api/client'
import { ApiError } from '../../api/errors'
import { useMay } from '../../api/queries'
import type { Intention, JobDetail, List, Preview, Version } from '../../api/types'
import { useShortcuts } from '../../app/shortcuts'
import { Button, LinkButton } from '../../components/Button'
import { CodeBlock } from '../../components/CodeBlock'
import { useConfirm } from '../../components/ConfirmDialog'
import { Dialog } from '../../components/Dialog'
import { ErrorNotice, errorText } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { Card, Screen } from '../../components/Screen'
import { Tabs } from '../../components/Tabs'
import { Time } from '../../components/Time'
import { useToast } from '../../components/Toast'
import { count } from '../../lib/outcome'
import { jobPath, runPath } from '../../lib/url'
import { asCurl, asPython, asToml } from './code'
import { changedFields, changeOf, formOf, fromJob, isSameForm, makeBody, rebase, withoutDefaults, type Form, type JsonObject } from './form'
import { showValue } from '../import/text'
import { useLeaveGuard } from './leave'
import { PlanCard } from './PlanCard'
import { PolicyFields } from './PolicyFields'
import { ScheduleFields } from './ScheduleFields'
import { Area, TargetFields } from './TargetFields'
import { ZoneField } from './ZoneField'

interface Props {
  title: string
  path: readonly (readonly [string, string])[]
  start: Form
  /** The job to change; null for a new one. */
  stored: JobDetail | null
  copyOf?: JobDetail
}

type Defined = JobDetail & { generated_secret: string | null }

interface Options {
  takeOver: boolean
  dropSecrets: boolean
  dropBacklog: boolean
}

const TYPING_MS = 300
/** Errors below these pointers are shown at their fields. */
const FIELDS = [
  ...['name', 'schedule', 'timezone', 'dst', 'description', 'tags', 'subject', 'payload', 'headers', 'secret_headers'],
  ...['catch_up', 'catch_up_window', 'overlap', 'retry', 'delivery', 'max_age', 'late_after', 'priority', 'jitter', 'starts_at', 'ends_at'],
  ...['url', 'method', 'headers', 'body', 'timeout', 'secret', 'function', 'args', 'database', 'lock_timeout', 'search_path', 'name', 'queue'].map((field) => `target/${field}`),
].map((field) => `/${field}`)

const isBelow = (pointer: string, field: string) => pointer === field || pointer.startsWith(`${field}/`)

export function Editor({ title, path, start, stored: loaded, copyOf }: Props) {
  const [stored, setStored] = useState(loaded)
  const [base, setBase] = useState(start)
  const [form, setForm] = useState(start)
  const [options, setOptions] = useState<Options>({ takeOver: false, dropSecrets: false, dropBacklog: false })
  const [refusal, setRefusal] = useState<unknown>()
  const [isTried, setTried] = useState(false)
  const [busy, setBusy] = useState<'save' | 'test' | null>(null)
  const [outdated, setOutdated] = useState<{ job: JobDetail; by: string | null } | null>(null)
  const [secret, setSecret] = useState<{ value: string; until?: string | null; next: string | null } | null>(null)
  const [, navigate] = useLocation()
  const confirm = useConfirm()
  const toast = useToast()
  const client = useQueryClient()
  const mayAdmin = useMay('admin')
  const isNew = stored === null
  const isOwned = stored !== null && stored.managed_by !== 'api'

  const set = (patch: Partial<Form>) => {
    setForm((now) => ({ ...now, ...patch }))
    setRefusal(undefined)
  }
  const made = makeBody(form)
  const before = makeBody(base).body
  const fields = isNew ? [] : [...changedFields(before, made.body), ...Object.keys(made.secretHeaders).map((name) => `secret_headers.${name}`)]
  const isDirty = isNew ? !isSameForm(form, base) : fields.length > 0 || !isSameForm(form, base)
  const missing = needed(form)
  const settled = useSettled(form, TYPING_MS)
  const isTyping = settled !== form

  const preview = useQuery({
    queryKey: ['edit', 'preview', settled.schedule, settled.timezone, settled.dst, settled.name],
    queryFn: ({ signal }) => {
      const name = /^[A-Za-z0-9_-]{1,100}$/.test(settled.name) ? settled.name : null
      return sendPreview({ schedule: settled.schedule.trim(), timezone: settled.timezone.trim(), dst: settled.dst, name, count: 10 }, signal)
    },
    enabled: settled.schedule.trim() !== '',
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 30_000,
  })
  // A dry run stores nothing, so it may show what taking the job over would do.
  const request = requestOf(settled, base, stored, { ...options, takeOver: isOwned })
  const plan = useQuery({
    queryKey: ['edit', 'plan', request],
    queryFn: () => sendJson<Intention>(request.method, request.path, request.body, { ...request.query, dry_run: true }, request.headers),
    enabled: !needed(settled).length && !Object.keys(makeBody(settled).errors).length,
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 30_000,
    gcTime: 60_000,
  })

  // What the server says: of the last try to save, else of the dry run, else of the preview.
  const planError = plan.error instanceof ApiError ? plan.error : undefined
  const previewError = preview.error instanceof ApiError ? preview.error : undefined
  const saveError = refusal instanceof ApiError ? refusal : undefined
  const listed = [...(saveError?.errors ?? planError?.errors ?? []), ...(saveError || planError?.errors?.length ? [] : (previewError?.errors ?? []))]
  const scheduleErrors = form.schedule.trim() ? listed.filter(({ pointer }) => isBelow(pointer, '/schedule')) : []
  const fieldError = (...pointers: string[]): string | undefined => {
    for (const pointer of pointers) {
      const local = Object.entries(made.errors).find(([at]) => isBelow(at, pointer))?.[1]
      if (local) return local
      const found = listed.filter((error) => isBelow(error.pointer, pointer))
      if (found.length) return found.map(({ message, hint }) => [message, hint].filter(Boolean).join('; ')).join('. ')
      if (pointer === '/name' && (saveError ?? planError)?.code === 'name_taken') return 'Another job has this name.'
      if (isTried && pointer in NEEDED && NEEDED[pointer]?.[0](form)) return NEEDED[pointer]?.[1]
    }
    return undefined
  }
  const loose = planError && planError.errors?.length ? planError.errors.filter(({ pointer }) => !FIELDS.some((field) => isBelow(pointer, field))) : undefined
  const isBound = !refusal && planError?.code === 'secrets_bound'
  const isTaken = (saveError ?? planError)?.code === 'name_taken'
  const planProblem = isBound || isTaken ? undefined : planError && !saveError ? (loose === undefined ? planError : loose.length ? new ApiError(planError.status, planError.code, planError.title, planError.detail, loose, planError.requestId) : undefined) : plan.error instanceof ApiError ? undefined : plan.error
  const looseSave = saveError?.errors?.length ? saveError.errors.filter(({ pointer }) => !FIELDS.some((field) => isBelow(pointer, field))) : undefined

  const guard = useLeaveGuard(isDirty && !secret, () => confirm({ title: isNew ? 'Discard this job?' : `Discard the changes of ${stored.name}?`, body: 'What you typed is not saved.', action: 'Discard', isDanger: true }))
  const refresh = () => Promise.all(['jobs', 'job', 'timeline', 'stats', 'forecast', 'audit', 'runs'].map((topic) => client.invalidateQueries({ queryKey: [topic] })))

  /** What to try again with after a refusal that the caller can decide about; null if it stays refused. */
  const wayOut = async (error: unknown): Promise<Partial<Options> | null> => {
    if (error instanceof ApiError && error.code === 'job_catching_up') {
      const isSure = await confirm({ title: 'Skip the times that are still due?', body: errorText(error), action: 'Skip them and save', isDanger: true })
      if (isSure) return { dropBacklog: true }
    }
    if (error instanceof ApiError && error.code === 'secrets_bound' && mayAdmin) {
      const isSure = await confirm({
        title: 'Remove the secret headers?',
        body: `${errorText(error)} To keep them, cancel and type their new values into the headers.`,
        action: 'Remove them and save',
        isDanger: true,
      })
      if (isSure) return { dropSecrets: true }
    }
    return null
  }

  const showOutdated = async (job: JobDetail) => {
    const now = await getJson<JobDetail>(`/jobs/${job.id}`)
    const versions = await getJson<List<Version>>(`/jobs/${job.id}/versions`, { limit: 1 }).catch(() => null)
    setOutdated({ job: now, by: versions?.items[0]?.changed_by ?? null })
  }

  /** Save; with `isTest` save the job paused, and run it once. */
  const submit = async (isTest: boolean): Promise<void> => {
    if (busy) return
    setTried(true)
    setRefusal(undefined)
    if (missing.length || Object.keys(made.errors).length || (isOwned && !options.takeOver)) return focusFirstError()
    if (isTest) {
      const isSure = await confirm({
        title: isNew ? `Save ${form.name} paused and run it once?` : `Save and pause ${stored.name}, and run it once?`,
        body: `${isNew ? 'The job is created paused' : 'The changes are saved and the job is paused'}, so no scheduled time runs. One run starts now and calls the target for real. Resume the job when you are content.`,
        action: 'Save and test',
      })
      if (!isSure) return
    }
    setBusy(isTest ? 'test' : 'save')
    let current = stored
    let wanted = options
    const send = (isDryRun: boolean) => {
      const { method, path: to, body, query, headers } = requestOf(form, base, current, wanted, isTest)
      return sendJson<Defined>(method, to, body, { ...query, dry_run: isDryRun }, headers)
    }
    try {
      let job: Defined | undefined
      while (!job) {
        try {
          // A job that exists is paused first: no scheduled time may run with an untested change.
          if (isTest && current && current.state !== 'paused') {
            await send(true)
            await sendJson('POST', `/jobs/${current.id}/pause`, { note: 'paused for a test' }, {}, { 'If-Match': `"${current.version}"` })
            current = await getJson<JobDetail>(`/jobs/${current.id}`)
            setStored(current)
          }
          job = await send(false)
        } catch (error) {
          const more = await wayOut(error)
          if (!more) throw error
          wanted = { ...wanted, ...more }
        }
      }
      const run = isTest ? await sendJson<{ run_id: string }>('POST', `/jobs/${job.id}/trigger`) : null
      guard.leave()
      await refresh()
      const next = run ? runPath(run.run_id) : jobPath(job)
      const { name, version } = job
      if (run) toast({ text: `${name} is saved, paused, and runs once`, action: ['Edit again', () => navigate(`${jobPath(name)}/edit`)] })
      else toast({ text: isNew ? `${name} created` : `${name} saved as version ${version}` })
      if (job.generated_secret) setSecret({ value: job.generated_secret, next })
      else navigate(next)
    } catch (error) {
      if (error instanceof ApiError && error.status === 412 && stored) await showOutdated(stored)
      else {
        setRefusal(error)
        focusFirstError()
      }
    } finally {
      setBusy(null)
    }
  }

  const rotate = async () => {
    if (!stored) return
    const has = hasSigning(stored)
    const isSure = await confirm({
      title: has ? 'Replace the signing secret?' : 'Sign the requests of this job?',
      body: has ? 'A new secret is generated now and shown once. For a day requests carry signatures of both, so that receivers can change over.' : 'A secret is generated now, without saving the form, and shown once.',
      action: has ? 'Replace the secret' : 'Generate a secret',
    })
    if (!isSure) return
    try {
      const made = await sendJson<{ secret: string; old_valid_until: string | null }>('POST', `/jobs/${stored.id}/rotate-secret`, {})
      setSecret({ value: made.secret, until: made.old_valid_until, next: null })
      setStored(await getJson<JobDetail>(`/jobs/${stored.id}`))
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
  }

  useShortcuts([{ keys: 'Ctrl+Enter', label: 'Save the job', run: () => void submit(false) }])
  const secretNames = Object.keys(made.secretHeaders)
  const short = withoutDefaults(made.body)
  const needsTaking = isOwned && !options.takeOver
  const hasErrors = Object.keys(made.errors).length > 0 || listed.length > 0 || isTaken

  return (
    <Screen title={title} path={path} lead={copyOf && <CopyNote job={copyOf} />}>
      {isOwned && <Owned job={stored} isTaken={options.takeOver} onChange={(takeOver) => setOptions({ ...options, takeOver })} />}
      {copyOf === undefined && stored?.error && (
        <p className="edit-notice" data-tone="bad" role="alert">
          <strong>This job cannot be planned.</strong> {stored.error}
        </p>
      )}
      <form
        className="edit-form"
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          void submit(false)
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return
          if (event.ctrlKey || event.metaKey) {
            event.preventDefault()
            void submit(false)
          } else if (event.target instanceof HTMLInputElement) event.preventDefault()
        }}
      >
        <div className="hb-columns edit-split">
          <div className="hb-stack">
            <Card title="Job">
              <div className="edit-stack">
                <div className="edit-columns">
                  <Field label="Name" hint="Letters, digits, _ and -." error={fieldError('/name')}>
                    <input value={form.name} onChange={(event) => set({ name: event.target.value })} maxLength={100} spellCheck={false} autoComplete="off" autoFocus={isNew && !form.name} required />
                  </Field>
                  <Field label="Subject" hint="Who or what it is for; lists can be filtered by it." error={fieldError('/subject')}>
                    <input value={form.subject} onChange={(event) => set({ subject: event.target.value })} maxLength={200} autoComplete="off" />
                  </Field>
                </div>
                <Field label="Description" error={fieldError('/description')}>
                  <textarea rows={2} value={form.description} onChange={(event) => set({ description: event.target.value })} maxLength={10_000} />
                </Field>
                <Tags tags={form.tags} onChange={(tags) => set({ tags })} error={fieldError('/tags')} />
              </div>
            </Card>
            <Card title="Schedule">
              <div className="edit-stack">
                <ScheduleFields schedule={form.schedule} stored={isNew ? null : base.schedule} zone={form.timezone} onChange={(schedule) => set({ schedule })} preview={preview.data} errors={isTyping ? [] : scheduleErrors} />
                <ZoneField value={form.timezone} onChange={(timezone) => set({ timezone })} error={fieldError('/timezone')} />
              </div>
            </Card>
            <Card title="Target">
              <div className="edit-stack">
                <TargetFields
                  form={form}
                  set={set}
                  error={fieldError}
                  isNew={isNew}
                  signing={
                    stored && (
                      <div className="hb-field" role="group" aria-label="Signing">
                        <span className="edit-label">Signing</span>
                        <div className="edit-row">
                          <span>{hasSigning(stored) ? 'Requests are signed' : 'Requests are not signed'}</span>
                          <Button size="small" onClick={() => void rotate()}>
                            {hasSigning(stored) ? 'Replace the secret…' : 'Generate a secret…'}
                          </Button>
                        </div>
                      </div>
                    )
                  }
                />
              </div>
            </Card>
            <Card title="Payload">
              <Field label="Payload (JSON)" isLabelHidden hint="Any JSON value; the target gets it with each run. Integers stay exact." error={fieldError('/payload')}>
                <Area rows={4} value={form.payload} placeholder="null" onChange={(payload) => set({ payload })} />
              </Field>
            </Card>
            <Card title="Policies">
              <PolicyFields form={form} set={set} error={fieldError} />
            </Card>
          </div>
          <div className="hb-stack edit-side">
            {Boolean(refusal) && !isTaken && (looseSave === undefined || looseSave.length > 0) && <ErrorNotice error={refusal} what="Not saved" />}
            {Boolean(refusal) && looseSave?.length === 0 && (
              <p className="edit-notice" data-tone="bad" role="alert">
                <strong>Not saved.</strong> {count(saveError?.errors?.length ?? 0, 'field')} need a look.
              </p>
            )}
            {(isBound || options.dropSecrets) && (
              <div className="edit-notice" data-tone="late">
                <p>
                  The secret headers of this job were set for another address and are not sent to this one. Type their new values into the headers, or remove them.
                  {!mayAdmin && ' Both need the role admin.'}
                </p>
                {mayAdmin && (
                  <label className="edit-check">
                    <input type="checkbox" checked={options.dropSecrets} onChange={(event) => setOptions({ ...options, dropSecrets: event.target.checked })} />
                    Remove the secret headers when I save
                  </label>
                )}
              </div>
            )}
            <PlanCard
              isNew={isNew}
              zone={form.timezone}
              storedZone={base.timezone}
              fields={fields}
              plan={missing.length || planError ? undefined : plan.data}
              preview={previewError ? undefined : preview.data}
              error={planProblem}
              missing={missing}
              isPaused={stored?.state === 'paused'}
              isStale={isTyping || plan.isFetching}
            />
            <CodeCard
              code={{
                curl: asCurl(BASE, short, secretNames, stored ? { name: stored.name, version: stored.version, change: changeOf(before, made.body) } : undefined),
                toml: asToml(short, form.headers.filter(({ isSecret, name }) => isSecret && name).map(({ name }) => name)),
                python: asPython(short, secretNames),
              }}
            />
          </div>
        </div>
        <div className="edit-bar">
          <span className="hb-muted edit-bar-state" role="status">
            {hasErrors ? 'Some fields need a look' : isNew ? (missing.length ? `Needed: ${missing.join(', ')}` : 'Ready to create') : needsTaking ? 'Take the job over to save it here' : fields.length ? `${count(fields.length, 'field')} changed` : 'No changes'}
          </span>
          <LinkButton href={stored ? jobPath(stored) : '/jobs'}>Cancel</LinkButton>
          <Button needs="operator" isBusy={busy === 'test'} disabled={needsTaking} onClick={() => void submit(true)}>
            Test now…
          </Button>
          <Button type="submit" look="primary" needs="editor" isBusy={busy === 'save'} disabled={!isNew && (!fields.length || needsTaking)}>
            {isNew ? 'Create job' : options.takeOver && isOwned ? 'Take over and save' : 'Save'}
          </Button>
        </div>
      </form>
      {secret && <SecretDialog secret={secret} onClose={() => (secret.next ? navigate(secret.next) : setSecret(null))} />}
      {outdated && stored && (
        <OutdatedDialog
          base={stored}
          found={outdated.job}
          by={outdated.by}
          onClose={() => setOutdated(null)}
          onReload={(keep) => {
            const theirs = formOf(outdated.job)
            setForm(keep ? rebase(base, form, theirs) : theirs)
            setBase(theirs)
            setStored(outdated.job)
            setOutdated(null)
            setRefusal(undefined)
          }}
        />
      )}
    </Screen>
  )
}

interface Request {
  method: 'POST' | 'PATCH' | 'PUT'
  path: string
  body: JsonObject
  query: Record<string, boolean>
  headers: Record<string, string>
}

/** The request that stores the form; with `dry_run` added it is only planned. */
function requestOf(form: Form, base: Form, stored: JobDetail | null, options: Options, isPaused = false): Request {
  const { body, secretHeaders } = makeBody(form)
  const secrets: JsonObject = Object.keys(secretHeaders).length ? { secret_headers: secretHeaders } : {}
  if (!stored) return { method: 'POST', path: '/jobs', body: { ...withoutDefaults(body), ...secrets, ...(isPaused ? { enabled: false } : {}) }, query: {}, headers: {} }
  const change = changeOf(makeBody(base).body, body)
  return {
    method: change.method,
    path: `/jobs/${stored.id}`,
    body: { ...change.body, ...secrets },
    query: { take_over: options.takeOver, drop_secrets: options.dropSecrets, drop_backlog: options.dropBacklog },
    headers: { 'If-Match': `"${stored.version}"` },
  }
}

const NEEDED: Record<string, readonly [isMissing: (form: Form) => boolean, message: string]> = {
  '/name': [(form) => !form.name.trim(), 'Give the job a name.'],
  '/schedule': [(form) => !form.schedule.trim(), 'Give the job a schedule.'],
  '/target/url': [(form) => form.type === 'http' && !form.url.trim(), 'Give the address to call, such as https://example.com/hook.'],
  '/target/function': [(form) => form.type === 'sql' && !form.function.trim(), 'Give the function to call, such as public.run_daily_cleanup.'],
  '/target/name': [(form) => form.type === 'task' && !form.task.trim(), 'Give the task to call.'],
  '/target/queue': [(form) => form.type === 'queue' && !form.queue.trim(), 'Give the queue.'],
}
const NEEDED_NAMES: Record<string, string> = { '/name': 'a name', '/schedule': 'a schedule', '/target/url': 'a URL', '/target/function': 'a function', '/target/name': 'a task', '/target/queue': 'a queue' }

function needed(form: Form): string[] {
  return Object.entries(NEEDED).flatMap(([pointer, [isMissing]]) => (isMissing(form) ? [NEEDED_NAMES[pointer] ?? pointer] : []))
}

async function sendPreview(body: unknown, signal: AbortSignal): Promise<Preview> {
  signal.throwIfAborted()
  return sendJson<Preview>('POST', '/preview', body)
}

/** The value once it has not changed for a while. */
function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms)
    return () => clearTimeout(timer)
  }, [value, ms])
  return settled
}

function focusFirstError() {
  setTimeout(() => document.querySelector<HTMLElement>('.edit-form [aria-invalid="true"]')?.focus(), 50)
}

const hasSigning = (job: JobDetail) => (job.secrets ?? []).some(({ field, valid_until }) => field === 'signing' && valid_until === null)

function CopyNote({ job }: { job: JobDetail }) {
  const secrets = (job.secrets ?? []).filter(({ valid_until }) => valid_until === null)
  return (
    <>
      A copy of {job.name}.{secrets.length > 0 && ` Secrets are not copied; set them again: ${secrets.map(({ field }) => (field === 'signing' ? 'the signing secret' : `the header ${field.slice(7)}`)).join(', ')}.`}
    </>
  )
}

function Owned({ job, isTaken, onChange }: { job: JobDetail; isTaken: boolean; onChange: (isTaken: boolean) => void }) {
  const owner: Record<string, ReactNode> = {
    code: (
      <>
        This job is defined by the program <code>{job.source}</code>. Change it there.
      </>
    ),
    file: (
      <>
        This job is defined by a jobs file{job.source && <> (<code>{job.source}</code>)</>}. Change it there.
      </>
    ),
    sql: 'This job is defined by plain SQL. Change it there.',
  }
  const after: Record<string, string> = {
    code: 'the program’s own definition is ignored at its next start, and reported as a conflict, until the job is deleted here',
    file: 'the next apply of the file is refused, unless it takes the job over again and changes it back',
    sql: 'a later statement can change it again',
  }
  return (
    <div className="edit-notice" data-tone="late">
      <p>
        {owner[job.managed_by] ?? 'This job is defined elsewhere.'} If you take it over, {after[job.managed_by] ?? 'its owner may change it back'}.
      </p>
      <label className="edit-check">
        <input type="checkbox" checked={isTaken} onChange={(event) => onChange(event.target.checked)} />
        Take the job over when I save
      </label>
    </div>
  )
}

function Tags({ tags, onChange, error }: { tags: string[]; onChange: (tags: string[]) => void; error: string | undefined }) {
  const [text, setText] = useState('')
  const add = () => {
    const added = text.split(',').map((tag) => tag.trim()).filter((tag) => tag && !tags.includes(tag))
    if (added.length) onChange([...tags, ...added])
    setText('')
  }
  return (
    <div className="edit-tags">
      <Field label="Tags" hint="Enter adds a tag." error={error}>
        <input
          value={text}
          maxLength={100}
          autoComplete="off"
          onChange={(event) => setText(event.target.value)}
          onBlur={add}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey) {
              event.preventDefault()
              add()
            } else if (event.key === 'Backspace' && !text && tags.length) onChange(tags.slice(0, -1))
          }}
        />
      </Field>
      {tags.length > 0 && (
        <div className="hb-actions">
          {tags.map((tag) => (
            <span key={tag} className="hb-chip">
              {tag}
              <button type="button" aria-label={`Remove the tag ${tag}`} onClick={() => onChange(tags.filter((each) => each !== tag))}>
                ×
              </button>
            </span>
          ))}
        </div>
      )}
    </div>
  )
}

const LANGUAGES = [
  ['curl', 'curl'],
  ['toml', 'TOML'],
  ['python', 'Python'],
] as const

function CodeCard({ code }: { code: Record<(typeof LANGUAGES)[number][0], string> }) {
  const [language, setLanguage] = useState<(typeof LANGUAGES)[number][0]>('curl')
  return (
    <Card title="As code" controls={<Tabs label="Language" tabs={LANGUAGES} value={language} onChange={setLanguage} />}>
      <CodeBlock code={code[language]} name={`The job as ${language}`} />
    </Card>
  )
}

function SecretDialog({ secret, onClose }: { secret: { value: string; until?: string | null }; onClose: () => void }) {
  return (
    <Dialog
      title="The signing secret"
      onClose={onClose}
      onSubmit={onClose}
      footer={
        <Button type="submit" look="primary">
          I have stored it
        </Button>
      }
    >
      <p>It is shown only now. Give it to the receiver, which verifies requests with it.</p>
      <CodeBlock code={secret.value} name="the signing secret" />
      {secret.until && (
        <p className="hb-muted">
          The old secret signs as well until <Time at={secret.until} offset />.
        </p>
      )}
    </Dialog>
  )
}

function OutdatedDialog({ base, found, by, onClose, onReload }: { base: JobDetail; found: JobDetail; by: string | null; onClose: () => void; onReload: (keep: boolean) => void }) {
  const [old, now] = [base, found].map((job) => makeBody(fromJob(job as unknown as JsonObject)).body) as [JsonObject, JsonObject]
  const fields = changedFields(old, now)
  const read = (body: JsonObject, field: string) => {
    const [key = '', part] = field.split('.')
    return showValue(part === undefined ? body[key] : (body[key] as JsonObject | undefined)?.[part])
  }
  return (
    <Dialog
      title={`${by ?? 'Somebody'} changed this job meanwhile`}
      size="wide"
      onClose={onClose}
      onSubmit={() => onReload(true)}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button onClick={() => onReload(false)}>Discard mine and reload</Button>
          <Button type="submit" look="primary" autoFocus>
            Reload and keep what I typed
          </Button>
        </>
      }
    >
      <p>
        You began with version {base.version}; the job is at version {found.version} now. Nothing was saved.
      </p>
      {fields.length ? (
        <table className="hb-table edit-compare">
          <thead>
            <tr>
              <th>Field</th>
              <th>Version {base.version}</th>
              <th>Version {found.version}</th>
            </tr>
          </thead>
          <tbody>
            {fields.map((field) => (
              <tr key={field}>
                <td>{field}</td>
                <td>
                  <code>{read(old, field)}</code>
                </td>
                <td>
                  <code>{read(now, field)}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p className="hb-muted">The definition is the same; the job was paused, resumed, or changed and changed back.</p>
      )}
    </Dialog>
  )
}
