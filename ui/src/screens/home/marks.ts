/** What the time line shows of a job, as marks with their place in pixels. Nothing here touches the screen. */
import type { TimelineBucket, TimelineRow, TimelineRun } from '../../api/types'
import { fateOf, type Fate } from '../../lib/outcome'
import { toX, type Span } from './scale'

export interface Box {
  /** Where the mark begins and ends; marks of an instant have the width of their shape. */
  x: number
  end: number
}

export interface RunMark extends Box {
  kind: 'run'
  at: number
  fate: Fate
  /** Succeeded, but not at the first attempt. */
  isRetried: boolean
  /** Where the lead-in begins: the scheduled time of a run that began later. */
  lead: number | null
  run: TimelineRun
}

export interface SkipMark extends Box {
  kind: 'skip'
  at: number
  last: number
  count: number
  reason: string
}

export interface PlanMark extends Box {
  kind: 'plan'
  at: number
}

export interface BucketMark extends Box {
  kind: 'bucket'
  at: number
  until: number
  /** Scheduled times in the bucket, and that number as a share of the fullest bucket of the job. */
  total: number
  share: number
  bucket: TimelineBucket
}

export type Mark = RunMark | SkipMark | PlanMark | BucketMark

export interface Pause extends Box {
  from: number
  until: number | null
}

/** Narrowest marks, in pixels. */
export const BAR = 3
export const PLAN = 4
export const DIAMOND = 10
export const CIRCLE = 8
const MIN_LEAD = 5

export function layoutRow(row: TimelineRow, bucketSeconds: number, span: Span, width: number, now: number): Mark[] {
  const x = (at: number) => toX(at, span, width)
  const found: Mark[] = []
  const add = (mark: Mark) => {
    if (mark.end >= -1 && left(mark) <= width + 1) found.push(mark)
  }
  const { runs, planned, skips, buckets, most } = parse(row)
  for (const bucket of buckets) add(bucketMark(bucket, bucketSeconds * 1000, most, x))
  if (row.buckets === null) {
    for (const run of runs) add(runMark(run, x, now))
    for (const at of planned) add(planMark(at, row.job.median_duration_ms ?? 0, x))
    for (const skip of skips) add(skipMark(skip, x))
  }
  return found.sort((one, other) => middle(one) - middle(other))
}

interface ParsedRun {
  run: TimelineRun
  at: number
  began: number | null
  ended: number | null
}

interface Parsed {
  runs: ParsedRun[]
  planned: number[]
  skips: { at: number; last: number; count: number; reason: string }[]
  buckets: { at: number; total: number; bucket: TimelineBucket }[]
  most: number
}

const parsed = new WeakMap<TimelineRow, Parsed>()

/** Times as numbers, once for each answer: zoom and pan lay out the same rows many times. */
function parse(row: TimelineRow): Parsed {
  let found = parsed.get(row)
  if (!found) {
    const buckets = (row.buckets ?? []).map((bucket) => ({ at: Date.parse(bucket.at), total: bucketTotal(bucket), bucket }))
    found = {
      runs: row.runs.map(parseRun),
      planned: row.planned.map((at) => Date.parse(at)),
      skips: row.skips.map(({ first_at, last_at, count, reason }) => ({ at: Date.parse(first_at), last: Date.parse(last_at), count, reason })),
      buckets,
      most: buckets.reduce((most, { total }) => Math.max(most, total), 1),
    }
    parsed.set(row, found)
  }
  return found
}

export function parseRun(run: TimelineRun): ParsedRun {
  return { run, at: Date.parse(run.scheduled_at), began: run.started_at ? Date.parse(run.started_at) : null, ended: run.finished_at ? Date.parse(run.finished_at) : null }
}

