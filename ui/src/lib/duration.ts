const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Two units at most: "12 ms", "4.8 s", "38 s", "5 min 02 s", "2 h 05 min", "3 d 4 h". */
export function formatDuration(ms: number): string {
  const sign = ms < 0 ? '−' : ''
  const span = Math.abs(ms)
  if (Math.round(span) < SECOND) return `${sign}${Math.round(span)} ms`
  if (span < 9_950) return `${sign}${(span / SECOND).toFixed(1).replace(/\.0$/, '')} s`
  const seconds = Math.round(span / SECOND)
  if (seconds < 60) return `${sign}${seconds} s`
  if (seconds < 3600) return sign + two(Math.floor(seconds / 60), 'min', seconds % 60, 's')
  const minutes = Math.round(span / MINUTE)
  if (minutes < 1440) return sign + two(Math.floor(minutes / 60), 'h', minutes % 60, 'min')
  const hours = Math.round(span / HOUR)
  return sign + (hours % 24 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${hours / 24} d`)
}

/** One unit, for narrow columns and relative times: "38 s", "5 min", "18 h", "3 days". */
export function formatShort(ms: number): string {
  const span = Math.abs(ms)
  if (span < MINUTE) return `${Math.floor(span / SECOND)} s`
  if (span < HOUR) return `${Math.floor(span / MINUTE)} min`
  if (span < 2 * DAY) return `${Math.floor(span / HOUR)} h`
  return `${Math.floor(span / DAY)} days`
}

/** "in 6 min", "in 1 min 12 s", "38 s ago", "now". Close times are precise, far ones short. */
export function formatRelative(at: number, now: number): string {
  const left = at - now
  if (Math.abs(left) < SECOND) return 'now'
  const span = Math.abs(left)
  const text = span < 2 * MINUTE ? floorSeconds(span) : formatShort(span)
  return left > 0 ? `in ${text}` : `${text} ago`
}

/** When the text of `formatRelative` changes next, in ms from now. */
export function nextChange(at: number, now: number): number {
  const span = Math.abs(at - now)
  if (span < 2 * MINUTE) return SECOND
  return span < 2 * HOUR ? 15 * SECOND : MINUTE
}

/** Parse the API's durations ("90s", "1h30m", "250ms", 30) into ms; null if it is none. */
export function parseDuration(value: string | number | null | undefined): number | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number') return value * SECOND
  const units: Record<string, number> = { ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: DAY, w: 7 * DAY }
  const text = value.trim()
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d|w))+$/.test(text)) return null
  let sum = 0
  for (const [, number, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d|w)/g)) sum += Number(number) * (units[unit ?? ''] ?? 0)
  return sum
}

function floorSeconds(span: number): string {
  const seconds = Math.floor(span / SECOND)
  return seconds < 60 ? `${seconds} s` : two(Math.floor(seconds / 60), 'min', seconds % 60, 's')
}

function two(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small ? `${large} ${largeUnit} ${String(small).padStart(2, '0')} ${smallUnit}` : `${large} ${largeUnit}`
}
