/** The fields of each type of channel. Types without an entry are written as JSON. */
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

const HOOK: readonly ChannelField[] = [{ name: 'url', label: 'Address of the incoming webhook', hint: 'All of it is secret: it is sealed and not shown again.', isSecret: true }]

export const CHANNEL_TYPES: Record<string, { label: string; fields: readonly ChannelField[] }> = {
  webhook: {
    label: 'webhook: signed JSON',
    fields: [
      { name: 'url', label: 'Address', placeholder: 'https://example.com/alerts' },
      { name: 'secret', label: 'Signing secret', hint: 'Leave it empty to have one generated; it is shown once.', isSecret: true, isOptional: true },
    ],
  },
  email: {
    label: 'E-mail',
    fields: [{ name: 'to', label: 'To', hint: 'One address, or several with commas. The server needs HOURBELL_SMTP_URL.', placeholder: 'ops@example.com' }],
  },
  slack: { label: 'Slack', fields: HOOK },
  mattermost: { label: 'Mattermost', fields: HOOK },
  rocketchat: { label: 'Rocket.Chat', fields: HOOK },
  discord: { label: 'Discord', fields: HOOK },
  ntfy: {
    label: 'ntfy',
    fields: [
      { name: 'topic', label: 'Topic', hint: 'Who knows it can read the messages: it is sealed.', isSecret: true },
      { name: 'url', label: 'Server', placeholder: 'https://ntfy.sh', isOptional: true },
      { name: 'token', label: 'Access token', hint: 'If the topic needs one.', isSecret: true, isOptional: true },
      { name: 'priority', label: 'Priority', hint: 'From 1 to 5.', placeholder: '4', isNumber: true, isOptional: true },
    ],
  },
  telegram: {
    label: 'Telegram',
    fields: [
      { name: 'token', label: 'Token of the bot', isSecret: true },
      { name: 'chat_id', label: 'Chat', hint: 'Its number, or @name of a public channel.', placeholder: '-1001234567890' },
      { name: 'thread_id', label: 'Topic of a group', isNumber: true, isOptional: true },
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
      { name: 'token', label: 'Bearer token', hint: 'If it asks for one.', isSecret: true, isOptional: true },
    ],
  },
}

export type ChannelValues = Readonly<Record<string, string>>

/** The body for a type: empty fields are left out. */
export function channelBody(type: string, values: ChannelValues): Record<string, unknown> {
  const body: Record<string, unknown> = { type }
  for (const { name, isNumber } of CHANNEL_TYPES[type]?.fields ?? []) {
    const value = values[name]?.trim()
    if (value) body[name] = isNumber && /^\d{1,15}$/.test(value) ? Number(value) : value
  }
  return body
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
    return { error: `This is no JSON yet: ${error instanceof Error ? error.message : String(error)}` }
  }
}
