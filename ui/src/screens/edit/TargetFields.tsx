/** What the job calls: a webhook, a SQL function, a task, a command. */
import type { ReactNode } from 'react'
import { Button } from '../../components/Button'
import { Field, Select } from '../../components/Field'
import { Tabs } from '../../components/Tabs'
import { METHODS, TIMEOUTS, type Form, type HeaderRow, type TargetType } from './form'

interface Props {
  form: Form
  set: (patch: Partial<Form>) => void
  error: (...pointers: string[]) => string | undefined
  isNew: boolean
  /** Beside the signing secret of a job that exists. */
  signing: ReactNode
}

const TYPES: readonly (readonly [TargetType, string])[] = [
  ['http', 'HTTP'],
  ['sql', 'SQL function'],
  ['task', 'Python task'],
  ['command', 'Command'],
]

export function TargetFields({ form, set, error, isNew, signing }: Props) {
  const types = form.type === 'queue' ? [...TYPES, ['queue', 'Queue'] as const] : TYPES
  return (
    <>
      <Tabs label="Target type" tabs={types} value={form.type} onChange={(type) => set({ type, timeout: '', args: type === 'http' ? '' : form.args, rest: form.type === 'command' ? {} : form.rest })} />
      {form.type === 'http' && <Http form={form} set={set} error={error} isNew={isNew} signing={signing} />}
      {form.type === 'sql' && (
        <>
          <Field label="Function" hint="With its schema, for example public.run_daily_cleanup. HOURBELL_ALLOW_FUNCTIONS lists the allowed functions." error={error('/target/function')}>
            <input className="hb-mono" value={form.function} onChange={(event) => set({ function: event.target.value })} spellCheck={false} autoComplete="off" />
          </Field>
          <Args form={form} set={set} error={error} hint="Named arguments as JSON. A parameter named payload receives the run’s payload unless it is set here." />
          <div className="edit-columns">
            <Timeout form={form} set={set} error={error} hint="For one call; at most a day." />
            <Field label="Lock timeout" hint="The maximum wait for one lock. Default: no separate limit." error={error('/target/lock_timeout')}>
              <input value={form.lockTimeout} placeholder="none" onChange={(event) => set({ lockTimeout: event.target.value })} />
            </Field>
            <Field label="Database" hint="A name from HOURBELL_SQL_DATABASES. Default: Hourbell’s own." error={error('/target/database')}>
              <input value={form.database} placeholder="default" onChange={(event) => set({ database: event.target.value })} spellCheck={false} />
            </Field>
            <Field label="Search path" hint="Schemas separated by commas. Default: public." error={error('/target/search_path')}>
              <input value={form.searchPath} placeholder="public" onChange={(event) => set({ searchPath: event.target.value })} spellCheck={false} />
            </Field>
          </div>
        </>
      )}
      {form.type === 'task' && (
        <>
          <Field label="Task" hint="The name of a task that a program registered, for example reports.send." error={error('/target/name')}>
            <input className="hb-mono" value={form.task} onChange={(event) => set({ task: event.target.value })} spellCheck={false} autoComplete="off" />
          </Field>
          <Args form={form} set={set} error={error} hint="Keyword arguments of the function, as JSON." />
          <Timeout form={form} set={set} error={error} hint="For one attempt." />
        </>
      )}
      {form.type === 'command' && (
        <>
          <Field
            label="Command"
            hint={form.commandKind === 'shell' ? 'Run by /bin/sh on a node that allows commands.' : 'The program and its arguments as a JSON list; no shell reads them.'}
            error={error('/target/command')}
          >
            <Area rows={3} value={form.command} placeholder={form.commandKind === 'shell' ? 'pg_dump -Fc shop > /backup/shop.dump' : '["/usr/bin/pg_dump", "-Fc", "shop"]'} onChange={(command) => set({ command })} />
          </Field>
          <Tabs
            label="Kind of command"
            tabs={[
              ['shell', 'Shell'],
              ['arguments', 'Arguments'],
            ]}
            value={form.commandKind}
            onChange={(commandKind) => set({ commandKind })}
          />
          <div className="edit-columns">
            <Timeout form={form} set={set} error={error} hint="For one attempt." />
            <Field label="Label" hint="Run only on nodes with this label. Default: default." error={error('/target/label')}>
              <input value={form.label} placeholder="default" onChange={(event) => set({ label: event.target.value })} spellCheck={false} />
            </Field>
          </div>
          {Object.keys(form.rest).length > 0 && <p className="hb-field-hint">Other fields of the target stay as they are: {Object.keys(form.rest).join(', ')}.</p>}
        </>
      )}
      {form.type === 'queue' && (
        <Field label="Queue" error={error('/target/queue')}>
          <input value={form.queue} onChange={(event) => set({ queue: event.target.value })} />
        </Field>
      )}
    </>
  )
}

