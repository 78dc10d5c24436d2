/** The fields of each type of channel. Types without an entry are written as JSON. */
export interface ChannelField {
  name: string
  label: string
  hint?: string
  placeholder?: string
  isSecret?: boolean
  isOptional?: boolean
}

export const OTHER = 'other'

export const CHANNEL_TYPES: Record<string, { label: string; fields: readonly ChannelField[] }> = {
  webhook: {
    label: 'webhook: signed JSON',
    fields: [
      { name: 'url', label: 'Address', placeholder: 'https://example.com/alerts' },
      { name: 'secret', label: 'Signing secret', hint: 'Leave it empty to have one generated; it is shown once.', isSecret: true, isOptional: true },
    ],
  },
}

export type ChannelValues = Readonly<Record<string, string>>

/** The body for a type: empty fields are left out. */
export function channelBody(type: string, values: ChannelValues): Record<string, string> {
  const body: Record<string, string> = { type }
  for (const { name } of CHANNEL_TYPES[type]?.fields ?? []) {
    const value = values[name]?.trim()
    if (value) body[name] = value
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
