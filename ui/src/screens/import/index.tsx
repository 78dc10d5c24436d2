/** Import: a crontab or a jobs file becomes a plan, and the plan is applied as it is shown. */
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState, type DragEvent } from 'react'
import { Link } from 'wouter'
import { sendJson } from '../../api/client'
import { ApiError } from '../../api/errors'
import { useMay } from '../../api/queries'
import type { Converted, Plan } from '../../api/types'
import { Button, LinkButton } from '../../components/Button'
import { CodeBlock } from '../../components/CodeBlock'
import { useConfirm } from '../../components/ConfirmDialog'
import { Empty } from '../../components/Empty'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { Card, Screen } from '../../components/Screen'
import { Tabs } from '../../components/Tabs'
import { Time } from '../../components/Time'
import { browserZone } from '../../lib/time'
import { count } from '../../lib/outcome'
import { jobPath, withSearch } from '../../lib/url'
import { useLeaveGuard } from '../edit/leave'
import { ZoneField } from '../edit/ZoneField'
import '../edit/edit.css'
import './import.css'
import { countPlan, describePlan, guessFormat, nameAt, showValue, type Format } from './text'

const MAX_CHARACTERS = 1_000_000
const SHOWN_JOBS = 200

export default function Import() {
  const mayEdit = useMay('editor')
  const path = [['Jobs', '/jobs'] as const]
  if (mayEdit) return <Importer path={path} />
  return (
    <Screen title="Import" path={path}>
      <Empty title="Your role does not allow importing jobs">
        <p>Ask an administrator for a token with the role editor.</p>
        <LinkButton href="/jobs">All jobs</LinkButton>
      </Empty>
    </Screen>
  )
}

