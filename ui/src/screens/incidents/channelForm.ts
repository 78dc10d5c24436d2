/** The fields of each type of channel. Types without an entry are written as JSON. */
import type { Channel } from '../../api/types'

export interface ChannelField {
  name: string
  label: string
  hint?: string
  placeholder?: string
  isSecret?: boolean
  isOptional?: boolean
  isNumber?: boolean
  /** The values it may have, the default first. */
  choices?: readonly [string, ...string[]]
}

export const OTHER = 'other'

const HOOK: readonly ChannelField[] = [{ name: 'url', label: 'Address of the incoming webhook', hint: 'The whole URL is secret: it is stored encrypted and not shown again.', isSecret: true }]

export const CHANNEL_TYPES: Record<string, { label: string; fields: readonly ChannelField[] }> = {
  webhook: {
    label: 'webhook: signed JSON',
    fields: [
      { name: 'url', label: 'Address', placeholder: 'https://example.com/alerts' },
      { name: 'secret', label: 'Signing secret', hint: 'Leave empty to generate one; it is shown once.', isSecret: true, isOptional: true },
    ],
  },
  email: {
    label: 'E-mail',
    fields: [{ name: 'to', label: 'To', hint: 'One address, or several separated by commas. The server needs HOURBELL_SMTP_URL.', placeholder: 'ops@example.com' }],
  },
  slack: { label: 'Slack', fields: HOOK },
  mattermost: { label: 'Mattermost', fields: HOOK },
  rocketchat: { label: 'Rocket.Chat', fields: HOOK },
  discord: { label: 'Discord', fields: HOOK },
  ntfy: {
    label: 'ntfy',
    fields: [
      { name: 'topic', label: 'Topic', hint: 'Everybody who knows it can read the messages: it is stored encrypted.', isSecret: true },
      { name: 'url', label: 'Server', placeholder: 'https://ntfy.sh', isOptional: true },
      { name: 'token', label: 'Access token', hint: 'If the topic requires one.', isSecret: true, isOptional: true },
      { name: 'priority', label: 'Priority', hint: 'From 1 to 5.', placeholder: '4', isNumber: true, isOptional: true },
    ],
  },
  telegram: {
    label: 'Telegram',
    fields: [
      { name: 'token', label: 'Bot token', isSecret: true },
      { name: 'chat_id', label: 'Chat', hint: 'The chat id, or @name of a public channel.', placeholder: '-1001234567890' },
      { name: 'thread_id', label: 'Topic id (in a group)', isNumber: true, isOptional: true },
    ],
  },
  pagerduty: {
    label: 'PagerDuty',
    fields: [
      { name: 'routing_key', label: 'Routing key', hint: 'The integration key of a service (Events API v2).', isSecret: true },
      { name: 'severity', label: 'Severity', choices: ['error', 'critical', 'warning', 'info'], isOptional: true },
    ],
  },
  alertmanager: {
    label: 'Alertmanager',
    fields: [
      { name: 'url', label: 'Address', placeholder: 'https://alertmanager.example.com' },
      { name: 'token', label: 'Bearer token', hint: 'If the server requires one.', isSecret: true, isOptional: true },
    ],
  },
}

export type ChannelValues = Readonly<Record<string, string>>

/** The body for a type: empty fields are left out. */
export function channelBody(type: string, values: ChannelValues): Record<string, unknown> {
  const body: Record<string, unknown> = { type }
  for (const field of CHANNEL_TYPES[type]?.fields ?? []) {
    const value = values[field.name]?.trim()
    if (value) body[field.name] = valueOf(field, value)
  }
  return body
}

/** What the form of a stored channel shows: everything but its secrets. */
export function channelValues({ type, config }: Channel): ChannelValues {
  const fields = (CHANNEL_TYPES[type]?.fields ?? []).filter(({ name, isSecret }) => !isSecret && config[name] != null)
  return Object.fromEntries(fields.map(({ name }) => [name, textOf(config[name])]))
}

/** What changed, as a merge patch: a field that was emptied is null, and a secret is part of it only if it was typed. */
export function channelPatch(channel: Channel, values: ChannelValues): Record<string, unknown> {
  const before = channelValues(channel)
  const patch: Record<string, unknown> = {}
  for (const field of CHANNEL_TYPES[channel.type]?.fields ?? []) {
    const value = values[field.name]?.trim() ?? ''
    if (value === (before[field.name] ?? '')) continue
    if (value) patch[field.name] = valueOf(field, value)
    else if (!field.isSecret) patch[field.name] = null
  }
  return patch
}

/** The merge patch that makes one object of another. */
export function objectPatch(before: Record<string, unknown>, after: Record<string, unknown>): Record<string, unknown> {
  const patch: Record<string, unknown> = {}
  for (const name of Object.keys(before)) if (!(name in after)) patch[name] = null
  for (const [name, value] of Object.entries(after)) if (JSON.stringify(value) !== JSON.stringify(before[name])) patch[name] = value
  return patch
}

function textOf(value: unknown): string {
  return Array.isArray(value) ? value.join(', ') : String(value)
}

function valueOf({ isNumber }: ChannelField, value: string): string | number {
  return isNumber && /^\d{1,15}$/.test(value) ? Number(value) : value
}

export function isComplete(type: string, values: ChannelValues): boolean {
  return (CHANNEL_TYPES[type]?.fields ?? []).every(({ name, isOptional }) => isOptional || !!values[name]?.trim())
}

/** A JSON object, or what is wrong with the text. */
export function readObject(text: string): { body: Record<string, unknown> } | { error: string } {
  try {
    const body: unknown = JSON.parse(text)
    if (typeof body === 'object' && body !== null && !Array.isArray(body)) return { body: body as Record<string, unknown> }
    return { error: 'Write a JSON object, as in {"on": ["failed"]}.' }
  } catch (error) {
    return { error: `This is not valid JSON: ${error instanceof Error ? error.message : String(error)}` }
  }
}
