import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { useLocation } from 'wouter'
import { BASE, getJson, sendJson } from '../../api/client'
import { ApiError } from '../../api/errors'
import { useMay, useSession } from '../../api/queries'
import type { Intention, JobDetail, List, Preview, Version } from '../../api/types'
import { useShortcuts } from '../../app/shortcuts'
import { Button, LinkButton } from '../../components/Button'
import { useConfirm } from '../../components/ConfirmDialog'
import { ErrorNotice, errorText } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { Card, Screen } from '../../components/Screen'
import { useToast } from '../../components/Toast'
import { count } from '../../lib/outcome'
import { jobPath, runPath } from '../../lib/url'
import { asCurl, asPython, asToml } from './code'
import { CodeCard } from './CodeCard'
import { OutdatedDialog, SecretDialog } from './dialogs'
import { errorsBelow, listErrors, looseErrors, textBelow, type Refusals } from './fieldErrors'
import { changedFields, changeOf, formOf, isSameForm, makeBody, rebase, withoutDefaults, type Form } from './form'
import { JobCard } from './JobCard'
import { useLeaveGuard } from './leave'
import { BoundSecrets, CopyNote, Owned } from './notices'
import { PlanCard } from './PlanCard'
import { PolicyFields } from './PolicyFields'
import { isComplete, isName, needed, NEEDED, requestOf, type Options } from './requests'
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

const TYPING_MS = 300
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
  const isOpen = useSession().data?.kind === 'open'
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
      const name = isName(settled.name) ? settled.name : null
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
    enabled: isComplete(settled),
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 30_000,
    gcTime: 60_000,
  })

  const refusals: Refusals = { save: apiError(refusal), plan: apiError(plan.error), preview: apiError(preview.error) }
  const { save: saveError, plan: planError } = refusals
  const listed = listErrors(refusals)
  const scheduleErrors = form.schedule.trim() ? errorsBelow(listed, '/schedule') : []
  const isTaken = (saveError ?? planError)?.code === 'name_taken'
  const fieldError = (...pointers: string[]): string | undefined => {
    for (const pointer of pointers) {
      const text = textBelow(listed, made.errors, pointer)
      if (text) return text
      if (pointer === '/name' && isTaken) return 'Another job has this name.'
      if (isTried && NEEDED[pointer]?.[0](form)) return NEEDED[pointer]?.[1]
    }
    return undefined
  }
  const isBound = !refusal && planError?.code === 'secrets_bound'
  const looseSave = looseErrors(saveError)
  const planProblem = isBound || isTaken ? undefined : planError ? (saveError ? undefined : withErrors(planError, looseErrors(planError))) : plan.error

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
        body: `${isNew ? 'The job is created paused' : 'The changes are saved and the job is paused'}, so no scheduled time runs. One run starts now and calls the target for real. Resume the job when the test succeeds.`,
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
      if (run) toast({ text: `${name} is saved, paused and running once`, action: ['Edit again', () => navigate(`${jobPath(name)}/edit`)] })
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
      body: has ? 'A new secret is generated now and shown once. For a day, requests carry signatures by both secrets, so that receivers can switch.' : 'A secret is generated now, without saving the form, and shown once.',
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
            <JobCard form={form} set={set} error={fieldError} isNew={isNew} />
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
              <Field label="Payload (JSON)" isLabelHidden hint="Any JSON value, sent to the target with each run. Large integers are kept exactly." error={fieldError('/payload')}>
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
                <strong>Not saved.</strong> {(saveError?.errors?.length ?? 0) === 1 ? 'Correct 1 field.' : `Correct ${saveError?.errors?.length} fields.`}
              </p>
            )}
            {(isBound || options.dropSecrets) && (
              <BoundSecrets isDropped={options.dropSecrets} mayAdmin={mayAdmin} onChange={(dropSecrets) => setOptions({ ...options, dropSecrets })} />
            )}
            <PlanCard
              isNew={isNew}
              zone={form.timezone}
              storedZone={base.timezone}
              fields={fields}
              plan={missing.length || planError ? undefined : plan.data}
              preview={refusals.preview ? undefined : preview.data}
              error={planProblem}
              missing={missing}
              isPaused={stored?.state === 'paused'}
              isStale={isTyping || plan.isFetching}
            />
            <CodeCard
              code={{
                curl: asCurl(BASE, short, secretNames, stored ? { name: stored.name, version: stored.version, change: changeOf(before, made.body) } : undefined, !isOpen),
                toml: asToml(short, form.headers.filter(({ isSecret, name }) => isSecret && name).map(({ name }) => name)),
                python: asPython(short, secretNames),
              }}
            />
          </div>
        </div>
        <div className="edit-bar">
          <span className="hb-muted edit-bar-state" role="status">
            {hasErrors ? 'Some fields need correction' : isNew ? (missing.length ? `Needed: ${missing.join(', ')}` : 'Ready to create') : needsTaking ? 'Take the job over to save it here' : fields.length ? `${count(fields.length, 'field')} changed` : 'No changes'}
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

const apiError = (error: unknown) => (error instanceof ApiError ? error : undefined)

/** The refusal with those errors that no field shows; undefined if every error is at its field. */
function withErrors(error: ApiError, loose: ApiError['errors'] | undefined): ApiError | undefined {
  if (loose === undefined) return error
  return loose.length ? new ApiError(error.status, error.code, error.title, error.detail, loose, error.requestId) : undefined
}

function focusFirstError() {
  setTimeout(() => document.querySelector<HTMLElement>('.edit-form [aria-invalid="true"]')?.focus(), 50)
}

const hasSigning = (job: JobDetail) => (job.secrets ?? []).some(({ field, valid_until }) => field === 'signing' && valid_until === null)

