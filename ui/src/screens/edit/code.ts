/** The same job as a curl command, in a jobs file, and in Python. Pure; every text is quoted for its language. */
import { stringifyJson } from '../../lib/exactJson'
import { isObject, type Change, type Json, type JsonObject } from './form'

/** A text as one word of a POSIX shell. */
export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** `change` is the request for a job that exists; without it the job is created. Secret values are variables to set. A server without tokens refuses any. */
export function asCurl(base: string, body: JsonObject, secretNames: readonly string[], job?: { name: string; version: number; change: Change }, hasTokens = true): string {
  const method = job ? job.change.method : 'POST'
  const path = `/api/v1/jobs${job ? `/${encodeURIComponent(job.name)}` : ''}`
  const lines = [`curl -X ${method} ${shellQuote(base + path)}`, ...(hasTokens ? [`-H "Authorization: Bearer $HOURBELL_TOKEN"`] : []), `-H 'Content-Type: application/json'`]
  if (job) lines.push(`-H ${shellQuote(`If-Match: "${job.version}"`)}`)
  const sent: JsonObject = { ...(job ? job.change.body : body) }
  if (secretNames.length) sent.secret_headers = Object.fromEntries(secretNames.map((name) => [name, 'FILL IN']))
  lines.push(`--data ${shellQuote(stringifyJson(sent, 2))}`)
  return lines.join(' \\\n  ')
}

/** A `[[job]]` of a jobs file. Secret headers refer to environment variables. */
export function asToml(body: JsonObject, secretNames: readonly string[]): string {
  const lines = ['[[job]]']
  let target = isObject(body.target) ? body.target : {}
  if (secretNames.length) target = { ...target, headers: { ...(isObject(target.headers) ? target.headers : {}), ...Object.fromEntries(secretNames.map((name) => [name, `env:${variable(name)}`])) } }
  for (const [key, value] of Object.entries({ ...body, target })) {
    if (value === null) continue
    if ((key === 'payload' || key === 'target') && !canBeToml(value)) lines.push(`${key}_json = ${tomlText(stringifyJson(value))}`)
    else if ((key === 'starts_at' || key === 'ends_at') && typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(value)) lines.push(`${key} = ${value}`)
    else lines.push(`${key} = ${tomlValue(value)}`)
  }
  return lines.join('\n')
}

/** A decorated function for a task, a call of the client for other targets. */
export function asPython(body: JsonObject, secretNames: readonly string[]): string {
  const target = isObject(body.target) ? body.target : {}
  if (target.type === 'task') return asDecorator(body, target)
  const made: JsonObject = { ...body }
  const lines = ['from hourbell.client import Client', '', 'client = Client()', `client.jobs.create(${pythonValue(made, 0)})`]
  if (secretNames.length) {
    lines.unshift('import os', '')
    const pairs = secretNames.map((name) => `        ${pythonText(name)}: os.environ[${pythonText(variable(name))}],`)
    lines[lines.length - 1] = lines[lines.length - 1]!.replace(/\}\)$/, `    "secret_headers": {\n${pairs.join('\n')}\n    },\n})`)
  }
  return lines.join('\n')
}

function asDecorator(body: JsonObject, target: JsonObject): string {
  const options = Object.entries(body).filter(([key]) => !['name', 'schedule', 'target', 'starts_at', 'ends_at'].includes(key))
  const args = isObject(target.args) ? target.args : {}
  const times = ['starts_at', 'ends_at'].filter((key) => typeof body[key] === 'string')
  const parameters = [
    pythonValue(body.schedule ?? '', 1),
    `name=${pythonValue(body.name ?? '', 1)}`,
    ...options.map(([key, value]) => `${key}=${pythonValue(value, 1)}`),
    ...times.map((key) => `${key}=datetime.fromisoformat(${pythonValue(body[key] ?? '', 1)})`),
    ...(Object.keys(args).length ? [`args=${pythonValue(args, 1)}`] : []),
    ...(target.timeout ? [`timeout=${pythonValue(target.timeout, 1)}`] : []),
  ]
  const name = String(target.name ?? '').split('.').at(-1) ?? ''
  const isName = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !PYTHON_WORDS.has(name)
  const keywords = Object.keys(args)
  const areNames = keywords.every((key) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(key) && !PYTHON_WORDS.has(key) && key !== 'run')
  return [
    ...(times.length ? ['from datetime import datetime', ''] : []),
    'from hourbell import Scheduler',
    '',
    'scheduler = Scheduler("my-program")',
    '',
    '',
    `@scheduler.job(\n    ${parameters.join(',\n    ')},\n)`,
    `def ${isName ? name : 'my_task'}(run${areNames ? keywords.map((key) => `, ${key}`).join('') : ', **args'}):`,
    '    ...',
  ].join('\n')
}

const PYTHON_WORDS = new Set('False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield'.split(' '))

export function pythonText(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

export function pythonValue(value: Json, depth: number): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'string') return pythonText(value)
  if (typeof value !== 'object') return String(value)
  const pad = '    '.repeat(depth + 1)
  const parts = Array.isArray(value) ? value.map((each) => pythonValue(each, depth + 1)) : Object.entries(value).map(([key, each]) => `${pythonText(key)}: ${pythonValue(each, depth + 1)}`)
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}']
  const short = `${open}${parts.join(', ')}${close}`
  if (depth > 0 && short.length + depth * 4 <= 88 && !short.includes('\n')) return short
  return parts.length ? `${open}\n${parts.map((part) => `${pad}${part},\n`).join('')}${'    '.repeat(depth)}${close}` : short
}

const LARGEST = 2n ** 63n - 1n

export function canBeToml(value: Json): boolean {
  if (value === null) return false
  if (typeof value === 'bigint') return value <= LARGEST && value >= -LARGEST - 1n
  if (typeof value === 'number') return !Number.isInteger(value) || Number.isSafeInteger(value)
  if (Array.isArray(value)) return value.every(canBeToml)
  return typeof value !== 'object' || Object.values(value).every(canBeToml)
}

export function tomlValue(value: Json): string {
  if (typeof value === 'string') return tomlText(value)
  if (typeof value === 'number' && !Number.isInteger(value)) return String(value).replace(/^(-?\d+)e/, '$1.0e')
  if (Array.isArray(value)) return `[${value.map(tomlValue).join(', ')}]`
  if (isObject(value)) {
    const pairs = Object.entries(value).map(([key, each]) => `${/^[A-Za-z0-9_-]+$/.test(key) ? key : tomlText(key)} = ${tomlValue(each)}`)
    return pairs.length ? `{ ${pairs.join(', ')} }` : '{}'
  }
  return String(value)
}

/** A basic string of TOML: one line, with escapes. */
export function tomlText(text: string): string {
  return `"${[...text].map(tomlCharacter).join('')}"`
}

function tomlCharacter(character: string): string {
  const short: Record<string, string> = { '\b': '\\b', '\t': '\\t', '\n': '\\n', '\f': '\\f', '\r': '\\r', '"': '\\"', '\\': '\\\\' }
  const code = character.codePointAt(0) ?? 0
  if (short[character]) return short[character]
  // Lone surrogates are no characters of TOML.
  if (code >= 0xd800 && code <= 0xdfff) return '\\uFFFD'
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code === 0x2028 || code === 0x2029 || code === 0xfeff ? `\\u${code.toString(16).toUpperCase().padStart(4, '0')}` : character
}

function variable(header: string): string {
  return header.toUpperCase().replace(/[^A-Z0-9]+/g, '_').replace(/^_|_$/g, '') || 'SECRET'
}
