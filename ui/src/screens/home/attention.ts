import type { TimelineRow } from '../../api/types'

/** Up to `most` rows that need attention: first one of each kind, then the others, in their order. */
export function pickAttention(rows: readonly TimelineRow[], most: number): TimelineRow[] {
  const needy = rows.filter((row) => row.job.attention !== null)
  const firsts = new Set<TimelineRow>()
  const kinds = new Set<string>()
  for (const row of needy) {
    const kind = row.job.attention as string
    if (kinds.has(kind)) continue
    kinds.add(kind)
    firsts.add(row)
  }
  const chosen = new Set([...firsts, ...needy].slice(0, most))
  for (const row of needy) if (chosen.size < most) chosen.add(row)
  return needy.filter((row) => chosen.has(row))
}
