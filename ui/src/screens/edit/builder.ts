/**
 * The schedule builder: what its controls say (`Built`) and the expression that means the same, both ways.
 *
 * `build(parseExpression(text))` means the same as `text`. What the controls cannot say is `cron` or `rrule` with the
 * text itself.
 */
export type Unit = 's' | 'm' | 'h' | 'd' | 'w'

/** A date and a time of day as written; without an offset it is local time in the job's zone. */
export interface Moment {
  date: string
  time: string
  offset: string
}

export type MonthDay =
  | { kind: 'days'; days: number[] }
  | { kind: 'last' }
  | { kind: 'last-weekday' }
  | { kind: 'nth'; nth: 1 | 2 | 3 | 4 | 5 | 'last'; weekday: number }

export type Built =
  | { mode: 'every'; amount: number; unit: Unit; from: Moment | null }
  | { mode: 'daily'; times: string[] }
  /** Weekdays from 1 (Monday) to 7 (Sunday). */
  | { mode: 'weekly'; weekdays: number[]; time: string }
  /** Months from 1; an empty list is every month. */
  | { mode: 'monthly'; on: MonthDay; months: number[]; time: string }
  | { mode: 'once'; at: Moment }
  | { mode: 'yearly'; month: number; day: number; time: string; feb29: '' | 'feb28' | 'mar1' | 'skip' }
  | { mode: 'cron'; text: string }
  | { mode: 'rrule'; text: string }

export type Mode = Built['mode']

export const MODES: readonly (readonly [Mode, string])[] = [
  ['every', 'Every'],
  ['daily', 'Daily'],
  ['weekly', 'Weekly'],
  ['monthly', 'Monthly'],
  ['once', 'Once'],
  ['yearly', 'Yearly'],
  ['cron', 'Cron'],
  ['rrule', 'RRULE'],
]

export const WEEKDAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'] as const
export const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'] as const

const UNIT_SECONDS: readonly (readonly [Unit, number])[] = [
  ['w', 604_800],
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
  ['s', 1],
]
const NICKNAMES: Record<string, string> = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
}
const DAY_NAMES = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT']
const MONTH_NAMES = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC']

/** The expression of what the controls say. */
export function build(built: Built): string {
  switch (built.mode) {
    case 'every':
      return `every ${built.amount}${built.unit}${built.from ? ` from ${writeMoment(built.from)}` : ''}`
    case 'daily':
      return dailyCron(built.times)
    case 'weekly':
      return `${clock(built.time)} * * ${ranges(built.weekdays, 1, 7)}`
    case 'monthly': {
      const months = ranges(built.months, 1, 12)
      const { on } = built
      if (on.kind === 'nth') return `${clock(built.time)} * ${months} ${on.weekday % 7}${on.nth === 'last' ? 'L' : `#${on.nth}`}`
      const days = on.kind === 'days' ? ranges(on.days, 1, 31) : on.kind === 'last' ? 'L' : 'LW'
      return `${clock(built.time)} ${days} ${months} *`
    }
    case 'once':
      return `at ${writeMoment(built.at)}`
    case 'yearly':
      return `yearly ${pad(built.month)}-${pad(built.day)} ${built.time}${built.feb29 && built.month === 2 && built.day === 29 ? ` feb29=${built.feb29}` : ''}`
    case 'cron':
    case 'rrule':
      return built.text
  }
}

/** What the controls say for an expression; `cron` or `rrule` if they cannot say it. */
export function parseExpression(text: string): Built {
  const given = text.trim()
  if (/^(RRULE|DTSTART|EXDATE|RDATE)\b/i.test(given)) return { mode: 'rrule', text }
  return parseEvery(given) ?? parseOnce(given) ?? parseYearly(given) ?? parseCron(given) ?? { mode: 'cron', text }
}

