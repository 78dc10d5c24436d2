/** The form of a job: what is typed, the body it makes, and how a change is sent. All pure. */
import type { JobDetail } from '../../api/types'
import { parseJson, stringifyJson } from '../../lib/exactJson'
import { parseExpression } from './builder'

export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }
export type TargetType = 'http' | 'sql' | 'task' | 'command' | 'queue'

export interface HeaderRow {
  name: string
  value: string
  isSecret: boolean
  /** A sealed header that the job has; an empty value leaves it as it is. */
  isStored: boolean
}

export interface Form {
  name: string
  schedule: string
  timezone: string
  dst: string
  description: string
  tags: string[]
  subject: string
  type: TargetType
  url: string
  method: string
  headers: HeaderRow[]
  bodyKind: 'envelope' | 'json' | 'text'
  body: string
  /** "" makes none, "generate" makes one, anything else is the caller's own. New jobs only. */
  secret: string
  function: string
  database: string
  lockTimeout: string
  searchPath: string
  task: string
  commandKind: 'shell' | 'arguments'
  /** A text for the shell, or the arguments as a JSON list. */
  command: string
  label: string
  queue: string
  /** Arguments of a SQL function or a task, as JSON. */
  args: string
  /** Empty means the default of the target's type. */
  timeout: string
  /** Target fields that the form does not show; they stay as they are. */
  rest: JsonObject
  payload: string
  catchUp: string
  catchUpWindow: string
  overlap: string
  retry: string
  attempts: string
  backoff: string
  spread: string
  delivery: string
  maxAge: string
  lateAfter: string
  priority: string
  jitter: string
  startsAt: string
  endsAt: string
}

export interface Made {
  body: JsonObject
  /** Values of sealed headers to set. */
  secretHeaders: Record<string, string>
  /** What cannot be sent, by JSON pointer. */
  errors: Record<string, string>
}

const METHODS = ['POST', 'GET', 'PUT', 'PATCH', 'DELETE'] as const
export { METHODS }

export const TIMEOUTS: Record<TargetType, string> = { http: '30s', sql: '30s', task: '10m', command: '1h', queue: '' }

/** Defaults of a job, as a complete body has them. */
export const DEFAULTS: JsonObject = {
  timezone: 'UTC',
  dst: 'once',
  payload: null,
  description: '',
  catch_up: null,
  catch_up_window: null,
  overlap: 'allow',
  retry: 'default',
  delivery: 'at_least_once',
  max_age: '1d',
  late_after: '5m',
  priority: 'normal',
  jitter: '0s',
  starts_at: null,
  ends_at: null,
  tags: [],
  subject: '',
}

const TARGET_DEFAULTS: Record<TargetType, JsonObject> = {
  http: { method: 'POST', headers: {}, body: null, timeout: '30s' },
  sql: { args: {}, database: 'default', timeout: '30s', lock_timeout: null, search_path: ['public'] },
  task: { args: {}, timeout: '10m' },
  command: { label: 'default', timeout: '1h' },
  queue: {},
}

export function emptyForm(): Form {
  return {
    name: '',
    schedule: '0 9 * * *',
    timezone: 'UTC',
    dst: 'once',
    description: '',
    tags: [],
    subject: '',
    type: 'http',
    url: '',
    method: 'POST',
    headers: [],
    bodyKind: 'envelope',
    body: '',
    secret: '',
    function: '',
    database: '',
    lockTimeout: '',
    searchPath: '',
    task: '',
    commandKind: 'shell',
    command: '',
    label: '',
    queue: '',
    args: '',
    timeout: '',
    rest: {},
    payload: '',
    catchUp: '',
    catchUpWindow: '',
    overlap: 'allow',
    retry: 'default',
    attempts: '4',
    backoff: '30s, 2m, 10m',
    spread: '',
    delivery: 'at_least_once',
    maxAge: '',
    lateAfter: '',
    priority: 'normal',
    jitter: '',
    startsAt: '',
    endsAt: '',
  }
}