function Importer({ path }: { path: readonly (readonly [string, string])[] }) {
  const [text, setText] = useState('')
  const [chosen, setChosen] = useState<Format | null>(null)
  const [timezone, setTimezone] = useState(browserZone())
  const [source, setSource] = useState<string | null>(null)
  const [prune, setPrune] = useState(false)
  const [takeOver, setTakeOver] = useState(false)
  const [isOver, setOver] = useState(false)
  const [fileError, setFileError] = useState('')
  const [failure, setFailure] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const [result, setResult] = useState<Plan | null>(null)
  const confirm = useConfirm()
  const client = useQueryClient()

  const format = chosen ?? guessFormat(text)
  const label = source ?? (format === 'crontab' ? 'crontab' : '')
  const given = useSettled({ text, format, timezone, source: label.trim() })
  const converted = useQuery({
    queryKey: ['edit', 'convert', given],
    queryFn: () => sendJson<Converted>('POST', '/jobs/convert', { format: given.format, text: given.text, source: given.source, timezone: given.format === 'crontab' ? given.timezone : null }),
    enabled: given.text.trim() !== '',
    placeholderData: (shown) => (given.text.trim() ? shown : undefined),
    retry: false,
    gcTime: 60_000,
  })
  const found = given.text.trim() ? converted.data : undefined
  const owner = found?.source ?? given.source
  const mayPrune = !!owner && found?.problems.length === 0
  const wish = { jobs: found?.jobs ?? [], channels: found?.channels ?? {}, alert_policies: found?.alert_policies ?? {}, source: owner, prune: prune && mayPrune, take_over: takeOver }
  const hasWish = wish.jobs.length > 0 || wish.prune || Object.keys({ ...wish.channels, ...wish.alert_policies }).length > 0
  const plan = useQuery({
    queryKey: ['edit', 'apply', wish],
    queryFn: () => sendJson<Plan>('POST', '/jobs/apply', wish, { dry_run: true }),
    enabled: !!found && hasWish,
    placeholderData: keepPreviousData,
    retry: false,
    gcTime: 60_000,
  })
  const isCurrent = given.text === text && given.format === format && !converted.isFetching && !plan.isFetching
  const shown = found && hasWish && !plan.error ? plan.data : undefined
  const counts = shown && countPlan(shown)
  const changes = counts ? counts.create + counts.change + counts.delete : 0
  const guard = useLeaveGuard(text.trim() !== '' && !result, () => confirm({ title: 'Discard this import?', body: 'Nothing was applied.', action: 'Discard', isDanger: true }))

  const read = async (file: File | undefined) => {
    if (!file) return
    setFileError('')
    if (file.size > MAX_CHARACTERS) return setFileError(`${file.name} has ${count(file.size, 'byte')}; at most ${MAX_CHARACTERS.toLocaleString('en')} can be converted here. Use hourbell apply for larger files.`)
    setChosen(null)
    setText(await file.text())
  }
  const drop = (event: DragEvent) => {
    event.preventDefault()
    setOver(false)
    void read(event.dataTransfer.files[0])
  }

  const apply = async () => {
    if (!shown || !counts || isBusy || !changes) return
    const what = describePlan(counts)
    if (counts.delete > 0 && !(await confirm({ title: `${what[0]?.toUpperCase()}${what.slice(1)}?`, body: `Deleted: ${deletedNames(shown).slice(0, 20).join(', ')}${counts.delete > 20 ? ', …' : ''}. Their waiting runs are cancelled; their history stays.`, action: 'Apply', isDanger: true }))) return
    setBusy(true)
    setFailure(undefined)
    try {
      setResult(await sendJson<Plan>('POST', '/jobs/apply', { ...wish, expect: shown.state }))
      guard.leave()
      await client.invalidateQueries()
    } catch (error) {
      setFailure(error)
      if (error instanceof ApiError && error.code === 'plan_outdated') await plan.refetch()
    } finally {
      setBusy(false)
    }
  }

  if (result) {
    return (
      <Results
        plan={result}
        path={path}
        onAgain={() => {
          setText('')
          setChosen(null)
          setPrune(false)
          setTakeOver(false)
          setResult(null)
        }}
      />
    )
  }
  return (
    <Screen title="Import" path={path} lead="Paste a crontab or a jobs file. The plan shows what would change before anything is stored.">
      <div className="hb-columns edit-split">
        <div className="hb-stack">
          <Card>
            <div className="edit-stack">
              <div className="import-head">
                <Tabs
                  label="Format"
                  tabs={[
                    ['crontab', 'Crontab'],
                    ['jobs-file', 'Jobs file'],
                  ]}
                  value={format}
                  onChange={setChosen}
                />
                <label className="hb-button hb-button-plain hb-button-small import-file">
                  Choose a file
                  <input type="file" className="hb-hidden" onChange={(event) => void read(event.target.files?.[0])} />
                </label>
              </div>
              <div
                className="import-drop"
                data-over={isOver || undefined}
                onDragOver={(event) => {
                  event.preventDefault()
                  setOver(true)
                }}
                onDragLeave={() => setOver(false)}
                onDrop={drop}
              >
                <Field label={format === 'crontab' ? 'Crontab' : 'Jobs file (TOML, YAML or JSON)'} error={fileError || undefined} hint="Or drop a file here.">
                  <TextArea value={text} onChange={setText} />
                </Field>
              </div>
              <div className="edit-columns">
                <Field label="Source" hint={found && found.source !== given.source ? `The file sets its source: ${found.source}.` : 'The owner of these jobs: applying again changes and deletes only jobs of the same source.'}>
                  <input value={label} maxLength={200} onChange={(event) => setSource(event.target.value)} autoComplete="off" spellCheck={false} />
                </Field>
                {format === 'crontab' && <ZoneField value={timezone} onChange={setTimezone} error={converted.error instanceof ApiError ? converted.error.fieldError('/timezone') : undefined} />}
              </div>
              <div className="import-options">
                <label className="edit-check">
                  <input type="checkbox" checked={prune && mayPrune} disabled={!mayPrune} onChange={(event) => setPrune(event.target.checked)} />
                  Delete jobs of this source that are not in the text
                </label>
                {!mayPrune && found && <span className="hb-field-hint">{owner ? 'Not possible while lines have errors: their jobs would be deleted.' : 'Needs a source.'}</span>}
                <label className="edit-check">
                  <input type="checkbox" checked={takeOver} onChange={(event) => setTakeOver(event.target.checked)} />
                  Take over jobs with these names from other owners
                </label>
              </div>
            </div>
          </Card>
        </div>
        <div className="hb-stack">
          {failure !== undefined && <ErrorNotice error={failure} what="Nothing was applied" />}
          {Boolean(converted.error) && !(converted.error instanceof ApiError && converted.error.fieldError('/timezone')) && <ErrorNotice error={converted.error} what="The text could not be read" />}
          {found && found.problems.length > 0 && (
            <Card title={count(found.problems.length, 'problem')}>
              <ul className="import-problems">
                {found.problems.map((problem, index) => (
                  <li key={index}>
                    <span className="hb-muted">{problem.line === null ? 'text' : `line ${problem.line}`}</span>
                    <div>
                      {problem.text && <pre>{problem.text}</pre>}
                      <p className="hb-field-error">
                        {problem.message}
                        {problem.hint && `; ${problem.hint}`}
                      </p>
                    </div>
                  </li>
                ))}
              </ul>
            </Card>
          )}
          {found && found.notes.length > 0 && (
            <Card title="Notes">
              <ul className="import-notes">
                {found.notes.map((note, index) => (
                  <li key={index}>{note}</li>
                ))}
              </ul>
            </Card>
          )}
          {Boolean(plan.error) && found && hasWish && <Refused error={plan.error} names={found.jobs.map(({ name }) => String(name))} />}
          {shown && counts ? <PlanList plan={shown} /> : !text.trim() && <Teach />}
        </div>
      </div>
      <div className="edit-bar">
        <span className="hb-muted edit-bar-state" role="status">
          {!text.trim()
            ? 'Nothing to import yet'
            : !isCurrent
              ? 'Reading…'
              : counts
                ? changes
                  ? `Will ${describePlan(counts)}${counts.none ? `; ${counts.hasEntries ? count(counts.none, 'entry', 'entries') : count(counts.none, 'job')} unchanged` : ''}`
                  : 'Nothing to change: everything is as in the text'
                : found && !hasWish
                  ? 'The text contains no job'
                  : 'No plan'}
        </span>
        <LinkButton href="/jobs">Cancel</LinkButton>
        <Button look="primary" disabled={!isCurrent || !changes} isBusy={isBusy} onClick={() => void apply()}>
          Apply
        </Button>
      </div>
    </Screen>
  )
}