/** What another tab starts with: the time of day and the days that it can take over. */
export function convert(built: Built, mode: Mode, today: string): Built {
  if (built.mode === mode) return built
  const time = timeOf(built)
  switch (mode) {
    case 'every':
      return { mode, amount: 1, unit: 'h', from: null }
    case 'daily':
      return { mode, times: [short(time)] }
    case 'weekly':
      return { mode, weekdays: [1, 2, 3, 4, 5], time: short(time) }
    case 'monthly':
      return { mode, on: { kind: 'days', days: [built.mode === 'yearly' && built.day <= 28 ? built.day : 1] }, months: [], time: short(time) }
    case 'once':
      return { mode, at: { date: today, time, offset: '' } }
    case 'yearly': {
      const [month = 1, day = 1] = (built.mode === 'once' ? built.at.date : today).split('-').slice(1).map(Number)
      return { mode, month, day, time, feb29: '' }
    }
    case 'cron':
      return { mode, text: toCron(built) ?? '0 9 * * *' }
    case 'rrule':
      return { mode, text: toRrule(built) }
  }
}

function parseEvery(text: string): Built | null {
  const [, duration = '', from] = /^every\s+(\S+)(?:\s+from\s+(\S+))?$/.exec(text) ?? []
  if (!/^(?=\d)(?:\d{1,9}w)?(?:\d{1,9}d)?(?:\d{1,9}h)?(?:\d{1,9}m)?(?:\d{1,9}s)?$/.test(duration)) return null
  const moment = from === undefined ? null : readMoment(from)
  if (from !== undefined && !moment) return null
  const parts = [...duration.matchAll(/(\d+)([wdhms])/g)]
  const seconds = parts.reduce((sum, [, number, unit]) => sum + Number(number) * secondsOf(unit as Unit), 0)
  if (!seconds) return null
  const only = parts.length === 1 ? parts[0] : undefined
  const unit = only ? (only[2] as Unit) : (UNIT_SECONDS.find(([, size]) => seconds % size === 0)?.[0] ?? 's')
  return { mode: 'every', amount: seconds / secondsOf(unit), unit, from: moment }
}

function parseOnce(text: string): Built | null {
  const [, rest] = /^at\s+(\S+(?: \S+)?)$/.exec(text) ?? []
  const at = rest === undefined ? null : readMoment(rest)
  return at && { mode: 'once', at }
}

function parseYearly(text: string): Built | null {
  const [, month, day, time, feb29] = /^yearly\s+(\d\d)-(\d\d) +(\d\d:\d\d(?::\d\d)?)(?: +feb29=(feb28|mar1|skip))?$/.exec(text) ?? []
  if (!month || !day || !time || !isClock(time)) return null
  const number = Number(month)
  if (number < 1 || number > 12 || Number(day) < 1 || Number(day) > daysIn(number)) return null
  if (feb29 && !(number === 2 && day === '29')) return null
  return { mode: 'yearly', month: number, day: Number(day), time: trimSeconds(time), feb29: (feb29 ?? '') as '' | 'feb28' | 'mar1' | 'skip' }
}

