/** What a change does to the next times. */
import type { Occurrence } from '../../api/types'

export interface PlannedTime {
  at: string
  /** `same`: before and after; `added`, `removed`; `later`: beyond the last time that both lists cover. */
  mark: 'same' | 'added' | 'removed' | 'later'
  occurrence: Occurrence
}

/** Both lists in one, in order of time. Beyond the end of a full list nobody knows the other's fate. */
export function compareTimes(before: readonly Occurrence[], after: readonly Occurrence[], full = 10): PlannedTime[] {
  const ms = (one: Occurrence) => Date.parse(one.at)
  const end = (list: readonly Occurrence[]) => {
    const last = list.at(-1)
    return last && list.length >= full ? ms(last) : Infinity
  }
  const [endBefore, endAfter] = [end(before), end(after)]
  const old = new Set(before.map(ms))
  const now = new Set(after.map(ms))
  const marked: PlannedTime[] = after.map((occurrence) => ({ at: occurrence.at, occurrence, mark: old.has(ms(occurrence)) ? 'same' : ms(occurrence) > endBefore ? 'later' : 'added' }))
  for (const occurrence of before) if (!now.has(ms(occurrence)) && ms(occurrence) <= endAfter) marked.push({ at: occurrence.at, occurrence, mark: 'removed' })
  return marked.sort((a, b) => ms(a.occurrence) - ms(b.occurrence))
}