export function runMark({ run, at, began, ended }: ParsedRun, x: (at: number) => number, now: number): RunMark {
  const fate = fateOf(run.state, run.is_late)
  const due = x(at)
  // A run that waits reaches from its scheduled time to now.
  if (began === null && ended === null) return { kind: 'run', at, fate, isRetried: false, lead: null, x: due, end: Math.max(due + CIRCLE, x(now)), run }
  const start = x(began ?? at)
  const stop = began === null ? start : Math.max(start, x(ended ?? now))
  // A replay or a backfill begins long after its scheduled time on purpose.
  const isOnSchedule = run.kind === 'scheduled' || run.kind === 'manual'
  const hasLead = isOnSchedule && (start - due >= MIN_LEAD || fate === 'late')
  return { kind: 'run', at, fate, isRetried: run.state === 'succeeded' && run.attempt > 1, lead: hasLead ? Math.min(due, start - MIN_LEAD) : null, x: start, end: Math.max(stop, start + BAR), run }
}

function planMark(at: number, duration: number, x: (at: number) => number): PlanMark {
  return { kind: 'plan', at, x: x(at), end: Math.max(x(at + duration), x(at) + PLAN) }
}

/** One circle for a single time. Of a range only the first and the last time are known: a capsule from one to the other. */
function skipMark({ at, last, count, reason }: Parsed['skips'][number], x: (at: number) => number): SkipMark {
  return { kind: 'skip', at, last, count, reason, x: x(at) - CIRCLE / 2, end: x(last) + CIRCLE / 2 }
}

function bucketMark({ at, total, bucket }: Parsed['buckets'][number], length: number, most: number, x: (at: number) => number): BucketMark {
  return { kind: 'bucket', at, until: at + length, total, share: total / most, bucket, x: x(at), end: x(at + length) }
}

export function bucketTotal(bucket: TimelineBucket): number {
  return bucket.succeeded + bucket.failed + bucket.late + bucket.cancelled + bucket.unfinished + bucket.skipped + bucket.planned
}

/** The pause of a job, as far as its beginning and its end are known. */
export function pauseOf(row: TimelineRow, span: Span, width: number, now: number): Pause | null {
  if (row.job.state !== 'paused') return null
  const from = row.job.paused?.since ? Date.parse(row.job.paused.since) : now
  const until = row.job.paused?.until ? Date.parse(row.job.paused.until) : null
  const x = Math.max(0, toX(from, span, width))
  const end = Math.min(width, until === null ? width : toX(until, span, width))
  return end > x ? { from, until, x, end } : null
}

/** Where a mark begins, with its lead-in. */
export function left(mark: Mark): number {
  return mark.kind === 'run' && mark.lead !== null ? mark.lead : mark.x
}

export function middle(mark: Box): number {
  return (mark.x + mark.end) / 2
}

/** The mark at a pixel: of those that hold it the narrowest, else the closest within `reach`. */
export function markAt(marks: readonly Mark[], x: number, reach = 6): Mark | null {
  let best: Mark | null = null
  let bestDistance = Infinity
  for (const mark of marks) {
    const low = left(mark)
    const isInside = x >= low && x <= mark.end
    const outside = isInside ? 0 : Math.max(low - x, x - mark.end)
    if (outside > reach) continue
    // Inside, narrow marks win over the wide ones that they lie on; outside, the closest wins.
    const distance = isInside ? (mark.end - low) / 1e6 : outside
    if (distance < bestDistance) {
      best = mark
      bestDistance = distance
    }
  }
  return best
}

export function keyOf(mark: Mark): string {
  return mark.kind === 'run' ? mark.run.id : `${mark.kind}-${mark.at}`
}

/** Which mark the arrow keys reach next. Without a current one they start at now. */
export function nextMark(marks: readonly Mark[], current: string | null, step: 1 | -1, nowX: number): Mark | null {
  if (!marks.length) return null
  const index = current === null ? -1 : marks.findIndex((mark) => keyOf(mark) === current)
  if (index >= 0) return marks[Math.max(0, Math.min(marks.length - 1, index + step))] ?? null
  return closest(marks, nowX)
}

export function closest(marks: readonly Mark[], x: number): Mark | null {
  let best: Mark | null = null
  for (const mark of marks) if (!best || Math.abs(middle(mark) - x) < Math.abs(middle(best) - x)) best = mark
  return best
}
