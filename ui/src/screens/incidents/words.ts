/** Incidents, their messages and alert policies in words. */
import type { AlertPolicy, Incident, IncidentDetail } from '../../api/types'
import { formatDuration, parseDuration } from '../../lib/duration'
import { count, formatNumber, formatPercent, type Fate } from '../../lib/outcome'

export type Notification = NonNullable<IncidentDetail['notifications']>[number]

/** What is wrong, and with whom: "nightly-report failed 4 times". */
export function titleOf(incident: Incident): string {
  const { kind, lane, group_size: size, count: times } = incident
  const who = incident.job_name ?? 'A job'
  switch (kind) {
    case 'failed':
      if (size > 1) return `${count(size, 'job')} ${lane ? `of ${hostOf(lane)} fail` : 'fail'}`
      return times > 1 ? `${who} failed ${times === 2 ? 'twice' : `${formatNumber(times)} times`}` : `${who} failed`
    case 'missed':
      return `${who} missed scheduled times`
    case 'late':
      return `${who} has not begun in time`
    case 'no_success':
      return `${who} has not succeeded in time`
    case 'losing_runs':
      return `${who} skips too many runs`
    case 'slow':
      return `${who} takes too long`
    case 'unserved':
      return `No node serves ${lane ?? 'a lane'}`
    case 'paused_too_long':
      return `${who} has been paused for too long`
    case 'channel_failed':
      return 'An alert channel cannot deliver'
    case 'scheduler_silent':
      return 'A part of Hourbell has stopped reporting'
    case 'recovery':
      return 'Recovery mode: many runs are late'
    default:
      return `${who}: ${String(kind).replaceAll('_', ' ')}`
  }
}

/** "https://billing.example:443" → "billing.example" */
export function hostOf(lane: string): string {
  return /^https?:\/\/([^/]+?)(:443|:80)?$/.exec(lane)?.[1] ?? lane
}

export const STATE_FATES: Record<string, Fate> = { open: 'failed', acknowledged: 'retrying', resolved: 'succeeded' }

/** "acknowledged by ops" */
export function stateText(incident: Incident): string {
  if (incident.state === 'acknowledged') return incident.acknowledged_by ? `acknowledged by ${incident.acknowledged_by}` : 'acknowledged'
  if (incident.state === 'resolved') return incident.resolved_by ? `resolved by ${incident.resolved_by}` : 'over by itself'
  return 'open'
}

export function isMuted(incident: Incident, now: number): boolean {
  return incident.state !== 'resolved' && !!incident.muted_until && Date.parse(incident.muted_until) > now
}

/** Those that nobody takes care of come first, then the newest. */
export function openFirst<T extends Incident>(incidents: readonly T[]): T[] {
  const rank = { open: 0, acknowledged: 1, resolved: 2 }
  return [...incidents].sort((one, other) => rank[one.state] - rank[other.state] || Date.parse(other.opened_at) - Date.parse(one.opened_at))
}

const EVENT_WORDS: Record<string, string> = {
  'incident.opened': 'first message',
  'incident.flapping': 'it recurs',
  'incident.repeated': 'repeated',
  'incident.escalated': 'escalated',
  'incident.digest': 'daily digest',
  'incident.resolved': 'it is resolved',
  'channel.test': 'test',
}

export function eventText(event: string): string {
  return EVENT_WORDS[event] ?? event.replace(/^incident\./, '')
}

/** What became of a message; its run is one of a channel, and may have been pruned. */
export function deliveryOf({ state, attempt, error }: Pick<Notification, 'state' | 'attempt' | 'error'>): { fate: Fate; text: string } {
  switch (state) {
    case 'succeeded':
      return { fate: 'succeeded', text: 'delivered' }
    case 'failed':
      return { fate: 'failed', text: 'not delivered' }
    case 'cancelled':
      return { fate: 'cancelled', text: 'cancelled' }
    case 'running':
      return { fate: 'running', text: 'being sent' }
    case null:
    case undefined:
      return { fate: 'skipped', text: 'no longer stored' }
    default:
      return error || (attempt ?? 0) > 0 ? { fate: 'retrying', text: 'not delivered, will be retried' } : { fate: 'waiting', text: 'waits' }
  }
}

export interface StoryLine {
  at: string
  text: string
  note?: string
  tone?: 'bad' | 'ok' | 'late'
  /** In the future. */
  isPlanned?: boolean
}

/** What happened, the oldest first. */
export function storyOf(incident: IncidentDetail, now: number): StoryLine[] {
  const lines: StoryLine[] = [{ at: incident.opened_at, text: 'It began', tone: 'bad' }]
  const messages = new Map<string, Notification[]>()
  for (const each of incident.notifications ?? []) {
    const key = `${each.event} ${each.step} ${each.planned_at}`
    messages.set(key, [...(messages.get(key) ?? []), each])
  }
  for (const group of messages.values()) {
    const [first] = group
    if (first) lines.push({ at: first.planned_at, text: `Notified ${listed(group.map(({ channel }) => channel))}`, note: eventText(first.event) })
  }
  if (incident.count > 1 && incident.last_at !== incident.opened_at) lines.push({ at: incident.last_at, text: `Happened for the ${ordinal(incident.count)} time` })
  if (incident.acknowledged_at) lines.push({ at: incident.acknowledged_at, text: `Acknowledged${incident.acknowledged_by ? ` by ${incident.acknowledged_by}` : ''}`, note: 'no repeats, no escalation', tone: 'late' })
  if (incident.resolved_at) lines.push({ at: incident.resolved_at, text: incident.resolved_by ? `Resolved by ${incident.resolved_by}` : 'Resolved automatically', tone: 'ok' })
  lines.sort((one, other) => Date.parse(one.at) - Date.parse(other.at))
  if (incident.muted_until && isMuted(incident, now)) lines.push({ at: incident.muted_until, text: 'Muted until then', isPlanned: true })
  return lines
}

