import { describe, expect, it } from 'vitest'
import { readTypedEnd, readTypedTime } from '../src/lib/typedTime'

describe('a typed time', () => {
  it.each([
    ['08:00 today', '2026-11-18T08:00'],
    ['yesterday 9', '2026-11-17T09:00'],
    ['8:30', '2026-11-18T08:30'],
    ['2026-11-01 08:00:05', '2026-11-01T08:00:05'],
    ['2026-11-01T08:00', '2026-11-01T08:00'],
    ['at 7 tomorrow', '2026-11-19T07:00'],
  ])('%s', (text, local) => expect(readTypedTime(text, '2026-11-18')).toBe(local))
  it.each(['', 'today', '25:00', 'soon', '08:00 09:00'])('refuses %j', (text) => expect(readTypedTime(text, '2026-11-18')).toBeNull())
})

describe('a typed end', () => {
  const now = Date.parse('2026-11-18T10:00:00Z') // 11:00 in Paris
  it.each([
    ['2h', '2026-11-18T12:00:00.000Z'],
    ['for 45 minutes', '2026-11-18T10:45:00.000Z'],
    ['1 h 30 min', '2026-11-18T11:30:00.000Z'],
    ['1 d', '2026-11-19T10:00:00.000Z'],
    ['18:00', '2026-11-18T17:00:00.000Z'],
    ['until 8:00', '2026-11-19T07:00:00.000Z'],
    ['tomorrow 8:00', '2026-11-19T07:00:00.000Z'],
    ['2026-12-01 00:00', '2026-11-30T23:00:00.000Z'],
  ])('%s', (text, at) => expect(new Date(readTypedEnd(text, now, 'Europe/Paris') ?? NaN).toISOString()).toBe(at))
  it('may be left open', () => expect(readTypedEnd(' ', now, 'UTC')).toBeNull())
  it.each(['soon', '0h', '08:00 today', 'yesterday 8:00', '2026-11-01 08:00'])('refuses %j', (text) => expect(readTypedEnd(text, now, 'UTC')).toBeUndefined())
})
