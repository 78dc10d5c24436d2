/** What the screen says about a job: pure functions. */
import type { JobDetail, RecentTime } from '../../api/types'
import { formatDuration } from '../../lib/duration'
import type { Fate } from '../../lib/outcome'

/** "Of the last 20 times 18 ran, 1 failed and 1 was skipped; the latest was 38 s late." */
export function recentSentence(recent: readonly RecentTime[]): string {
  if (!recent.length) return 'It has not been due yet.'
  const number = (fate: Fate) => recent.filter((time) => time.fate === fate).length
  const ran = number('succeeded') + number('late')
  const parts = [
    ran ? `${ran} succeeded` : '',
    number('failed') ? `${number('failed')} failed` : '',
    number('skipped') ? `${number('skipped')} ${number('skipped') === 1 ? 'was' : 'were'} skipped` : '',
    number('cancelled') ? `${number('cancelled')} ${number('cancelled') === 1 ? 'was' : 'were'} cancelled` : '',
    unfinished(recent) ? `${unfinished(recent)} ${unfinished(recent) === 1 ? 'is' : 'are'} unfinished` : '',
  ].filter(Boolean)
  const late = Math.max(0, ...recent.map((time) => time.lateness_ms ?? 0))
  const lateness = late >= 1000 ? `; the latest began ${formatDuration(late)} late` : ''
  if (recent.length === 1) return `Its only time so far ${parts.join(', ').replace(/^1 /, '')}${lateness}.`
  return `Of the last ${recent.length} times, ${join(parts)}${lateness}.`
}

function unfinished(recent: readonly RecentTime[]): number {
  return recent.filter((time) => ['running', 'waiting', 'retrying'].includes(time.fate)).length
}

function join(parts: readonly string[]): string {
  return parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`
}

export interface Setting {
  label: string
  value: string
  isDefault: boolean
  note?: string
}

const ONE_RUN_EACH = /^(@yearly|@annually|at\b|RRULE:.*FREQ=YEARLY)/i

/** Every policy in force, the defaults marked. */
export function settingsOf(job: JobDetail): Setting[] {
  const isRare = ONE_RUN_EACH.test(job.schedule.trim())
  const one = (label: string, value: unknown, usual: string, note?: string): Setting => {
    const text = value === null || value === undefined || value === '' ? usual : String(value)
    return { label, value: text, isDefault: text === usual, ...(note ? { note } : {}) }
  }
  return [
    one('Time zone', job.timezone, 'UTC'),
    one('Clock changes', job.dst, 'once', DST[job.dst]),
    one('Missed times', job.catch_up, isRare ? 'all' : 'latest', CATCH_UP[job.catch_up ?? ''] ?? ''),
    ...(job.catch_up_window ? [one('Catch-up window', job.catch_up_window, '')] : []),
    one('Overlap', job.overlap, 'allow', OVERLAP[job.overlap]),
    retrySetting(job.retry),
    one('Delivery', job.delivery, 'at_least_once'),
    one('Gives up after', job.max_age, '1d'),
    one('Late after', job.late_after, '5m'),
    one('Priority', job.priority, 'normal'),
    one('Jitter', job.jitter, '0s'),
    ...(job.starts_at ? [one('Starts', job.starts_at, '')] : []),
    ...(job.ends_at ? [one('Ends', job.ends_at, '')] : []),
    one('Subject', job.subject, 'none'),
  ]
}

export const CATCH_UP: Record<string, string> = {
  latest: 'after an outage, one run for the newest missed time',
  earliest: 'after an outage, one run for the oldest missed time',
  all: 'after an outage, one run for each missed time',
  none: 'after an outage, missed times do not run',
}
export const OVERLAP: Record<string, string> = {
  allow: 'a run starts while the previous one is unfinished',
  skip: 'a time is skipped while a run is unfinished',
  queue_one: 'one run waits for the previous one, further times are skipped',
  queue_all: 'each run waits for the previous one',
  cancel_running: 'the new run replaces the previous one, which is asked to stop',
}
const DST: Record<string, string> = {
  once: 'a repeated time runs once, a skipped one runs right after',
}

function retrySetting(retry: JobDetail['retry']): Setting {
  if (typeof retry === 'string') return { label: 'Retry', value: PRESETS[retry] ?? retry, isDefault: retry === 'default' }
  const waits = retry.backoff.map(String).join(', ')
  return { label: 'Retry', value: `${retry.attempts} attempts${retry.attempts > 1 ? `, after ${waits}` : ''}`, isDefault: false }
}

const PRESETS: Record<string, string> = {
  default: '4 attempts, after 30s, 2m, 10m',
  fixed: '3 attempts, after 1m each',
  exponential: 'exponential, with jitter',
  none: 'one attempt',
}

/** Points of a line chart in a box; null values leave a gap. */
export function linePath(values: readonly (number | null)[], width: number, height: number, max: number): string {
  const step = values.length > 1 ? width / (values.length - 1) : 0
  let isDown = false
  return values
    .map((value, index) => {
      if (value === null) {
        isDown = false
        return ''
      }
      const command = isDown ? 'L' : 'M'
      isDown = true
      return `${command}${(index * step).toFixed(1)} ${(height - (max ? value / max : 0) * height).toFixed(1)}`
    })
    .filter(Boolean)
    .join('')
}

/** A round number at or above the largest value, for the axis: 1, 2 or 5 times a power of ten of its unit. */
export function niceMax(largest: number): number {
  if (largest <= 0) return 1
  const units = [1, 1000, 60_000, 3_600_000, 86_400_000]
  const unit = units.findLast((one) => largest >= one) ?? 1
  const inUnit = largest / unit
  const power = 10 ** Math.floor(Math.log10(inUnit))
  const step = [1, 2, 3, 5, 10].find((factor) => factor * power >= inUnit) ?? 10
  return step * power * unit
}

export interface DayCell {
  date: string
  column: number
  row: number
}

/** The days from a Monday about a year ago to today, by week and weekday. */
export function yearCells(today: string, weeks = 53): DayCell[] {
  const end = Date.parse(`${today}T00:00:00Z`)
  const weekday = (new Date(end).getUTCDay() + 6) % 7
  const start = end - ((weeks - 1) * 7 + weekday) * 86_400_000
  const days = (weeks - 1) * 7 + weekday + 1
  return Array.from({ length: days }, (_, index) => ({ date: new Date(start + index * 86_400_000).toISOString().slice(0, 10), column: Math.floor(index / 7), row: index % 7 }))
}

/** The worst fate of a day decides its mark. */
export function fateOfDay(day: { succeeded: number; failed: number; late: number; skipped: number; cancelled: number; unfinished: number }): Fate {
  if (day.failed) return 'failed'
  if (day.late) return 'late'
  if (day.succeeded) return day.skipped ? 'late' : 'succeeded'
  if (day.skipped) return 'skipped'
  return day.cancelled ? 'cancelled' : 'running'
}