/** "ops", "ops, mail and pager" */
export function listed(names: readonly string[]): string {
  const unique = [...new Set(names)]
  if (unique.length < 2) return unique[0] ?? 'nobody'
  return `${unique.slice(0, -1).join(', ')} and ${unique.at(-1) ?? ''}`
}

export function ordinal(number: number): string {
  const two = number % 100
  const ending = two > 10 && two < 14 ? 'th' : (['th', 'st', 'nd', 'rd'][number % 10] ?? 'th')
  return `${formatNumber(number)}${ending}`
}

type Span = string | number | null | undefined

function spanText(span: Span): string {
  const ms = parseDuration(span)
  return ms === null ? String(span) : formatDuration(ms)
}

export interface PolicyFields extends Partial<Omit<AlertPolicy, 'name' | 'on' | 'updated_at' | 'updated_by'>> {
  on?: readonly string[]
}

/** A policy as sentences: when it alerts, whom it tells, and what else it does. */
export function policySentences(policy: PolicyFields): string[] {
  const on = new Set(policy.on ?? ['failed', 'late', 'missed', 'unserved'])
  const whens: string[] = []
  if (on.has('failed')) whens.push(failedText(policy))
  if (on.has('missed')) whens.push('misses scheduled times')
  if (on.has('late')) whens.push('has not begun in time')
  if (on.has('no_success')) whens.push(`has no success for ${spanText(policy.no_success_for)}`)
  if (on.has('slow')) whens.push(`takes longer than ${spanText(policy.slow_after)}`)
  if (on.has('losing_runs')) whens.push(`skips over ${policy.losing_share ? formatPercent(policy.losing_share * 100) : 'a share'} of a day's runs by overlap`)
  if (on.has('paused_too_long')) whens.push(`is paused for ${spanText(policy.paused_for)}`)
  const lane = on.has('unserved') ? 'runs wait in a lane that no node serves' : ''
  const when = [whens.length ? `a job ${either(whens)}` : '', lane].filter(Boolean).join(', or when ')
  const sentences = [when ? `Alerts when ${when}.` : 'Opens no incidents.']
  if (!when) return sentences
  const whom = policy.notify === null || policy.notify === undefined ? 'every channel' : listed(policy.notify)
  const then = [
    `Notifies ${whom}`,
    ...(policy.repeat ? [`again every ${spanText(policy.repeat)}`] : []),
    ...(policy.escalate ?? []).map(({ after, notify }) => `after ${spanText(after)} without acknowledgement also ${listed(notify)}`),
  ]
  sentences.push(`${then.join('; ')}.`)
  if (policy.notify?.length !== 0) sentences.push(policy.resolve === false ? 'Sends nothing when it is resolved.' : 'Sends a message when it is resolved.')
  const quiet = policy.quiet_hours
  if (quiet) sentences.push(`Quiet from ${quiet.from} to ${quiet.until} (${quiet.timezone ?? 'UTC'}): messages wait.`)
  if (on.has('failed')) sentences.push(policy.group === 'none' ? 'One incident for each job.' : 'Failing jobs of one host share an incident.')
  return sentences
}

function failedText({ after, rate }: PolicyFields): string {
  const row = after === 1 ? 'fails' : after ? `fails ${formatNumber(after)} times in a row` : 'fails twice in a row (once if it is rare or never began)'
  return rate ? `${row}, or ${rate.replace(' of ', ' of its last ')} runs fail` : row
}

function either(parts: readonly string[]): string {
  return parts.length < 2 ? (parts[0] ?? '') : `${parts.slice(0, -1).join(', ')} or ${parts.at(-1) ?? ''}`
}

const WRITTEN = ['on', 'after', 'rate', 'notify', 'repeat', 'escalate', 'resolve', 'quiet_hours', 'group', 'slow_after', 'no_success_for', 'paused_for', 'losing_share'] as const

/** The fields of a policy that can be written, without those that are not set. */
export function policyBody(policy: PolicyFields): Record<string, unknown> {
  const body: Record<string, unknown> = {}
  for (const name of WRITTEN) {
    const value = policy[name]
    if (value === null || value === undefined || (name === 'escalate' && Array.isArray(value) && !value.length)) continue
    body[name] = value
  }
  return body
}

/** The line of JSON text (from 1) on which the value of a pointer stands; null if the text does not have it. */
export function lineOf(text: string, pointer: string): number | null {
  const parts = pointer.split('/').slice(1)
  let from = 0
  let line: number | null = null
  for (const part of parts) {
    if (/^\d+$/.test(part)) continue // an index: stay at the list
    const at = text.indexOf(`"${part.replaceAll('~1', '/').replaceAll('~0', '~')}"`, from)
    if (at < 0) break
    from = at
    line = text.slice(0, at).split('\n').length
  }
  return line
}

/** The ends that a mute is offered with. */
export const MUTE_SPANS = [
  ['1 hour', 3_600_000],
  ['4 hours', 4 * 3_600_000],
  ['1 day', 24 * 3_600_000],
] as const

export function mutedUntil(spanMs: number, now: number): string {
  return new Date(now + spanMs).toISOString()
}