/** The form of a job as the API shows it. `secrets` are the names of its secrets: "header:Authorization", "signing". */
export function fromJob(job: JsonObject, secrets: readonly string[] = []): Form {
  const target = isObject(job.target) ? job.target : {}
  const type = (['http', 'sql', 'task', 'command', 'queue'] as const).find((each) => each === target.type) ?? 'http'
  const known = new Set(['type', ...{ http: ['url'], sql: ['function'], task: ['name'], command: ['command'], queue: ['queue'] }[type], ...Object.keys(TARGET_DEFAULTS[type])])
  const rest = Object.fromEntries(Object.entries(target).filter(([key]) => !known.has(key)))
  const plain: HeaderRow[] = Object.entries(isObject(target.headers) ? target.headers : {}).map(([name, value]) => ({ name, value: text(value), isSecret: false, isStored: false }))
  const sealed: HeaderRow[] = secrets.filter((field) => field.startsWith('header:')).map((field) => ({ name: field.slice(7), value: '', isSecret: true, isStored: true }))
  const retry = isObject(job.retry) ? job.retry : null
  const own = (value: Json | undefined, fallback: Json | undefined) => (value === undefined || value === null || same(value, fallback ?? null) ? '' : text(value))
  return {
    ...emptyForm(),
    name: text(job.name),
    schedule: text(job.schedule),
    timezone: text(job.timezone ?? 'UTC'),
    dst: text(job.dst ?? 'once'),
    description: text(job.description),
    tags: Array.isArray(job.tags) ? job.tags.map(text) : [],
    subject: text(job.subject),
    type,
    url: text(target.url),
    method: text(target.method ?? 'POST'),
    headers: [...plain, ...sealed],
    bodyKind: target.body === undefined || target.body === null ? 'envelope' : typeof target.body === 'string' ? 'text' : 'json',
    body: target.body === undefined || target.body === null ? '' : typeof target.body === 'string' ? target.body : stringifyJson(target.body, 2),
    function: text(target.function),
    database: own(target.database, 'default'),
    lockTimeout: own(target.lock_timeout, null),
    searchPath: Array.isArray(target.search_path) && !same(target.search_path, ['public']) ? target.search_path.map(text).join(', ') : '',
    task: type === 'task' ? text(target.name) : '',
    commandKind: Array.isArray(target.command) ? 'arguments' : 'shell',
    command: Array.isArray(target.command) ? stringifyJson(target.command) : text(target.command),
    label: type === 'command' ? own(target.label, 'default') : '',
    queue: text(target.queue),
    args: isObject(target.args) && Object.keys(target.args).length ? stringifyJson(target.args, 2) : '',
    timeout: own(target.timeout, TIMEOUTS[type]),
    rest,
    payload: job.payload === undefined || job.payload === null ? '' : stringifyJson(job.payload, 2),
    catchUp: text(job.catch_up),
    catchUpWindow: text(job.catch_up_window),
    overlap: text(job.overlap ?? 'allow'),
    retry: retry ? 'custom' : text(job.retry ?? 'default'),
    ...(retry
      ? { attempts: text(retry.attempts), backoff: Array.isArray(retry.backoff) ? retry.backoff.map(text).join(', ') : '', spread: retry.spread ? text(retry.spread) : '' }
      : {}),
    delivery: text(job.delivery ?? 'at_least_once'),
    maxAge: own(job.max_age, '1d'),
    lateAfter: own(job.late_after, '5m'),
    priority: text(job.priority ?? 'normal'),
    jitter: own(job.jitter, '0s'),
    startsAt: text(job.starts_at),
    endsAt: text(job.ends_at),
  }
}

export function formOf(job: JobDetail): Form {
  const secrets = (job.secrets ?? []).filter(({ valid_until }) => valid_until === null)
  return fromJob(job as unknown as JsonObject, secrets.map(({ field }) => field))
}

