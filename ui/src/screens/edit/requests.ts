/** The request that stores a form, and what the form still needs: pure functions. */
import type { JobDetail } from '../../api/types'
import { changeOf, makeBody, withoutDefaults, type Form, type JsonObject } from './form'

export interface Options {
  takeOver: boolean
  dropSecrets: boolean
  dropBacklog: boolean
}

interface Request {
  method: 'POST' | 'PATCH' | 'PUT'
  path: string
  body: JsonObject
  query: Record<string, boolean>
  headers: Record<string, string>
}

/** The request that stores the form; with `dry_run` added it is only planned. */
export function requestOf(form: Form, base: Form, stored: JobDetail | null, options: Options, isPaused = false): Request {
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

/** Fields that a job cannot do without, by their pointers. */
export const NEEDED: Record<string, readonly [isMissing: (form: Form) => boolean, message: string]> = {
  '/name': [(form) => !form.name.trim(), 'Enter a name.'],
  '/schedule': [(form) => !form.schedule.trim(), 'Enter a schedule.'],
  '/target/url': [(form) => form.type === 'http' && !form.url.trim(), 'Enter the URL to call, for example https://example.com/hook.'],
  '/target/function': [(form) => form.type === 'sql' && !form.function.trim(), 'Enter the function to call, for example public.run_daily_cleanup.'],
  '/target/name': [(form) => form.type === 'task' && !form.task.trim(), 'Enter the name of the task.'],
  '/target/command': [(form) => form.type === 'command' && !form.command.trim(), 'Enter the command to run.'],
  '/target/queue': [(form) => form.type === 'queue' && !form.queue.trim(), 'Enter the name of the queue.'],
}
const NEEDED_NAMES: Record<string, string> = { '/name': 'a name', '/schedule': 'a schedule', '/target/url': 'a URL', '/target/function': 'a function', '/target/name': 'a task', '/target/command': 'a command', '/target/queue': 'a queue' }

export function needed(form: Form): string[] {
  return Object.entries(NEEDED).flatMap(([pointer, [isMissing]]) => (isMissing(form) ? [NEEDED_NAMES[pointer] ?? pointer] : []))
}

/**
 * Whether a dry run can say more than the form itself: every needed text is there and is typed to its end. What is half
 * typed is not sent, because a browser logs each refusal as an error.
 */
export function isComplete(form: Form): boolean {
  const { errors } = makeBody(form)
  return !needed(form).length && !Object.keys(errors).length && isName(form.name) && (form.type !== 'http' || isAddress(form.url))
}

export function isName(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,100}$/.test(text)
}

function isAddress(text: string): boolean {
  try {
    const { protocol, hostname } = new URL(text.trim())
    return /^https?:$/.test(protocol) && hostname !== '' && !hostname.endsWith('.')
  } catch {
    return false
  }
}
