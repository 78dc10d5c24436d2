/** The tab of alert policies: each as sentences, written as JSON. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError } from '../../api/errors'
import { getJson, sendJson } from '../../api/client'
import { useMay } from '../../api/queries'
import type { AlertPolicy } from '../../api/types'
import { Button } from '../../components/Button'
import { CodeBlock } from '../../components/CodeBlock'
import { useConfirm } from '../../components/ConfirmDialog'
import { Dialog } from '../../components/Dialog'
import { ErrorNotice, errorText } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { Loading } from '../../components/Loading'
import { Card } from '../../components/Screen'
import { RelativeTime } from '../../components/Time'
import { useToast } from '../../components/Toast'
import { readObject } from './channelForm'
import { lineOf, policyBody, policySentences, type PolicyFields } from './words'

const DEFAULT = 'default'
const BUILT_IN_BY = 'hourbell'

export function Policies() {
  const policies = useQuery({ queryKey: ['alert-policies'], queryFn: ({ signal }) => getJson<{ items: AlertPolicy[] }>('/alert-policies', {}, signal) })
  const [editing, setEditing] = useState<AlertPolicy | null>(null)
  const mayEdit = useMay('editor')
  const client = useQueryClient()
  const confirm = useConfirm()
  const toast = useToast()
  const remove = async ({ name }: AlertPolicy) => {
    const isSure = await confirm({
      title: name === DEFAULT ? 'Return to the built-in policy?' : `Delete the policy ${name}?`,
      body: <p>{name === DEFAULT ? 'Jobs without a policy of their own then use the built-in one.' : 'Jobs that use it then use the policy default.'}</p>,
      action: name === DEFAULT ? 'Delete default' : `Delete ${name}`,
      isDanger: true,
    })
    if (!isSure) return
    try {
      await sendJson('DELETE', `/alert-policies/${encodeURIComponent(name)}`)
      toast({ text: `The policy ${name} is deleted` })
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
    await client.invalidateQueries({ queryKey: ['alert-policies'] })
  }
  return (
    <>
      <p className="hb-muted incidents-note">A policy says when to alert and whom. The policy default applies to every job without a policy of its own; a job with the policy none is not watched.</p>
      {policies.error && <ErrorNotice error={policies.error} what="The policies could not be loaded" onRetry={() => void policies.refetch()} />}
      {!policies.data && !policies.error && <Loading what="policies" />}
      <div className="incidents-policies">
        {policies.data?.items.map((policy) => {
          const isBuiltIn = policy.name === DEFAULT && policy.updated_by === BUILT_IN_BY
          return (
            <Card
              key={policy.name}
              title={policy.name}
              controls={
                mayEdit && (
                  <>
                    <Button size="small" onClick={() => setEditing(policy)} aria-label={`Edit ${policy.name}`}>
                      Edit
                    </Button>
                    {!isBuiltIn && (
                      <Button size="small" onClick={() => void remove(policy)} aria-label={`Delete ${policy.name}`}>
                        Delete…
                      </Button>
                    )}
                  </>
                )
              }
            >
              <Sentences policy={policy} />
              <p className="hb-muted hb-small incidents-by">
                {isBuiltIn ? (
                  'built in'
                ) : (
                  <>
                    changed <RelativeTime at={policy.updated_at} /> by {policy.updated_by}
                  </>
                )}
              </p>
            </Card>
          )
        })}
      </div>
      {policies.data && <CodeBlock label="On the command line" code={'hourbell alert-policy set default --notify ops --repeat 4h --escalate 30m=pager\nhourbell job edit nightly-report --alert-policy reports'} />}
      {editing && <EditPolicy policy={editing} onClose={() => setEditing(null)} />}
    </>
  )
}

function Sentences({ policy }: { policy: PolicyFields }) {
  const [when, ...others] = policySentences(policy)
  return (
    <div className="incidents-sentences">
      <p>{when}</p>
      <p className="hb-muted">{others.join(' ')}</p>
    </div>
  )
}

export function NewPolicyButton() {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button look="primary" needs="editor" onClick={() => setOpen(true)}>
        New policy
      </Button>
      {isOpen && <EditPolicy onClose={() => setOpen(false)} />}
    </>
  )
}

const NEW = { on: ['failed', 'missed', 'late'], notify: ['ops'], repeat: '4h', escalate: [{ after: '30m', notify: ['pager'] }] }

function EditPolicy({ policy, onClose }: { policy?: AlertPolicy; onClose: () => void }) {
  const [name, setName] = useState(policy?.name ?? '')
  const [text, setText] = useState(() => JSON.stringify(policy ? policyBody(policy) : NEW, null, 2))
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const client = useQueryClient()
  const toast = useToast()
  const read = readObject(text)
  const errors = error instanceof ApiError ? (error.errors ?? []) : []
  const isElsewhere = error !== undefined && !errors.length
  const save = async () => {
    if (!name.trim() || !('body' in read)) return
    setBusy(true)
    setError(undefined)
    try {
      await sendJson('PUT', `/alert-policies/${encodeURIComponent(name.trim())}`, read.body)
      toast({ text: `The policy ${name.trim()} is saved` })
      onClose()
      await client.invalidateQueries({ queryKey: ['alert-policies'] })
    } catch (error) {
      setError(error)
      setBusy(false)
    }
  }
  return (
    <Dialog
      title={policy ? `The policy ${policy.name}` : 'New policy'}
      size="wide"
      onClose={onClose}
      onSubmit={() => void save()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isBusy={isBusy} disabled={!name.trim() || !('body' in read)}>
            Save the policy
          </Button>
        </>
      }
    >
      {isElsewhere && <ErrorNotice error={error} what="The policy was not saved" />}
      {!policy && (
        <Field label="Name" hint="Jobs refer to it in alert_policy.">
          <input value={name} onChange={(event) => setName(event.target.value)} autoFocus required maxLength={60} autoComplete="off" autoCapitalize="off" spellCheck={false} />
        </Field>
      )}
      <Field label="Policy as JSON" hint="Replaces the whole policy; omitted fields get their defaults." error={'error' in read ? read.error : undefined}>
        <textarea className="hb-mono" rows={Math.min(18, Math.max(8, text.split('\n').length + 1))} value={text} onChange={(event) => {
            setText(event.target.value)
            setError(undefined)
          }} spellCheck={false} aria-invalid={errors.length > 0 || undefined} />
      </Field>
      {errors.length > 0 && (
        <div role="alert" className="incidents-field-errors">
          <ul>
            {errors.map((one, index) => {
              const line = lineOf(text, one.pointer)
              return (
                <li key={index}>
                  {line !== null && <span className="hb-muted">line {line} · </span>}
                  {one.pointer && <code>{one.pointer}</code>} {one.message}
                  {one.hint && <span className="hb-muted">; {one.hint}</span>}
                </li>
              )
            })}
          </ul>
        </div>
      )}
      {'body' in read && !errors.length && <Preview body={read.body} />}
    </Dialog>
  )
}

/** What the JSON says, as far as it can be read. */
function Preview({ body }: { body: Record<string, unknown> }) {
  let sentences: PolicyFields | null = null
  try {
    policySentences(body as PolicyFields)
    sentences = body as PolicyFields
  } catch {
    // A field has another type than it should; the server says which.
  }
  return sentences && <Sentences policy={sentences} />
}
