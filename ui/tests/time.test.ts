import { describe, expect, it } from 'vitest'
import { boundsOf, narrow, NO_BOUNDS, offsetOf } from '../src/lib/clock'
import { formatDuration, formatRelative, formatShort, parseDuration } from '../src/lib/duration'
import { formatClock, formatDate, formatTime, fromLocal, isoDate, isZone, offsetChanges, offsetMinutes } from '../src/lib/time'

const at = (text: string) => Date.parse(text)

describe('times in a zone', () => {
  it('shows the year only if it is another one', () => {
    const now = at('2026-11-18T10:00:00Z')
    expect(formatTime('2026-11-17T08:00:00Z', 'Europe/Paris', { now })).toBe('Tue 17 Nov 09:00')
    expect(formatTime('2027-01-01T00:00:00Z', 'UTC', { now })).toBe('Fri 1 Jan 2027 00:00')
  })

  it('shows offset, seconds and milliseconds on request', () => {
    expect(formatTime('2026-11-17T08:00:38.012Z', 'Europe/Paris', { seconds: 'ms', offset: true })).toBe('Tue 17 Nov 09:00:38.012 +01:00')
    expect(formatClock('2026-07-01T00:00:00Z', 'Asia/Kolkata', { offset: true })).toBe('05:30 +05:30')
    expect(formatClock('2026-07-01T00:00:00Z', 'UTC', { offset: true })).toBe('00:00 +00:00')
  })

  it('leaves the date out today, by the day of the zone', () => {
    const now = at('2026-11-18T10:00:00Z')
    expect(formatTime('2026-11-17T23:30:00Z', 'Europe/Berlin', { now, shortToday: true })).toBe('00:30')
    expect(formatTime('2026-11-17T23:30:00Z', 'UTC', { now, shortToday: true })).toBe('Tue 17 Nov 23:30')
  })

  it('names months with three letters', () => {
    expect(formatDate('2026-09-05T12:00:00Z', 'UTC')).toBe('Sat 5 Sep')
    expect(isoDate('2026-11-17T23:30:00Z', 'Europe/Berlin')).toBe('2026-11-18')
  })

  it('knows zones', () => {
    expect(isZone('Europe/Paris')).toBe(true)
    expect(isZone('Europe/Pariss')).toBe(false)
  })

  it('finds offset changes to the minute', () => {
    const found = offsetChanges(at('2026-03-01T00:00:00Z'), at('2026-12-01T00:00:00Z'), 'Europe/Berlin')
    expect(found).toEqual([
      { at: at('2026-03-29T01:00:00Z'), before: 60, after: 120 },
      { at: at('2026-10-25T01:00:00Z'), before: 120, after: 60 },
    ])
    expect(offsetChanges(at('2026-01-01T00:00:00Z'), at('2027-01-01T00:00:00Z'), 'UTC')).toEqual([])
  })

  it('reads a wall clock: twice means the earlier, never means after the gap', () => {
    expect(fromLocal('2026-07-01T09:00', 'Europe/Berlin')).toBe(at('2026-07-01T07:00:00Z'))
    expect(fromLocal('2026-10-25T02:30', 'Europe/Berlin')).toBe(at('2026-10-25T00:30:00Z'))
    expect(fromLocal('2026-03-29T02:30', 'Europe/Berlin')).toBe(at('2026-03-29T01:30:00Z'))
    expect(fromLocal('2026-01-01', 'America/New_York')).toBe(at('2026-01-01T05:00:00Z'))
    expect(offsetMinutes(at('2026-01-01T00:00:00Z'), 'America/St_Johns')).toBe(-210)
  })
})

describe('durations', () => {
  it.each([
    [0, '0 ms'],
    [12.4, '12 ms'],
    [999.6, '1 s'],
    [4_800, '4.8 s'],
    [9_960, '10 s'],
    [38_000, '38 s'],
    [59_700, '1 min'],
    [302_000, '5 min 02 s'],
    [7_500_000, '2 h 05 min'],
    [86_400_000, '1 d'],
    [273_600_000, '3 d 4 h'],
    [-302_000, '−5 min 02 s'],
  ])('%d ms is %s', (ms, text) => expect(formatDuration(ms)).toBe(text))

  it('is relative, precise when close', () => {
    expect(formatRelative(72_000, 0)).toBe('in 1 min 12 s')
    expect(formatRelative(6 * 60_000 + 5_000, 0)).toBe('in 6 min')
    expect(formatRelative(0, 38_000)).toBe('38 s ago')
    expect(formatRelative(500, 0)).toBe('now')
    expect(formatShort(3 * 86_400_000)).toBe('3 days')
    expect(formatRelative(18.5 * 3_600_000, 0)).toBe('in 18 h')
  })

  it('reads the durations of the API', () => {
    expect(parseDuration('1h30m')).toBe(5_400_000)
    expect(parseDuration('250ms')).toBe(250)
    expect(parseDuration(30)).toBe(30_000)
    expect(parseDuration('soon')).toBeNull()
    expect(parseDuration(null)).toBeNull()
  })
})

describe('the clock of the server', () => {
  it('assumes no difference while both clocks may agree', () => {
    const found = narrow(NO_BOUNDS, boundsOf(10_000, 10_200, 10_400, 1000))
    expect(offsetOf(found)).toBe(0)
  })

  it('finds a wrong browser clock from several answers', () => {
    let known = NO_BOUNDS
    for (const real of [100_100, 103_900, 107_500, 111_999]) {
      const browser = real - 3_600_000
      known = narrow(known, boundsOf(Math.floor(real / 1000) * 1000, browser - 10, browser + 10, 1000))
    }
    expect(Math.abs(offsetOf(known) - 3_600_000)).toBeLessThan(100)
  })

  it('believes the newer answer after a clock was set', () => {
    const before = boundsOf(5_000, 5_000, 5_010, 1)
    const after = boundsOf(65_000, 5_000, 5_010, 1)
    expect(narrow(before, after)).toEqual(after)
  })

  it('has no offset before the first answer', () => expect(offsetOf(NO_BOUNDS)).toBe(0))
})