/** The complete body of a form, with defaults. */
export function makeBody(form: Form): Made {
  const errors: Record<string, string> = {}
  const secretHeaders: Record<string, string> = {}
  const json = (source: string, pointer: string): Json => {
    try {
      return parseJson(source) as Json
    } catch (error) {
      errors[pointer] = `This is not JSON: ${jsonMessage(error)}. Strings need double quotes, and there is no comma after the last value.`
      return null
    }
  }
  const object = (source: string, pointer: string): Json => {
    const value = source.trim() ? json(source, pointer) : {}
    if (!errors[pointer] && !isObject(value)) errors[pointer] = 'Write a JSON object, such as {"days": 30}.'
    return value
  }
  const headers: JsonObject = {}
  const seen = new Set<string>()
  form.headers.forEach(({ name, value, isSecret, isStored }, index) => {
    const key = name.trim()
    if (!key) {
      if (value) errors[`/headers/${index}`] = 'This header has no name.'
      return
    }
    if (seen.has(key.toLowerCase())) errors[`/headers/${index}`] = `There are two headers ${key}.`
    seen.add(key.toLowerCase())
    if (!isSecret) headers[key] = value
    else if (value) secretHeaders[key] = value
    else if (!isStored) errors[`/headers/${index}`] = 'A secret header needs a value.'
  })
  const timeout = form.timeout.trim() || TIMEOUTS[form.type]
  const target: JsonObject = { type: form.type, ...form.rest }
  if (form.type === 'http') {
    Object.assign(target, { url: form.url.trim(), method: form.method, headers, body: null, timeout })
    if (form.bodyKind === 'text') target.body = form.body
    if (form.bodyKind === 'json') target.body = form.body.trim() ? json(form.body, '/target/body') : null
    if (form.secret) target.secret = form.secret
  } else if (form.type === 'sql') {
    const path = form.searchPath.split(',').map((each) => each.trim()).filter(Boolean)
    Object.assign(target, {
      function: form.function.trim(),
      args: object(form.args, '/target/args'),
      database: form.database.trim() || 'default',
      timeout,
      lock_timeout: form.lockTimeout.trim() || null,
      search_path: path.length ? path : ['public'],
    })
  } else if (form.type === 'task') {
    Object.assign(target, { name: form.task.trim(), args: object(form.args, '/target/args'), timeout })
  } else if (form.type === 'command') {
    const command = form.commandKind === 'shell' ? form.command : json(form.command, '/target/command')
    if (form.commandKind === 'arguments' && !errors['/target/command'] && !Array.isArray(command)) errors['/target/command'] = 'Write a JSON list, such as ["/usr/bin/pg_dump", "-Fc", "shop"].'
    Object.assign(target, { command, label: form.label.trim() || 'default', timeout })
  } else {
    target.queue = form.queue.trim()
  }
  const body: JsonObject = {
    name: form.name.trim(),
    schedule: form.schedule.trim(),
    timezone: form.timezone.trim(),
    dst: form.dst,
    target,
    payload: form.payload.trim() ? json(form.payload, '/payload') : null,
    description: form.description,
    catch_up: form.catchUp || null,
    catch_up_window: form.catchUpWindow.trim() || null,
    overlap: form.overlap,
    retry: form.retry === 'custom' ? customRetry(form, errors) : form.retry,
    delivery: form.delivery,
    max_age: form.maxAge.trim() || '1d',
    late_after: form.lateAfter.trim() || '5m',
    priority: form.priority,
    jitter: form.jitter.trim() || '0s',
    starts_at: form.startsAt.trim() || null,
    ends_at: form.endsAt.trim() || null,
    tags: form.tags,
    subject: form.subject.trim(),
  }
  return { body, secretHeaders, errors }
}

function customRetry(form: Form, errors: Record<string, string>): Json {
  const attempts = Number(form.attempts)
  if (!/^\d{1,3}$/.test(form.attempts.trim()) || attempts < 1 || attempts > 100) errors['/retry/attempts'] = 'Write a whole number from 1 to 100.'
  const backoff: Json[] = form.backoff.split(/[\s,]+/).filter(Boolean).map((each) => (/^\d+(\.\d+)?$/.test(each) ? Number(each) : each))
  if (!backoff.length) errors['/retry/backoff'] = 'Write at least one wait, such as 30s, 2m, 10m.'
  const retry: JsonObject = { attempts, backoff }
  if (form.spread.trim()) {
    retry.spread = Number(form.spread)
    if (!(Number(form.spread) >= 0 && Number(form.spread) <= 1)) errors['/retry/spread'] = 'Write a number from 0 to 1.'
  }
  return retry
}

/** What `catch_up` is if nobody says it: a time that comes once or once a year is never dropped. */
export function defaultCatchUp(schedule: string): 'all' | 'latest' {
  const { mode } = parseExpression(schedule)
  return mode === 'once' || mode === 'yearly' ? 'all' : 'latest'
}