function parseCron(text: string): Built | null {
  const fields = (NICKNAMES[text] ?? text).split(/[ \t]+/)
  if (fields.length !== 5) return null
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields
  const isAnyDay = day === '*' || day === '?'
  const isAnyWeekday = weekday === '*' || weekday === '?'
  const minutes = list(minute, 0, 59)
  const hours = list(hour, 0, 23)
  if (!minutes || minutes.length !== 1 || !hours) return null
  const times = hours.map((each) => `${pad(each)}:${pad(minutes[0] ?? 0)}`)
  const [time = ''] = times
  const months = month === '*' ? [] : list(month, 1, 12, MONTH_NAMES, 1)
  if (!months) return null
  if (isAnyDay && isAnyWeekday && month === '*') return { mode: 'daily', times }
  if (times.length !== 1) return null
  if (isAnyDay && !isAnyWeekday) {
    const nth = /^([0-7]|[A-Za-z]{3})(?:#([1-5]|L)|(L))$/.exec(weekday)
    if (nth) {
      const number = list(nth[1] ?? '', 0, 7, DAY_NAMES)?.[0]
      if (number === undefined) return null
      const which = nth[2] && nth[2] !== 'L' ? (Number(nth[2]) as 1 | 2 | 3 | 4 | 5) : 'last'
      return { mode: 'monthly', on: { kind: 'nth', nth: which, weekday: number % 7 || 7 }, months, time }
    }
    const days = list(weekday, 0, 7, DAY_NAMES)
    if (!days || months.length) return null
    return { mode: 'weekly', weekdays: sorted(days.map((each) => each % 7 || 7)), time }
  }
  if (!isAnyWeekday) return null
  if (day === 'L') return { mode: 'monthly', on: { kind: 'last' }, months, time }
  if (day === 'LW') return { mode: 'monthly', on: { kind: 'last-weekday' }, months, time }
  const days = list(day, 1, 31)
  return days && { mode: 'monthly', on: { kind: 'days', days }, months, time }
}

/** The numbers of a cron field made of numbers, names and ranges; null if it has anything else or is out of range. */
function list(field: string, low: number, high: number, names: readonly string[] = [], first = 0): number[] | null {
  const found: number[] = []
  const value = (text: string) => (/^\d{1,2}$/.test(text) ? Number(text) : names.includes(text.toUpperCase()) ? names.indexOf(text.toUpperCase()) + first : NaN)
  for (const item of field.split(',')) {
    const [from = '', to, ...more] = item.split('-')
    const start = value(from)
    // A range that ends on Sunday, as in FRI-SUN, ends with 7.
    const end = to === undefined ? start : names === DAY_NAMES && to.toUpperCase() === 'SUN' ? 7 : value(to)
    if (more.length || !(start >= low && end <= high && start <= end)) return null
    for (let each = start; each <= end; each += 1) found.push(each)
  }
  return sorted(found)
}

/** Numbers as cron writes them: "1-5", "1,3,5". An empty or full list is "*". */
function ranges(numbers: readonly number[], low: number, high: number): string {
  const all = sorted(numbers)
  if (!all.length || (all.length === high - low + 1 && high !== 7)) return '*'
  const parts: string[] = []
  for (let at = 0; at < all.length; ) {
    let end = at
    while (end + 1 < all.length && all[end + 1] === (all[end] ?? 0) + 1) end += 1
    const [from, to] = [all[at] ?? 0, all[end] ?? 0]
    if (end - at >= 2) parts.push(`${from}-${to}`)
    else for (let each = from; each <= to; each += 1) parts.push(String(each))
    at = end + 1
  }
  return parts.join(',')
}

/** Several times a day are one cron expression if they share their minute; the first decides it. */
function dailyCron(times: readonly string[]): string {
  const [first = '00:00'] = times
  const hours = sorted(times.map((each) => Number(each.slice(0, 2))))
  return `${Number(first.slice(3, 5))} ${hours.length === 24 ? '0-23' : ranges(hours, 0, 99)} * * *`
}

function clock(time: string): string {
  return `${Number(time.slice(3, 5))} ${Number(time.slice(0, 2))}`
}

function toCron(built: Built): string | null {
  if (built.mode === 'daily' || built.mode === 'weekly' || built.mode === 'monthly') return build(built)
  if (built.mode === 'yearly' && !(built.month === 2 && built.day === 29)) return `${clock(built.time)} ${built.day} ${built.month} *`
  if (built.mode === 'every' && !built.from) {
    if (built.unit === 'm' && built.amount < 60 && 60 % built.amount === 0) return built.amount === 1 ? '* * * * *' : `*/${built.amount} * * * *`
    if (built.unit === 'h' && built.amount < 24 && 24 % built.amount === 0) return built.amount === 1 ? '0 * * * *' : `0 */${built.amount} * * *`
    if (built.unit === 'd' && built.amount === 1) return '0 0 * * *'
  }
  return null
}

const RULE_DAYS = ['MO', 'TU', 'WE', 'TH', 'FR', 'SA', 'SU']

function toRrule(built: Built): string {
  const at = (time: string) => `BYHOUR=${Number(time.slice(0, 2))};BYMINUTE=${Number(time.slice(3, 5))}`
  if (built.mode === 'daily') return `RRULE:FREQ=DAILY;BYHOUR=${built.times.map((each) => Number(each.slice(0, 2))).join(',')};BYMINUTE=${Number((built.times[0] ?? '').slice(3, 5))}`
  if (built.mode === 'weekly') return `RRULE:FREQ=WEEKLY;BYDAY=${built.weekdays.map((day) => RULE_DAYS[day - 1]).join(',')};${at(built.time)}`
  if (built.mode === 'monthly') {
    const months = built.months.length ? `;BYMONTH=${built.months.join(',')}` : ''
    const { on } = built
    if (on.kind === 'days') return `RRULE:FREQ=MONTHLY;BYMONTHDAY=${on.days.join(',')}${months};${at(built.time)}`
    if (on.kind === 'last') return `RRULE:FREQ=MONTHLY;BYMONTHDAY=-1${months};${at(built.time)}`
    if (on.kind === 'nth') return `RRULE:FREQ=MONTHLY;BYDAY=${on.nth === 'last' ? -1 : on.nth}${RULE_DAYS[on.weekday - 1]}${months};${at(built.time)}`
  }
  if (built.mode === 'yearly') return `RRULE:FREQ=YEARLY;BYMONTH=${built.month};BYMONTHDAY=${built.day};${at(built.time)}`
  return `RRULE:FREQ=MONTHLY;BYDAY=-1FR;${at(timeOf(built))}`
}

function timeOf(built: Built): string {
  if (built.mode === 'daily') return built.times[0] ?? '09:00'
  if (built.mode === 'weekly' || built.mode === 'monthly' || built.mode === 'yearly') return built.time
  return built.mode === 'once' ? built.at.time : '09:00'
}

function readMoment(text: string): Moment | null {
  const [, date, time, fraction, offset] = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(\.0{1,9})?([Zz]|[+-]\d\d:\d\d)?$/.exec(text) ?? []
  if (!date || !time || !isClock(time) || !isDate(date)) return null
  if (fraction && time.length === 5) return null
  return { date, time: trimSeconds(time), offset: (offset ?? '').toUpperCase() }
}

function writeMoment({ date, time, offset }: Moment): string {
  return `${date}T${time.length === 5 ? `${time}:00` : time}${offset}`
}

export function isDate(text: string): boolean {
  const [year = 0, month = 0, day = 0] = /^\d{4}-\d\d-\d\d$/.test(text) ? text.split('-').map(Number) : []
  const date = new Date(Date.UTC(2000, month - 1, day))
  date.setUTCFullYear(year, month - 1, day)
  return year >= 1 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day
}

function isClock(text: string): boolean {
  const [hour = 99, minute = 99, second = 0] = text.split(':').map(Number)
  return hour < 24 && minute < 60 && second < 60
}

/** "9", "930", "9:30" or "09:30:15" as HH:MM or HH:MM:SS; null if it is no time of day. */
export function readTime(text: string, hasSeconds = false): string | null {
  const [, hour = '', minute = '', second] = /^(\d\d?)(?:[:.]?(\d\d))?(?:[:.]?(\d\d))?$/.exec(text.trim()) ?? []
  const time = `${hour.padStart(2, '0')}:${minute || '00'}${second ? `:${second}` : ''}`
  return hour && isClock(time) && (hasSeconds || !second) ? trimSeconds(time) : null
}

export function daysIn(month: number): number {
  return [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 31
}

const secondsOf = (unit: Unit) => UNIT_SECONDS.find(([name]) => name === unit)?.[1] ?? 1
const trimSeconds = (time: string) => (time.length === 8 && time.endsWith(':00') ? time.slice(0, 5) : time)
const short = (time: string) => time.slice(0, 5)
const pad = (number: number) => String(number).padStart(2, '0')
const sorted = (numbers: readonly number[]) => [...new Set(numbers)].sort((a, b) => a - b)
