/** Times as text in a time zone. Every text that names an hour can be given its offset. */

export interface TimeOptions {
  /** Show seconds; "ms" shows the fraction too. */
  seconds?: boolean | 'ms'
  /** Show the offset from UTC, as in "+01:00". */
  offset?: boolean
  /** Leave out the date if it is today in the zone. */
  shortToday?: boolean
  /** The present, to decide about year and today. */
  now?: number
}

export interface Parts {
  weekday: string
  day: string
  month: string
  year: string
  hour: string
  minute: string
  second: string
  offset: string
}

const formatters = new Map<string, Intl.DateTimeFormat>()

function formatter(zone: string): Intl.DateTimeFormat {
  let found = formatters.get(zone)
  if (!found) {
    found = new Intl.DateTimeFormat('en-GB', {
      timeZone: zone,
      hourCycle: 'h23',
      weekday: 'short',
      day: 'numeric',
      month: 'short',
      year: 'numeric',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      timeZoneName: 'longOffset',
    })
    formatters.set(zone, found)
  }
  return found
}

export function isZone(name: string): boolean {
  try {
    formatter(name)
    return true
  } catch {
    return false
  }
}

/** The browser's zone, as an IANA name. */
export function browserZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'
}

export function toMs(at: string | number | Date): number {
  return typeof at === 'number' ? at : new Date(at).getTime()
}

export function partsOf(at: string | number | Date, zone: string): Parts {
  const found: Record<string, string> = {}
  for (const { type, value } of formatter(zone).formatToParts(toMs(at))) found[type] = value
  const offset = (found.timeZoneName ?? '').replace('GMT', '') || '+00:00'
  return {
    weekday: found.weekday ?? '',
    day: found.day ?? '',
    month: (found.month ?? '').slice(0, 3),
    year: found.year ?? '',
    hour: found.hour ?? '',
    minute: found.minute ?? '',
    second: found.second ?? '',
    offset,
  }
}

/** "Tue 17 Nov 09:00", with the year only if it is another one: "Fri 1 Jan 2027 00:00". */
export function formatTime(at: string | number | Date, zone: string, options: TimeOptions = {}): string {
  const ms = toMs(at)
  if (!Number.isFinite(ms)) return '—'
  const parts = partsOf(ms, zone)
  const now = partsOf(options.now ?? ms, zone)
  const isToday = parts.day === now.day && parts.month === now.month && parts.year === now.year
  const day = options.shortToday && isToday ? '' : `${dateText(parts, parts.year !== now.year)} `
  return day + clockText(parts, ms, options)
}

/** "09:00", "09:00:38" or "09:00:38.012". */
export function formatClock(at: string | number | Date, zone: string, options: TimeOptions = {}): string {
  return clockText(partsOf(at, zone), toMs(at), options)
}

/** "Tue 17 Nov" */
export function formatDate(at: string | number | Date, zone: string, withYear = false): string {
  return dateText(partsOf(at, zone), withYear)
}

/** "2026-11-17" in the zone. */
export function isoDate(at: string | number | Date, zone: string): string {
  const ms = toMs(at)
  return new Date(ms + offsetMinutes(ms, zone) * 60_000).toISOString().slice(0, 10)
}

/** Minutes east of UTC at that time. */
export function offsetMinutes(at: string | number | Date, zone: string): number {
  const [, sign, hours, minutes] = /^([+-])(\d\d):(\d\d)/.exec(partsOf(at, zone).offset) ?? []
  return hours ? (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) : 0
}

/** The instant at which a wall clock in the zone shows this; of two the earlier, of none the one after the gap. */
export function fromLocal(local: string, zone: string): number {
  const wall = Date.parse(`${local.length === 10 ? `${local}T00:00` : local}Z`)
  const before = wall - offsetMinutes(wall - 86_400_000, zone) * 60_000
  const after = wall - offsetMinutes(wall + 86_400_000, zone) * 60_000
  const fits = [before, after].filter((at) => at + offsetMinutes(at, zone) * 60_000 === wall)
  return fits.length ? Math.min(...fits) : Math.max(before, after)
}

/** Instants in (from, until) at which the zone's offset changes, to the minute. */
export function offsetChanges(from: number, until: number, zone: string): { at: number; before: number; after: number }[] {
  const found: { at: number; before: number; after: number }[] = []
  const step = 24 * 3_600_000
  for (let at = from; at < until; at += step) {
    const end = Math.min(at + step, until)
    const before = offsetMinutes(at, zone)
    const after = offsetMinutes(end, zone)
    if (before === after) continue
    let low = at
    let high = end
    while (high - low > 60_000) {
      const middle = Math.floor((low + high) / 120_000) * 60_000
      if (middle <= low) break
      if (offsetMinutes(middle, zone) === before) low = middle
      else high = middle
    }
    found.push({ at: Math.round(high / 60_000) * 60_000, before, after })
  }
  return found
}

function dateText(parts: Parts, withYear: boolean): string {
  return `${parts.weekday} ${parts.day} ${parts.month}${withYear ? ` ${parts.year}` : ''}`
}

function clockText(parts: Parts, ms: number, options: TimeOptions): string {
  const seconds = options.seconds ? `:${parts.second}` : ''
  const fraction = options.seconds === 'ms' ? `.${String(((ms % 1000) + 1000) % 1000).split('.')[0]?.padStart(3, '0')}` : ''
  return `${parts.hour}:${parts.minute}${seconds}${fraction}${options.offset ? ` ${parts.offset}` : ''}`
}