function TextArea({ value, onChange, ...rest }: { value: string; onChange: (value: string) => void }) {
  return (
    <textarea
      {...rest}
      className="hb-input hb-mono edit-area import-text"
      rows={16}
      value={value}
      maxLength={MAX_CHARACTERS}
      placeholder={'CRON_TZ=Europe/Berlin\n# Nightly backup\n0 3 * * * /opt/shop/bin/backup'}
      onChange={(event) => onChange(event.target.value)}
      spellCheck={false}
      autoFocus
    />
  )
}

/** Refusals of single jobs by their names; others as the server says them. */
function Refused({ error, names }: { error: unknown; names: readonly string[] }) {
  const errors = error instanceof ApiError ? (error.errors ?? []) : []
  if (!errors.length) return <ErrorNotice error={error} what="This cannot be applied as it is" />
  return (
    <div className="hb-error" role="alert">
      <strong>{count(errors.length, 'reason')} why nothing can be applied yet</strong>
      <ul>
        {errors.map((one, index) => (
          <li key={index}>
            <strong className="import-name">{nameAt(one.pointer, names)}</strong> {one.message}
            {one.hint && <span className="hb-muted">; {one.hint}</span>}
          </li>
        ))}
      </ul>
    </div>
  )
}

/** The names of what a plan deletes. */
function deletedNames(plan: Plan): string[] {
  const entries = entriesOf(plan).filter(({ action }) => action === 'delete')
  return [...plan.deleted.map(({ name }) => name), ...entries.map(({ kind, name }) => `${kind} ${name}`)]
}

/** The channels and alert policies of a plan, each with what it is. */
function entriesOf(plan: Plan) {
  return [...plan.channels.map((each) => ({ ...each, kind: 'channel' })), ...plan.alert_policies.map((each) => ({ ...each, kind: 'alert policy' }))]
}

const ENTRY_ACTIONS: Readonly<Record<string, string>> = { create: '+ create', change: '~ change', delete: '− delete' }

/** What becomes of the channels and alert policies. */
function PlannedEntries({ plan, isDone }: { plan: Plan; isDone: boolean }) {
  const shown = entriesOf(plan).filter(({ action, notes }) => action !== 'none' || notes.length > 0)
  return shown.map(({ kind, name, action, fields, notes }) => (
    <li key={`${kind} ${name}`} data-action={action}>
      <div className="import-plan-head">
        <span className="import-action">{action in ENTRY_ACTIONS ? `${ENTRY_ACTIONS[action]}${isDone ? 'd' : ''}` : '= keep'}</span>
        <strong>
          {kind} {name}
        </strong>
      </div>
      {action === 'change' && <ChangedFields fields={fields} />}
      {notes.map((note) => (
        <p key={note} className="import-note">
          {note}
        </p>
      ))}
    </li>
  ))
}

function ChangedFields({ fields }: { fields: Plan['jobs'][number]['fields'] }) {
  return (
    <dl className="import-fields">
      {fields.map(({ field, before, after }) => (
        <div key={field}>
          <dt>{field}</dt>
          <dd>
            <del>{showValue(before)}</del> <span aria-hidden="true">→</span> <ins>{showValue(after)}</ins>
          </dd>
        </div>
      ))}
    </dl>
  )
}

