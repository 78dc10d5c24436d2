import { describe, expect, it } from 'vitest'
import type { TimelineRow } from '../src/api/types'
import { cellAt, compact, fill, hoursOf, moveCell, strength, weekCells } from '../src/screens/forecast/grid'
import { expectedPeak, hasFixedMinute, withHashedMinute } from '../src/screens/forecast/spread'

const HOUR = 3_600_000
const ZONES = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe', 'Africa/Cairo', 'Pacific/Auckland', 'America/St_Johns']

describe('the week', () => {
  it.each(ZONES)('covers every instant once, whatever the clocks do (%s)', (zone) => {
    for (const day of ['2026-01-05', '2026-03-08', '2026-03-27', '2026-04-04', '2026-04-22', '2026-09-26', '2026-10-04', '2026-10-24', '2026-10-30', '2026-11-01']) {
      const cells = weekCells(day, zone).flat()
      expect(cells).toHaveLength(168)
      cells.forEach((cell, index) => {
        expect(cell.until).toBeGreaterThanOrEqual(cell.from)
        if (index) expect(cell.from).toBe(cells[index - 1]?.until)
        if (cell.until > cell.from) expect(cellAt(cells, cell.from)).toBe(cell)
      })
      expect(cellAt(cells, (cells[0]?.from ?? 0) - 1)).toBeNull()
      expect(cellAt(cells, cells.at(-1)?.until ?? 0)).toBeNull()
    }
  })

  it('has an empty cell in spring and a long one in autumn', () => {
    const length = (day: string, hour: number) => {
      const cell = weekCells(day, 'Europe/Berlin')[0]?.[hour]
      return cell && (cell.until - cell.from) / HOUR
    }
    expect([1, 2, 3].map((hour) => length('2026-03-29', hour))).toEqual([1, 0, 1])
    expect([1, 2, 3].map((hour) => length('2026-10-25', hour))).toEqual([1, 2, 1])
  })

  it('adds counts to the cells that hold them', () => {
    const cells = weekCells('2026-11-18', 'UTC')
    const at = Date.parse('2026-11-18T03:00:00Z')
    const found = fill(cells, [
      { at, counts: { planned: 2 } },
      { at: at + HOUR - 1, counts: { planned: 3, failed: 1 } },
      { at: at - 400 * HOUR, counts: { planned: 9 } },
    ])
    expect([...found]).toEqual([[cells[0]?.[3], { planned: 5, ran: 0, failed: 1, skipped: 0 }]])
  })

  it('keeps text on cells readable and short', () => {
    expect(strength(0, 10)).toBe(0)
    expect(strength(10, 10)).toBeLessThanOrEqual(45)
    expect(strength(1, 10_000)).toBeGreaterThan(0)
    expect([7, 999, 1000, 9949, 9950, 38_400, 999_499, 1_200_000].map(compact)).toEqual(['7', '999', '1.0k', '9.9k', '10k', '38k', '999k', '1M'])
  })

  it('is walked by arrow keys', () => {
    expect(moveCell(0, 0, 'ArrowLeft', 7, 24)).toEqual([0, 0])
    expect(moveCell(3, 22, 'ArrowRight', 7, 24)).toEqual([3, 23])
    expect(moveCell(6, 2, 'ArrowDown', 7, 24)).toEqual([6, 2])
    expect(moveCell(6, 2, 'End', 7, 24)).toEqual([6, 23])
    expect(moveCell(6, 2, 'a', 7, 24)).toBeNull()
  })

  it('counts marks and buckets alike', () => {
    const job = {} as TimelineRow['job']
    const run = (state: string) => ({ scheduled_at: '2026-11-18T03:10:00Z', state }) as TimelineRow['runs'][number]
    const marks = hoursOf({ job, runs: [run('succeeded'), run('failed')], skips: [{ first_at: '2026-11-18T03:00:00Z', last_at: '2026-11-18T03:05:00Z', count: 2, reason: 'overlap' }], planned: [], buckets: null })
    const buckets = hoursOf({ job, runs: [], skips: [], planned: [], buckets: [{ at: '2026-11-18T03:00:00Z', succeeded: 1, failed: 1, late: 0, cancelled: 0, unfinished: 0, skipped: 2, planned: 0 }] })
    const sum = (found: typeof marks) => [...fill(weekCells('2026-11-18', 'UTC'), found).values()]
    expect(sum(marks)).toEqual(sum(buckets))
  })
})

describe('spreading', () => {
  /** The mean of the fullest slot, thrown many times. */
  function thrown(runs: number, slots: number): number {
    let state = 7
    let sum = 0
    const times = 400
    for (let time = 0; time < times; time++) {
      const found = new Array<number>(slots).fill(0)
      for (let run = 0; run < runs; run++) {
        state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296
        found[Math.floor((state / 4_294_967_296) * slots)]! += 1
      }
      sum += Math.max(...found)
    }
    return sum / times
  }

  it.each([
    [2, 60],
    [40, 60],
    [500, 60],
    [40, 5],
    [500, 15],
    [3000, 60],
  ])('%d runs over %d slots: about what chance does', (runs, slots) => {
    expect(Math.abs(expectedPeak(runs, slots) - thrown(runs, slots))).toBeLessThan(1 + runs / slots / 30)
  })

  it('has limits', () => {
    expect(expectedPeak(0, 60)).toBe(0)
    expect(expectedPeak(5, 1)).toBe(5)
    expect(expectedPeak(1, 60)).toBe(1)
    expect(expectedPeak(100_000, 60)).toBeGreaterThan(100_000 / 60)
  })

  it.each([
    ['0 3 * * *', 'H 3 * * *'],
    ['15 * * * 1-5', 'H * * * 1-5'],
    ['@hourly', 'H * * * *'],
    ['*/5 * * * *', null],
    ['H 3 * * *', null],
    ['0,30 3 * * *', null],
    ['every 5m', null],
    ['* * * * *', null],
  ])('%s → %s', (schedule, hashed) => {
    expect(withHashedMinute(schedule)).toBe(hashed)
    expect(hasFixedMinute(schedule)).toBe(hashed !== null)
  })
})