function Http({ form, set, error, isNew, signing }: Props) {
  return (
    <>
      <div className="edit-url">
        <Field label="Method" error={error('/target/method')}>
          <MethodSelect value={form.method} onChange={(method) => set({ method })} />
        </Field>
        <Field label="URL" error={error('/target/url')}>
          <input className="hb-mono" type="url" inputMode="url" value={form.url} placeholder="https://example.com/hook" onChange={(event) => set({ url: event.target.value })} spellCheck={false} autoComplete="off" />
        </Field>
      </div>
      <Headers rows={form.headers} onChange={(headers) => set({ headers })} error={error} />
      <div className="edit-group">
        <div className="edit-group-head">
          <h3>Body</h3>
          <Tabs
            label="Body"
            tabs={[
              ['envelope', 'Envelope'],
              ['json', 'JSON'],
              ['text', 'Text'],
            ]}
            value={form.bodyKind}
            onChange={(bodyKind) => set({ bodyKind, body: form.body || (bodyKind === 'json' ? '{\n  "id": "{{run.id}}",\n  "data": "{{payload}}"\n}' : '') })}
          />
        </div>
        {form.bodyKind === 'envelope' ? (
          <p className="hb-field-hint">
            The default: a JSON object with the run’s id, the job, the scheduled time, the trigger and the payload.{form.method === 'GET' && ' A GET without a body of its own sends none.'}
          </p>
        ) : (
          <Field
            label="Body"
            isLabelHidden
            error={error('/target/body')}
            hint={
              <>
                Placeholders: <code>{'{{payload.customer.name}}'}</code>, <code>{'{{run.id}}'}</code>, <code>{'{{run.scheduled_at}}'}</code>, <code>{'{{job.name}}'}</code>.
              </>
            }
          >
            <Area rows={6} value={form.body} onChange={(body) => set({ body })} />
          </Field>
        )}
      </div>
      <div className="edit-columns">
        <Timeout form={form} set={set} error={error} hint="1s to 60s, for a whole attempt." />
        {isNew ? (
          <Field label="Signing" hint={form.secret ? 'Requests carry a webhook-signature. The secret is shown once, after saving.' : 'Receivers can verify signed requests (Standard Webhooks).'} error={error('/target/secret')}>
            <SigningSelect value={form.secret} onChange={(secret) => set({ secret })} />
          </Field>
        ) : (
          signing
        )}
      </div>
    </>
  )
}

function MethodSelect({ value, onChange, ...rest }: { value: string; onChange: (value: string) => void }) {
  return <Select {...rest} value={value} options={METHODS} onChange={onChange} />
}

function SigningSelect({ value, onChange, ...rest }: { value: string; onChange: (value: string) => void }) {
  return (
    <Select
      {...rest}
      value={value}
      options={[
        ['', 'not signed (default)'],
        ['generate', 'generate a signing secret'],
      ]}
      onChange={onChange}
    />
  )
}

