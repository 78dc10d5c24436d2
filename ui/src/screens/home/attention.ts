import type { TimelineRow } from '../../api/types'

/**
 * Up to `most` rows that need attention: first the worst of each kind, then the worst of what is left. They are shown by
 * kind in the order of the rows, the worst of a kind first.
 */
export function pickAttention(rows: readonly TimelineRow[], most: number): TimelineRow[] {
  const needy = rows.filter((row) => row.job.attention !== null)
  const kinds = [...new Set(needy.map((row) => row.job.attention))]
  const sorted = kinds.flatMap((kind) => needy.filter((row) => row.job.attention === kind).sort((one, other) => weight(other) - weight(one)))
  const firsts = kinds.map((kind) => sorted.find((row) => row.job.attention === kind) as TimelineRow)
  const chosen = new Set([...firsts, ...sorted].slice(0, most))
  for (const row of sorted) if (chosen.size < most) chosen.add(row)
  return sorted.filter((row) => chosen.has(row))
}

/** How bad it is among others of its kind: failures in a row, failed attempts, or times lost. */
export function weight(row: TimelineRow): number {
  if (row.job.attention === 'failing') return row.job.streak
  if (row.job.attention === 'retrying') return row.job.retry?.attempt ?? 0
  if (row.job.attention !== 'losing') return 0
  return row.buckets ? row.buckets.reduce((sum, bucket) => sum + bucket.skipped, 0) : row.skips.reduce((sum, skip) => sum + skip.count, 0)
}
