import { describe, expect, it } from 'vitest'
import type { RecentTime } from '../src/api/types'
import { sparkPaths, timeAt } from '../src/lib/spark'

const time = (fate: RecentTime['fate'], ms: number | null = 100): RecentTime => ({ at: `2026-11-18T10:00:00Z`, fate, run_id: null, duration_ms: ms, lateness_ms: null }) as RecentTime

describe('a sparkline', () => {
  it('is one path for each tone and style, however many times it has', () => {
    const times = Array.from({ length: 20 }, (_, at) => time(at % 5 ? 'succeeded' : 'skipped'))
    expect(sparkPaths(times, 20).map(({ tone, isFilled }) => [tone, isFilled])).toEqual([
      ['muted', false],
      ['ok', true],
    ])
    expect(sparkPaths(times, 20)[1]?.d.split('M')).toHaveLength(17)
  })
  it('ends at the right edge', () => {
    expect(sparkPaths([time('succeeded')], 20)[0]?.d).toBe('M115.5 2h3v13h-3Z')
  })
  it('knows the time under a point', () => {
    const times = [time('failed'), time('succeeded')]
    expect(timeAt(times, 20, 119)).toBe(times[1])
    expect(timeAt(times, 20, 109)).toBe(times[0])
    expect(timeAt(times, 20, 3)).toBeUndefined()
  })
})
