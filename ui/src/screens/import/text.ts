/** What a pasted text is, and what the plan of an import says. Pure. */
import { stringifyJson } from '../../lib/exactJson'

export type Format = 'crontab' | 'jobs-file'

/** A jobs file begins with a table or a key; anything else is read as a crontab. */
export function guessFormat(text: string): Format {
  const lines = text.split('\n').map((line) => line.trim())
  const content = lines.filter((line) => line && !line.startsWith('#'))
  const [first = ''] = content
  if (/^[{[]/.test(first) || content.some((line) => line === '[[job]]' || /^jobs?:$/.test(line))) return 'jobs-file'
  return /^(source|defaults|incomplete)\s*[:=]/.test(first) ? 'jobs-file' : 'crontab'
}

/** A value of a field for people: texts as they are, the rest as JSON, long ones cut. */
export function showValue(value: unknown, limit = 160): string {
  const text = value === null || value === undefined ? '—' : value === '' ? '""' : typeof value === 'string' ? value : stringifyJson(value)
  const characters = [...text]
  return characters.length > limit ? `${characters.slice(0, limit).join('')}…` : text
}

/** "/jobs/1/schedule" as "report, schedule". */
export function nameAt(pointer: string, names: readonly string[]): string {
  const [, index, field] = /^\/jobs\/(\d+)(?:\/(.*))?$/.exec(pointer) ?? []
  const name = index === undefined ? undefined : names[Number(index)]
  return name === undefined ? pointer : field ? `${name}, ${field.replaceAll('/', '.')}` : name
}

export interface Counts {
  create: number
  change: number
  none: number
  delete: number
}

export function countPlan(plan: { jobs: readonly { action: string }[]; deleted: readonly unknown[] }): Counts {
  const of = (action: string) => plan.jobs.filter((job) => job.action === action).length
  return { create: of('create'), change: of('change'), none: of('none'), delete: plan.deleted.length }
}

/** "create 2 jobs, change 1, delete 3" */
export function describePlan({ create, change, delete: deleted }: Counts): string {
  const jobs = (number: number) => `${number.toLocaleString('en')} ${number === 1 ? 'job' : 'jobs'}`
  const parts = [create && `create ${jobs(create)}`, change && `change ${jobs(change)}`, deleted && `delete ${jobs(deleted)}`].filter(Boolean)
  return parts.join(', ')
}
