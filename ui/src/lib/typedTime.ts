/** Times that a person types. */
import { parseDuration } from './duration'
import { fromLocal, isoDate } from './time'

/** Read a time that a person types, on a wall clock: "08:00 today", "yesterday 9", "2026-11-18 08:00", "8:00". */
export function readTypedTime(text: string, today: string): string | null {
  const words = text.trim().toLowerCase().split(/[\s,]+|t(?=\d)/).filter((word) => word && word !== 'at' && word !== 'on')
  let date: string | null = null
  let time: string | null = null
  const shift = (days: number) => new Date(Date.parse(`${today}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10)
  for (const word of words) {
    const clock = /^(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?$/.exec(word)
    if (word === 'today') date = today
    else if (word === 'yesterday') date = shift(-1)
    else if (word === 'tomorrow') date = shift(1)
    else if (/^\d{4}-\d{2}-\d{2}$/.test(word) && !Number.isNaN(Date.parse(word))) date = word
    else if (clock && time === null && Number(clock[1]) < 24 && Number(clock[2] ?? 0) < 60 && Number(clock[3] ?? 0) < 60) time = `${clock[1]?.padStart(2, '0')}:${clock[2] ?? '00'}${clock[3] ? `:${clock[3]}` : ''}`
    else return null
  }
  return time === null ? null : `${date ?? today}T${time}`
}

/**
 * Read when something ends: "2h", "45 min", "18:00", "tomorrow 8:00". A clock time without a date is the next one.
 * Return the instant; null if nothing is typed, undefined if it is no time or is past.
 */
export function readTypedEnd(text: string, now: number, zone: string): number | null | undefined {
  const typed = text.trim().toLowerCase().replace(/^(for|until|till)\s+/, '')
  if (!typed) return null
  const span = parseDuration(typed.replace(/(\d)\s*(m|h|d|w)[a-z]*\s*/g, '$1$2'))
  if (span !== null) return span > 0 ? now + span : undefined
  const today = isoDate(now, zone)
  const local = readTypedTime(typed, today)
  if (local === null) return undefined
  const at = fromLocal(local, zone)
  if (at > now) return at
  const next = fromLocal(readTypedTime(`tomorrow ${typed}`, today) ?? '', zone)
  return next > now && !/today|yesterday|\d{4}-/.test(typed) ? next : undefined
}