/** A body without the fields that have their default, as one would write it by hand. */
export function withoutDefaults(body: JsonObject): JsonObject {
  const target = isObject(body.target) ? body.target : {}
  const defaults = TARGET_DEFAULTS[(target.type as TargetType) ?? 'http'] ?? {}
  const short = Object.fromEntries(Object.entries(target).filter(([key, value]) => !(key in defaults) || !same(value, defaults[key] ?? null)))
  return Object.fromEntries(
    Object.entries(body)
      .filter(([key, value]) => key === 'target' || !(key in DEFAULTS) || !same(value, DEFAULTS[key] ?? null))
      .filter(([key, value]) => key !== 'catch_up' || value !== defaultCatchUp(text(body.schedule)))
      .map(([key, value]) => [key, key === 'target' ? short : value]),
  )
}

export interface Change {
  method: 'PATCH' | 'PUT'
  body: JsonObject
}

/** The request that turns one body into another: a merge patch, or the whole if a merge patch cannot say it. */
export function changeOf(before: JsonObject, after: JsonObject): Change {
  const patch = diff(before, after)
  return same(settled(merge(before, patch) as JsonObject), settled(after)) ? { method: 'PATCH', body: patch } : { method: 'PUT', body: after }
}

/** Without the nulls that mean a default: those of the job's fields and of its target's fields. */
function settled(body: JsonObject): JsonObject {
  const filled = (object: JsonObject) => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null))
  const short = filled(body)
  return isObject(short.target) ? { ...short, target: filled(short.target) } : short
}

/** Names of top-level fields that differ; those of the target as "target.url". */
export function changedFields(before: JsonObject, after: JsonObject): string[] {
  const found: string[] = []
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, now] = [before[key] ?? null, after[key] ?? null]
    if (same(old, now)) continue
    if (key !== 'target' || !isObject(old) || !isObject(now)) found.push(key)
    else for (const field of new Set([...Object.keys(old), ...Object.keys(now)])) if (!same(old[field] ?? null, now[field] ?? null)) found.push(`target.${field}`)
  }
  return found
}

/** What I typed on top of what somebody else saved: my changed fields, and theirs for the others. */
export function rebase(base: Form, mine: Form, theirs: Form): Form {
  const keep = <T>(old: T, typed: T, saved: T): T => (stringifyJson(old) === stringifyJson(typed) ? saved : typed)
  return Object.fromEntries(Object.keys(mine).map((key) => [key, keep(base[key as keyof Form], mine[key as keyof Form], theirs[key as keyof Form])])) as unknown as Form
}

export function isSameForm(one: Form, other: Form): boolean {
  return stringifyJson(one) === stringifyJson(other)
}

function diff(before: JsonObject, after: JsonObject): JsonObject {
  const patch: JsonObject = {}
  for (const key of Object.keys(before)) if (!(key in after)) patch[key] = null
  for (const [key, value] of Object.entries(after)) {
    const old = before[key]
    if (old !== undefined && same(old, value)) continue
    patch[key] = isObject(old) && isObject(value) ? diff(old, value) : value
  }
  return patch
}

/** A JSON merge patch (RFC 7396). */
function merge(before: Json, patch: Json): Json {
  if (!isObject(patch)) return patch
  const made: JsonObject = isObject(before) ? { ...before } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete made[key]
    else made[key] = merge(made[key] ?? null, value)
  }
  return made
}

/** Whether two JSON values are the same, whatever the order of keys; 1 and 1.0 are the same number. */
export function same(one: Json, other: Json): boolean {
  if (Array.isArray(one)) return Array.isArray(other) && one.length === other.length && one.every((each, index) => same(each, other[index] ?? null))
  if (isObject(one)) {
    if (!isObject(other)) return false
    const keys = Object.keys(one)
    return keys.length === Object.keys(other).length && keys.every((key) => Object.hasOwn(other, key) && same(one[key] ?? null, other[key] ?? null))
  }
  return Object.is(one, other) || one === other
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function text(value: Json | undefined): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'string' ? value : stringifyJson(value)
}

function jsonMessage(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/^this is not JSON /, '').replace(/\.$/, '')
}

/** A name from what is typed: a space is not allowed in names, and a hyphen is what was meant. */
export function nameOf(typed: string): string {
  return typed.replace(/\s/g, '-')
}

/** What the optional texts of a form say, in short. */
export function describeMore({ description, tags, subject }: Pick<Form, 'description' | 'tags' | 'subject'>): string {
  return [description, tags.join(', '), subject].filter(Boolean).join(' · ')
}
