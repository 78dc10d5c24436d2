import { describe, expect, it } from 'vitest'
import type { JobDetail, RecentTime } from '../src/api/types'
import type { Fate } from '../src/lib/outcome'
import { fateOfDay, linePath, niceMax, recentSentence, settingsOf, yearCells } from '../src/screens/job/summary'

const times = (...fates: Fate[]): RecentTime[] => fates.map((fate, index) => ({ run_id: null, at: `2026-11-${10 + index}T09:00:00Z`, fate, lateness_ms: fate === 'late' ? 38_000 : 3, duration_ms: 900 }))

describe('the sentence about the last times', () => {
  it('names what happened and the largest lateness', () => {
    expect(recentSentence(times('succeeded', 'late', 'failed', 'skipped'))).toBe('Of the last 4 times, 2 succeeded, 1 failed and 1 was skipped; the latest began 38 s late.')
  })
  it('is plain when there is nothing', () => expect(recentSentence([])).toBe('It has not been due yet.'))
})

describe('settings', () => {
  const job = { schedule: '0 9 * * *', timezone: 'UTC', dst: 'once', catch_up: 'latest', overlap: 'skip', retry: 'default', delivery: 'at_least_once', max_age: '1d', late_after: '5m', priority: 'normal', jitter: '0s', subject: '' } as unknown as JobDetail

  it('marks what is the default', () => {
    const found = Object.fromEntries(settingsOf(job).map((setting) => [setting.label, setting.isDefault]))
    expect(found).toMatchObject({ 'Missed times': true, Overlap: false, Retry: true })
  })
  it('knows that a yearly schedule makes up for every time by default', () => {
    expect(settingsOf({ ...job, schedule: '@yearly', catch_up: 'all' } as JobDetail).find((one) => one.label === 'Missed times')?.isDefault).toBe(true)
  })
})

describe('the year', () => {
  it('ends today and begins on a Monday', () => {
    const cells = yearCells('2026-11-18')
    expect(cells.at(-1)).toEqual({ date: '2026-11-18', column: 52, row: 2 })
    expect(new Date(`${cells[0]?.date}T00:00:00Z`).getUTCDay()).toBe(1)
    expect(new Set(cells.map((cell) => `${cell.column} ${cell.row}`)).size).toBe(cells.length)
  })
  it('shows the worst fate of a day', () => {
    const day = { succeeded: 3, failed: 1, late: 1, skipped: 1, cancelled: 0, unfinished: 0 }
    expect(fateOfDay(day)).toBe('failed')
    expect(fateOfDay({ ...day, failed: 0 })).toBe('late')
    expect(fateOfDay({ ...day, failed: 0, late: 0, succeeded: 0 })).toBe('skipped')
  })
})

describe('the chart', () => {
  it('scales into the box and leaves gaps', () => expect(linePath([0, null, 10], 100, 50, 10)).toBe('M0.0 50.0M100.0 0.0'))
  it.each([
    [0, 1],
    [7, 10],
    [1200, 2000],
    [61_000, 120_000],
    [3_599_000, 6_000_000],
  ])('%d ms fits below %d ms', (largest, max) => expect(niceMax(largest)).toBe(max))
})
