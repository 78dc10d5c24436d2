/** The rows of the time line: their order, their groups, and what each says of itself. */
import type { TimelineRow } from '../../api/types'
import { formatDuration } from '../../lib/duration'
import type { Fate } from '../../lib/outcome'
import { errorLine } from '../../lib/errorLine'
import { formatTime } from '../../lib/time'

export interface Group {
  /** The tag; null for jobs without one. */
  tag: string | null
  rows: TimelineRow[]
}

/** Rows by their first tag in the alphabet, jobs without a tag at the end. Rows keep their order. */
export function groupByTag(rows: readonly TimelineRow[]): Group[] {
  const groups = new Map<string | null, TimelineRow[]>()
  for (const row of rows) {
    const tag = [...row.job.tags].sort()[0] ?? null
    const known = groups.get(tag)
    if (known) known.push(row)
    else groups.set(tag, [row])
  }
  return [...groups]
    .map(([tag, found]) => ({ tag, rows: found }))
    .sort((one, other) => (one.tag === null ? 1 : other.tag === null ? -1 : one.tag.localeCompare(other.tag)))
}

/** A line of the time line: the heading of a group, or a job. */
export type Line = { kind: 'group'; tag: string | null; count: number } | { kind: 'job'; row: TimelineRow }

export function linesOf(rows: readonly TimelineRow[], isGrouped: boolean): Line[] {
  if (!isGrouped) return rows.map((row) => ({ kind: 'job', row }))
  return groupByTag(rows).flatMap(({ tag, rows: found }): Line[] => [{ kind: 'group', tag, count: found.length }, ...found.map((row): Line => ({ kind: 'job', row }))])
}

/** The mark beside the name. */
export function rowFate({ job }: TimelineRow): Fate {
  if (job.attention === 'failing') return 'failed'
  if (job.attention === 'retrying') return 'retrying'
  if (job.attention === 'losing') return 'skipped'
  if (job.attention === 'late') return 'late'
  if (job.state === 'paused') return 'paused'
  if (job.state === 'error') return 'failed'
  return job.last_state === 'succeeded' ? 'succeeded' : job.last_state === 'cancelled' ? 'cancelled' : job.last_state ? 'running' : 'planned'
}

/** The second line of a row: what needs attention, else the schedule in words. */
export function rowNote({ job }: TimelineRow, zone: string, now: number): string {
  if (job.attention === 'paused') return pauseText(job.paused, zone, now)
  if (job.attention === 'retrying' && job.retry) return [retryText(job.retry, zone, now), job.retry.error && errorLine(job.retry.error)].filter(Boolean).join(' · ')
  if (job.attention === 'late') return (job.attention_note ?? 'a run is late').replace(/, since [0-9T:.Z-]+$/, '')
  return job.attention_note ?? job.words ?? job.schedule
}

/** "attempt 1 failed, attempt 2 at 14:05" */
export function retryText({ attempt, next_at }: NonNullable<TimelineRow['job']['retry']>, zone: string, now: number): string {
  const next = next_at === null ? 'is running' : Date.parse(next_at) <= now ? 'is due' : `at ${formatTime(next_at, zone, { now, shortToday: true, seconds: true })}`
  return `attempt ${attempt} failed, attempt ${attempt + 1} ${next}`
}

export function pauseText(paused: TimelineRow['job']['paused'], zone: string, now: number): string {
  const by = paused?.by ? ` by ${paused.by}` : ''
  const until = paused?.until ? ` until ${formatTime(paused.until, zone, { now, shortToday: true })}` : ''
  return `paused${by}${until}${paused?.note ? ` · ${paused.note}` : ''}`
}

/** "At 03:00 · usually takes 13 min · 4 failed in a row" */
export function usualText({ job }: TimelineRow): string {
  const takes = job.median_duration_ms === null ? '' : ` · usually takes ${formatDuration(job.median_duration_ms).replaceAll(' ', '\u00a0')}`
  return `${job.words ?? job.schedule}${takes}`
}