function Headers({ rows, onChange, error }: { rows: HeaderRow[]; onChange: (rows: HeaderRow[]) => void; error: Props['error'] }) {
  const set = (index: number, patch: Partial<HeaderRow>) => onChange(rows.map((row, at) => (at === index ? { ...row, ...patch } : row)))
  return (
    <div className="edit-group" role="group" aria-label="Headers">
      <div className="edit-group-head">
        <h3>Headers</h3>
        <div className="hb-actions">
          <Button size="small" onClick={() => onChange([...rows, { name: '', value: '', isSecret: false, isStored: false }])}>
            Add a header
          </Button>
          <Button size="small" onClick={() => onChange([...rows, { name: 'Authorization', value: '', isSecret: true, isStored: false }])}>
            Add a secret header
          </Button>
        </div>
      </div>
      {rows.map((row, index) => {
        const wrong = error(`/headers/${index}`, `/target/headers/${escapePointer(row.name)}`, `/secret_headers/${escapePointer(row.name)}`)
        return (
          <div key={index} className="edit-header">
            <input
              className="hb-input hb-mono"
              aria-label={`Name of header ${index + 1}`}
              value={row.name}
              placeholder="Name"
              readOnly={row.isStored}
              onChange={(event) => set(index, { name: event.target.value })}
              spellCheck={false}
              autoComplete="off"
              aria-invalid={wrong ? true : undefined}
            />
            <input
              className="hb-input hb-mono"
              aria-label={`Value of ${row.name || `header ${index + 1}`}`}
              type={row.isSecret ? 'password' : 'text'}
              value={row.value}
              placeholder={row.isStored ? 'stored; type to replace' : row.isSecret ? 'never shown again' : 'Value'}
              onChange={(event) => set(index, { value: event.target.value })}
              spellCheck={false}
              autoComplete="new-password"
              aria-invalid={wrong ? true : undefined}
            />
            {row.isSecret ? <span className="hb-chip">secret</span> : <span />}
            {row.isStored ? (
              <span />
            ) : (
              <Button size="small" look="quiet" aria-label={`Remove header ${row.name || index + 1}`} onClick={() => onChange(rows.filter((_, at) => at !== index))}>
                ×
              </Button>
            )}
            {wrong && (
              <p className="hb-field-error" role="alert">
                {wrong}
              </p>
            )}
          </div>
        )
      })}
      {rows.some((row) => row.isSecret) && (
        <p className="hb-field-hint">
          Secret headers are stored encrypted, sent only to the origin of this URL, and never shown again.
          {rows.some((row) => row.isStored) && ' To remove a stored one: hourbell secret remove JOB header:NAME.'}
        </p>
      )}
    </div>
  )
}

function Args({ form, set, error, hint }: Pick<Props, 'form' | 'set' | 'error'> & { hint: string }) {
  return (
    <Field label="Arguments (JSON)" hint={hint} error={error('/target/args')}>
      <Area rows={4} value={form.args} placeholder='{"days": 30}' onChange={(args) => set({ args })} />
    </Field>
  )
}

function Timeout({ form, set, error, hint }: Pick<Props, 'form' | 'set' | 'error'> & { hint: string }) {
  return (
    <Field label="Timeout" hint={`${hint} Default: ${TIMEOUTS[form.type]}.`} error={error('/target/timeout')}>
      <input value={form.timeout} placeholder={TIMEOUTS[form.type]} onChange={(event) => set({ timeout: event.target.value })} />
    </Field>
  )
}

export function Area({ value, onChange, className = '', ...rest }: { value: string; onChange: (value: string) => void; rows: number; placeholder?: string; className?: string }) {
  return <textarea {...rest} className={`${className} hb-mono edit-area`} value={value} onChange={(event) => onChange(event.target.value)} spellCheck={false} />
}

/** A key in a JSON pointer. */
export function escapePointer(key: string): string {
  return key.trim().replaceAll('~', '~0').replaceAll('/', '~1')
}
