/** What a pasted text is, and what the plan of an import says. Pure. */
import { stringifyJson } from '../../lib/exactJson'

export type Format = 'crontab' | 'jobs-file'

/** A jobs file begins with a table or a key; anything else is read as a crontab. */
export function guessFormat(text: string): Format {
  const lines = text.split('\n').map((line) => line.trim())
  const content = lines.filter((line) => line && !line.startsWith('#'))
  const [first = ''] = content
  if (/^[{[]/.test(first) || content.some((line) => line === '[[job]]' || /^(jobs?|channels|alert_policies):$/.test(line))) return 'jobs-file'
  return /^(source|defaults|incomplete)\s*[:=]/.test(first) ? 'jobs-file' : 'crontab'
}

/** A value of a field for people: texts as they are, the rest as JSON, long ones cut. */
export function showValue(value: unknown, limit = 160): string {
  const text = value === null || value === undefined ? '—' : value === '' ? '""' : typeof value === 'string' ? value : stringifyJson(value)
  const characters = [...text]
  return characters.length > limit ? `${characters.slice(0, limit).join('')}…` : text
}

/** "/jobs/1/schedule" as "report, schedule", and "/channels/ops/url" as "channel ops, url". */
export function nameAt(pointer: string, names: readonly string[]): string {
  const [, kind, entry, inEntry] = /^\/(channels|alert_policies)\/([^/]+)(?:\/(.*))?$/.exec(pointer) ?? []
  if (kind) return `${kind === 'channels' ? 'channel' : 'alert policy'} ${entry}${inEntry ? `, ${inEntry.replaceAll('/', '.')}` : ''}`
  const [, index, field] = /^\/jobs\/(\d+)(?:\/(.*))?$/.exec(pointer) ?? []
  const name = index === undefined ? undefined : names[Number(index)]
  return name === undefined ? pointer : field ? `${name}, ${field.replaceAll('/', '.')}` : name
}

interface Actions {
  readonly action: string
}

/** The parts of a plan that count. */
export interface PlanParts {
  jobs: readonly Actions[]
  deleted: readonly unknown[]
  channels: readonly Actions[]
  alert_policies: readonly Actions[]
}

export interface Counts {
  create: number
  change: number
  none: number
  delete: number
}

/** Counts jobs, channels and alert policies together; `hasEntries` says that there are others than jobs among them. */
export function countPlan(plan: PlanParts): Counts & { hasEntries: boolean } {
  const entries = [...plan.channels, ...plan.alert_policies]
  const all = [...plan.jobs, ...entries]
  const of = (action: string) => all.filter((each) => each.action === action).length
  return { create: of('create'), change: of('change'), none: of('none'), delete: plan.deleted.length + of('delete'), hasEntries: entries.length > 0 }
}

/** "create 2 jobs, change 1 job, delete 3 jobs"; "entries" if there are channels or alert policies among them. */
export function describePlan({ create, change, delete: deleted, hasEntries = false }: Counts & { hasEntries?: boolean }): string {
  const some = (number: number) => `${number.toLocaleString('en')} ${hasEntries ? (number === 1 ? 'entry' : 'entries') : number === 1 ? 'job' : 'jobs'}`
  const parts = [create && `create ${some(create)}`, change && `change ${some(change)}`, deleted && `delete ${some(deleted)}`].filter(Boolean)
  return parts.join(', ')
}
