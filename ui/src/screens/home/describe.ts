/** A mark in words: for its card, for screen readers and for the table. */
import type { Outage, TimelineBucket, TimelineRow } from '../../api/types'
import { formatDuration } from '../../lib/duration'
import { count, FATE_WORDS, formatNumber, REASON_WORDS, SKIP_WORDS, type Fate } from '../../lib/outcome'
import { formatClock, formatDate, formatTime } from '../../lib/time'
import { explainPath, jobPath, runPath } from '../../lib/url'
import type { Mark } from './marks'

export interface Description {
  fate: Fate
  /** What happened: "failed after 4 attempts". */
  title: string
  /** Label and value: when, how late, why. */
  facts: (readonly [label: string, value: string])[]
  /** What Enter or a click does. */
  action: string
}

export function describeMark(mark: Mark, row: TimelineRow, zone: string, now: number): Description {
  const at = (time: string | number) => formatTime(time, zone, { now, offset: true, seconds: secondsOf(time) })
  switch (mark.kind) {
    case 'plan': {
      const usual = row.job.median_duration_ms
      const facts: Description['facts'] = [['Scheduled', at(mark.at)]]
      if (usual !== null) facts.push(['Usually takes', formatDuration(usual)])
      return { fate: 'planned', title: 'planned', facts, action: 'explain this time' }
    }
    case 'skip': {
      const why = SKIP_WORDS[mark.reason] ?? mark.reason
      const facts: Description['facts'] = mark.count === 1 ? [['Scheduled', at(mark.at)]] : [['First', at(mark.at)], ['Last', at(mark.last)]]
      return { fate: 'skipped', title: mark.count === 1 ? 'skipped' : `skipped ${formatNumber(mark.count)} times`, facts: [...facts, ['Why', why]], action: 'explain this time' }
    }
    case 'bucket':
      return {
        fate: mark.bucket.failed ? 'failed' : mark.bucket.late ? 'late' : mark.bucket.planned ? 'planned' : mark.bucket.skipped === mark.total ? 'skipped' : 'succeeded',
        title: `${row.is_sampled ? 'at least ' : ''}${count(mark.total, 'scheduled time')}`,
        facts: [['From', at(mark.at)], ['Until', at(mark.until)], ['Of these', bucketText(mark.bucket)]],
        action: 'zoom in',
      }
    case 'run': {
      const { run } = mark
      const facts: Description['facts'] = [['Scheduled', at(run.scheduled_at)]]
      if (run.started_at) facts.push(['Began', beganText(run.scheduled_at, run.started_at, zone, now)])
      if (run.lateness_ms !== null && run.kind === 'scheduled') facts.push(['Late by', formatDuration(Math.max(0, run.lateness_ms))])
      if (!run.started_at && !run.finished_at) facts.push(['Has waited', formatDuration(Math.max(0, now - mark.at))])
      if (run.duration_ms !== null && run.finished_at) facts.push(['Took', formatDuration(run.duration_ms)])
      else if (run.started_at && !run.finished_at) facts.push(['Runs for', formatDuration(Math.max(0, now - Date.parse(run.started_at)))])
      const { retry } = row.job
      if (run.state === 'retrying' && retry?.run_id === run.id && retry.next_at) facts.push(['Next attempt', at(retry.next_at)])
      const why = [run.error, run.reason ? (REASON_WORDS[run.reason] ?? run.reason) : null].filter(Boolean).join('; ')
      if (why) facts.push(['Why', why])
      if (run.kind !== 'scheduled') facts.push(['Kind', run.kind])
      return { fate: mark.fate, title: runTitle(mark.fate, run.attempt), facts, action: 'open the run' }
    }
  }
}

function runTitle(fate: Fate, attempt: number): string {
  const word = FATE_WORDS[fate]
  if (fate === 'retrying') return `attempt ${attempt} failed, another one follows`
  if (attempt < 2) return word
  if (fate === 'failed') return `${word} after ${attempt} attempts`
  return `${word} at attempt ${attempt}`
}

/** "3 failed, 1 skipped, 176 succeeded": what is wrong first. */
export function bucketText(bucket: TimelineBucket): string {
  const parts: [number, string][] = [
    [bucket.failed, 'failed'],
    [bucket.skipped, 'skipped'],
    [bucket.late, 'succeeded late'],
    [bucket.cancelled, 'cancelled'],
    [bucket.unfinished, 'unfinished'],
    [bucket.succeeded, 'succeeded'],
    [bucket.planned, 'planned'],
  ]
  return parts.filter(([number]) => number).map(([number, word]) => `${formatNumber(number)} ${word}`).join(', ')
}

/** One sentence, read aloud when the mark is reached by keyboard. */
export function sentence(mark: Mark, row: TimelineRow, zone: string, now: number): string {
  const { title, facts, action } = describeMark(mark, row, zone, now)
  return `${row.job.name}: ${title}. ${facts.map(([label, value]) => `${label} ${value}`).join('. ')}. ${zone}. Enter: ${action}.`
}

/** What a click opens; null zooms in. */
export function pathOf(mark: Mark, row: TimelineRow): string | null {
  if (mark.kind === 'run') return runPath(mark.run.id)
  if (mark.kind === 'bucket') return null
  return explainPath(row.job.name, new Date(mark.at).toISOString())
}

/** The last failed run of a row, else the job. */
export function failurePath(row: TimelineRow): string {
  const failed = row.runs.filter((run) => run.state === 'failed').at(-1)
  return failed ? runPath(failed.id) : jobPath(row.job)
}

/** Without the date if it is that of the scheduled time, which stands above. */
function beganText(due: string, began: string, zone: string, now: number): string {
  return formatDate(due, zone) === formatDate(began, zone) ? formatClock(began, zone, { seconds: 'ms' }) : formatTime(began, zone, { now, seconds: true })
}

function secondsOf(time: string | number): boolean | 'ms' {
  const ms = typeof time === 'number' ? time : Date.parse(time)
  return ms % 1000 ? 'ms' : ms % 60_000 !== 0
}

/** "all nodes down 04:48–05:36" */
export function outageText({ from, until, of }: Outage, zone: string, now: number): string {
  const what = of === 'nodes' ? 'all nodes down' : 'database unreachable'
  return `${what} ${formatTime(from, zone, { now, shortToday: true })}–${until ? formatClock(until, zone) : 'now'}`
}