function PlanList({ plan, isDone = false }: { plan: Plan; isDone?: boolean }) {
  const changed = plan.jobs.filter(({ action }) => action !== 'none')
  const same = plan.jobs.filter(({ action }) => action === 'none')
  return (
    <Card title={isDone ? 'Changes' : 'Plan'}>
      <ul className="import-plan">
        <PlannedEntries plan={plan} isDone={isDone} />
        {plan.deleted.map((job) => (
          <li key={job.id} data-action="delete">
            <div className="import-plan-head">
              <span className="import-action">− {isDone ? 'deleted' : 'delete'}</span>
              {isDone ? job.name : <Link href={jobPath(job)}>{job.name}</Link>}
            </div>
          </li>
        ))}
        {changed.slice(0, SHOWN_JOBS).map((job) => (
          <li key={job.name} data-action={job.action}>
            <div className="import-plan-head">
              <span className="import-action">
                {job.action === 'create' ? `+ create${isDone ? 'd' : ''}` : `~ change${isDone ? 'd' : ''}`}
              </span>
              {job.action === 'create' && !isDone ? <strong>{job.name}</strong> : <Link href={jobPath(job.name)}>{job.name}</Link>}
              {job.after[0] && (
                <span className="hb-muted import-next">
                  next <Time at={job.after[0].at} offset />
                </span>
              )}
            </div>
            {job.action === 'change' && <ChangedFields fields={job.fields} />}
            {[...job.warnings.map(({ message }) => message), ...job.notes].map((note, index) => (
              <p key={index} className="import-note">
                {note}
              </p>
            ))}
          </li>
        ))}
      </ul>
      {changed.length > SHOWN_JOBS && <p className="hb-muted">and {count(changed.length - SHOWN_JOBS, 'more job', 'more jobs')}</p>}
      {same.length > 0 && (
        <details className="import-same">
          <summary>{count(same.length, 'job')} unchanged</summary>
          <p className="hb-muted">{same.map(({ name }) => name).join(', ')}</p>
        </details>
      )}
      {!changed.length && !plan.deleted.length && !same.length && !entriesOf(plan).length && <p className="hb-muted">Nothing to do.</p>}
    </Card>
  )
}

function Results({ plan, path, onAgain }: { plan: Plan; path: readonly (readonly [string, string])[]; onAgain: () => void }) {
  const secrets = [...plan.jobs, ...plan.channels].filter(({ generated_secret }) => generated_secret)
  const what = describePlan(countPlan(plan)).replace('create', 'created').replace('change', 'changed').replace('delete', 'deleted')
  return (
    <Screen
      title="Imported"
      path={path}
      lead={`${what[0]?.toUpperCase() ?? ''}${what.slice(1)}.`}
      actions={
        <>
          <Button onClick={onAgain}>Import more</Button>
          <LinkButton href={withSearch('/jobs', { managed_by: 'file', source: plan.source })} look="primary">
            Show these jobs
          </LinkButton>
        </>
      }
    >
      {secrets.length > 0 && (
        <Card title="Signing secrets, shown only now">
          <div className="edit-stack">
            {secrets.map(({ name, generated_secret }) => (
              <CodeBlock key={name} code={generated_secret ?? ''} label={name} name={`the signing secret of ${name}`} />
            ))}
          </div>
        </Card>
      )}
      <PlanList plan={plan} isDone />
    </Screen>
  )
}

function Teach() {
  return (
    <Empty title="What you can import">
      <p>
        <strong>A crontab</strong>: each entry becomes a disabled job of a Python task that you have yet to write; the command is kept in the description. To run the commands themselves, use <code>hourbell import crontab --commands</code>.
      </p>
      <CodeBlock code="crontab -l" label="Show your crontab" name="the command that shows your crontab" />
      <p>
        <strong>A jobs file</strong>: TOML, YAML or JSON. References to secrets (<code>env:</code>, <code>file:</code>) are left out here; <code>hourbell apply</code> resolves them where the file is.
      </p>
      <CodeBlock code={'[[job]]\nname = "nightly-report"\nschedule = "0 3 * * 1-5"\ntimezone = "Europe/Berlin"\n[job.target]\ntype = "http"\nurl = "https://example.com/report"'} label="jobs.toml" />
    </Empty>
  )
}

/** The value once it has not changed for a while. */
function useSettled<T extends object>(value: T): T {
  const [settled, setSettled] = useState(value)
  const key = JSON.stringify(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(JSON.parse(key) as T), 400)
    return () => clearTimeout(timer)
  }, [key])
  return settled
}
