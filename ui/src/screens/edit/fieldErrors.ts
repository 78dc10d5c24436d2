/** What is wrong with each field: what the form itself sees, then what the server says. Pure functions. */
import { ApiError } from '../../api/errors'
import type { Problem } from '../../api/types'

/** Errors below these pointers are shown at their fields. */
const FIELDS = [
  ...['name', 'schedule', 'timezone', 'dst', 'description', 'tags', 'subject', 'payload', 'headers', 'secret_headers'],
  ...['catch_up', 'catch_up_window', 'overlap', 'retry', 'delivery', 'max_age', 'late_after', 'priority', 'jitter', 'starts_at', 'ends_at'],
  ...['url', 'method', 'headers', 'body', 'timeout', 'secret', 'function', 'args', 'database', 'lock_timeout', 'search_path', 'name', 'command', 'label', 'queue'].map((field) => `target/${field}`),
].map((field) => `/${field}`)

const isBelow = (pointer: string, field: string) => pointer === field || pointer.startsWith(`${field}/`)

export interface Refusals {
  /** Of the last try to save. */
  save: ApiError | undefined
  /** Of the dry run. */
  plan: ApiError | undefined
  /** Of the preview of the schedule. */
  preview: ApiError | undefined
}

type Listed = NonNullable<Problem['errors']>

/** The errors that count: of the last try to save, else of the dry run, else of the preview. */
export function listErrors({ save, plan, preview }: Refusals): Listed {
  return [...(save?.errors ?? plan?.errors ?? []), ...(save || plan?.errors?.length ? [] : (preview?.errors ?? []))]
}

export function errorsBelow(errors: Listed, field: string): Listed {
  return errors.filter(({ pointer }) => isBelow(pointer, field))
}

/** The text for a field, or undefined: what the form itself sees first. */
export function textBelow(errors: Listed, local: Readonly<Record<string, string>>, field: string): string | undefined {
  const own = Object.entries(local).find(([at]) => isBelow(at, field))?.[1]
  if (own) return own
  const found = errorsBelow(errors, field)
  return found.length ? found.map(({ message, hint }) => [message, hint].filter(Boolean).join('; ')).join('. ') : undefined
}

/** The errors that no field shows; undefined if the refusal lists none at all. */
export function looseErrors(error: ApiError | undefined): Listed | undefined {
  return error?.errors?.length ? error.errors.filter(({ pointer }) => !FIELDS.some((field) => isBelow(pointer, field))) : undefined
}
