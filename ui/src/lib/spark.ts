/** The marks of a sparkline as few paths: pure functions. */
import type { RecentTime } from '../api/types'
import { TONES, type Tone } from './outcome'

export const SPARK_STEP = 6
export const SPARK_HEIGHT = 16

export interface SparkPath {
  tone: Tone
  isFilled: boolean
  d: string
}

/**
 * One path for all marks of a tone and a style: a hundred rows of twenty marks must not be thousands of elements. The
 * times take the last slots; the height of a mark is its duration, its shape and tone are its outcome.
 */
export function sparkPaths(times: readonly RecentTime[], slots: number): SparkPath[] {
  const longest = Math.max(1, ...times.map((time) => time.duration_ms ?? 0))
  const paths = new Map<string, SparkPath>()
  times.forEach((time, index) => {
    const tone = TONES[time.fate]
    const isFilled = ['succeeded', 'late', 'failed'].includes(time.fate)
    const key = `${tone} ${isFilled}`
    const path = paths.get(key) ?? { tone, isFilled, d: '' }
    path.d += markPath(time, (slots - times.length + index) * SPARK_STEP, longest)
    paths.set(key, path)
  })
  return [...paths.values()]
}

function markPath(time: RecentTime, x: number, longest: number): string {
  const height = 5 + Math.round(8 * Math.sqrt((time.duration_ms ?? 0) / longest))
  const top = SPARK_HEIGHT - 1 - height
  switch (time.fate) {
    case 'succeeded':
      return box(x + 1.5, top, 3, height)
    case 'late':
      return box(x + 1.5, top, 3, Math.max(2, height - 4)) + box(x + 1.5, SPARK_HEIGHT - 3, 3, 2)
    case 'failed':
      return `M${x + 3} ${SPARK_HEIGHT - 9}l3 4-3 4-3-4Z`
    case 'skipped':
      return `M${x + 0.9} ${SPARK_HEIGHT - 4}a2.1 2.1 0 1 1 4.2 0a2.1 2.1 0 1 1-4.2 0`
    default:
      return box(x + 1.6, top + 0.6, 2.8, height - 1.2)
  }
}

function box(x: number, y: number, width: number, height: number): string {
  return `M${x} ${y}h${width}v${height}h${-width}Z`
}

/** The time under a point, in pixels from the left. */
export function timeAt(times: readonly RecentTime[], slots: number, x: number): RecentTime | undefined {
  return times[Math.floor(x / SPARK_STEP) - (slots - times.length)]
}
