/** The form of a channel: a new one, or a change of one whose secrets stay as they are unless they are typed again. */
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError } from '../../api/errors'
import { sendJson } from '../../api/client'
import type { Channel } from '../../api/types'
import { Button } from '../../components/Button'
import { CodeBlock } from '../../components/CodeBlock'
import { Dialog } from '../../components/Dialog'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Field, Select } from '../../components/Field'
import { useToast } from '../../components/Toast'
import { CHANNEL_TYPES, channelBody, channelPatch, channelValues, isComplete, objectPatch, OTHER, readObject, type ChannelField, type ChannelValues } from './channelForm'
import { useChannels } from './queries'

const TYPE_OPTIONS = [...Object.entries(CHANNEL_TYPES).map(([type, { label }]) => [type, label] as const), [OTHER, 'another type, as JSON'] as const]

type Saved = Channel & { generated_secret?: string | null }

export function ChannelDialog({ channel, onClose }: { channel?: Channel; onClose: () => void }) {
  const isNew = channel === undefined
  const [name, setName] = useState('')
  const [type, setType] = useState(isNew ? 'webhook' : channel.type in CHANNEL_TYPES ? channel.type : OTHER)
  const [values, setValues] = useState<ChannelValues>(() => (isNew ? {} : channelValues(channel)))
  const [json, setJson] = useState(isNew ? '{\n  "type": ""\n}' : JSON.stringify(channel.config, null, 2))
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const [saved, setSaved] = useState<Saved>()
  const known = useChannels().data?.items ?? []
  const client = useQueryClient()
  const toast = useToast()
  const fields = CHANNEL_TYPES[type]?.fields ?? []
  const isTaken = isNew && known.some((each) => each.name === name.trim())
  const read = type === OTHER ? readObject(json) : { body: {} }
  const body = (): Record<string, unknown> => {
    const object = 'body' in read ? read.body : {}
    if (isNew) return type === OTHER ? object : channelBody(type, values)
    return type === OTHER ? objectPatch(channel.config, object) : channelPatch(channel, values)
  }
  const isReady = 'body' in read && (isNew ? !!name.trim() && !isTaken && (type === OTHER || isComplete(type, values)) : Object.keys(body()).length > 0)
  const save = async () => {
    if (!isReady) return
    setBusy(true)
    setError(undefined)
    try {
      const path = `/channels/${encodeURIComponent(isNew ? name.trim() : channel.name)}`
      const answer = await sendJson<Saved>(isNew ? 'PUT' : 'PATCH', path, body())
      await client.invalidateQueries({ queryKey: ['channels'] })
      setSaved(answer)
      if (!answer.generated_secret) {
        if (!isNew) toast({ text: `The channel ${channel.name} is changed` })
        onClose()
      }
    } catch (error) {
      setError(error)
    }
    setBusy(false)
  }
  if (saved?.generated_secret) {
    return (
      <Dialog
        title={`Signing secret of ${saved.name}`}
        onClose={onClose}
        footer={
          <Button look="primary" onClick={onClose}>
            I have stored it
          </Button>
        }
      >
        <p>Messages are signed with this secret. Copy it now; it is shown only once.</p>
        <CodeBlock code={saved.generated_secret} label="Signing secret" />
      </Dialog>
    )
  }
  const at = (pointer: string) => (error instanceof ApiError ? error.fieldError(pointer) : undefined)
  const isAtField = !!at('/name') || fields.some((field) => at(`/${field.name}`))
  const label = ({ label, isOptional, isSecret }: ChannelField) => (isOptional && (isNew || !isSecret) ? `${label} (optional)` : label)
  return (
    <Dialog
      title={isNew ? 'New channel' : `Edit the channel ${channel.name}`}
      onClose={onClose}
      onSubmit={() => void save()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isBusy={isBusy} disabled={!isReady}>
            {isNew ? 'Create the channel' : 'Save the changes'}
          </Button>
        </>
      }
    >
      {error !== undefined && !isAtField && <ErrorNotice error={error} what={isNew ? 'The channel was not created' : 'The channel was not changed'} />}
      {isNew ? (
        <>
          <Field label="Name" hint="Alert policies refer to it by this name, for example ops." error={isTaken ? 'A channel of this name exists; choose another name.' : at('/name')}>
            <input value={name} onChange={(event) => setName(event.target.value)} autoFocus required maxLength={60} autoComplete="off" autoCapitalize="off" spellCheck={false} />
          </Field>
          <Field label="Type">
            <Select
              value={type}
              options={TYPE_OPTIONS}
              onChange={(next) => {
                setType(next)
                setValues({})
                setError(undefined)
              }}
            />
          </Field>
        </>
      ) : (
        <p className="hb-muted">
          {CHANNEL_TYPES[type]?.label ?? channel.type}
          {channel.origin && ` · ${channel.origin}`}. Messages that wait are sent with the new settings.
        </p>
      )}
      {fields.map((field) => (
        <Field key={`${type} ${field.name}`} label={label(field)} hint={!isNew && field.isSecret ? 'Stored and not shown. Leave it empty to keep it.' : field.hint} error={at(`/${field.name}`)}>
          {field.choices ? (
            <Select value={values[field.name] ?? field.choices[0]} options={field.choices} onChange={(value) => setValues({ ...values, [field.name]: value })} />
          ) : (
            <input
              type={field.isSecret ? 'password' : 'text'}
              inputMode={field.isNumber ? 'numeric' : undefined}
              value={values[field.name] ?? ''}
              placeholder={!isNew && field.isSecret ? 'unchanged' : field.placeholder}
              onChange={(event) => setValues({ ...values, [field.name]: event.target.value })}
              autoComplete={field.isSecret ? 'new-password' : 'off'}
              autoCapitalize="off"
              spellCheck={false}
            />
          )}
        </Field>
      ))}
      {type === OTHER && (
        <Field label="Channel as JSON" hint={isNew ? 'Its type, and the fields of that type. The server checks them.' : 'Without its secrets, which stay as they are unless you add them.'} error={'error' in read ? read.error : undefined}>
          <textarea className="hb-mono" rows={6} value={json} onChange={(event) => setJson(event.target.value)} spellCheck={false} />
        </Field>
      )}
    </Dialog>
  )
}
