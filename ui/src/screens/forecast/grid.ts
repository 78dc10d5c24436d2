/** Days and hours of a zone's wall clock as cells, and counts in them. */
import type { TimelineRow } from '../../api/types'
import { fromLocal, isoDate } from '../../lib/time'

export interface Cell {
  /** "2026-11-18" and 0 to 23, by the wall clock. */
  day: string
  hour: number
  from: number
  /** The same as `from` for an hour that does not exist on the day on which clocks go forward. */
  until: number
}

export interface Counts {
  planned: number
  ran: number
  failed: number
  skipped: number
}

/** Counts of an instant. */
export interface Timed {
  at: number
  counts: Partial<Counts>
}

export const NO_COUNTS: Counts = { planned: 0, ran: 0, failed: 0, skipped: 0 }
export const HOURS = Array.from({ length: 24 }, (_, hour) => hour)

/** The date some days after another one. */
export function addDays(day: string, days: number): string {
  const at = new Date(`${day}T00:00:00Z`)
  at.setUTCDate(at.getUTCDate() + days)
  return at.toISOString().slice(0, 10)
}

/** Seven days from `first` on, 24 cells each. An hour that comes twice is one cell of two hours. */
export function weekCells(first: string, zone: string): Cell[][] {
  const start = (day: string, hour: number) => fromLocal(`${day}T${String(hour).padStart(2, '0')}:00`, zone)
  let from = start(first, 0)
  return Array.from({ length: 7 }, (_, index) => {
    const day = addDays(first, index)
    return HOURS.map((hour) => {
      const next = hour === 23 ? start(addDays(day, 1), 0) : start(day, hour + 1)
      const cell = { day, hour, from, until: Math.max(from, next) }
      from = cell.until
      return cell
    })
  })
}

export function today(now: number, zone: string): string {
  return isoDate(now, zone)
}

/** Add counts that belong to instants to the cells that hold these. */
export function fill(cells: readonly (readonly Cell[])[], counts: readonly Timed[]): Map<Cell, Counts> {
  const flat = cells.flat()
  const found = new Map<Cell, Counts>()
  for (const { at, counts: more } of counts) {
    const cell = cellAt(flat, at)
    if (!cell) continue
    const sum = found.get(cell) ?? { ...NO_COUNTS }
    for (const key of ['planned', 'ran', 'failed', 'skipped'] as const) sum[key] += more[key] ?? 0
    found.set(cell, sum)
  }
  return found
}

/** The cell that holds an instant; cells are in order. */
export function cellAt(cells: readonly Cell[], at: number): Cell | null {
  let low = 0
  let high = cells.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((cells[middle] as Cell).until <= at) low = middle + 1
    else high = middle
  }
  const cell = cells[low]
  return cell && cell.from <= at ? cell : null
}

/** How strongly to colour a cell, in percent of the accent: no more than text on it can bear. */
export function strength(count: number, most: number): number {
  return count && most ? Math.round(6 + 36 * Math.sqrt(count / most)) : 0
}

/** "41", "1.2k", "38k": what fits into a cell. */
export function compact(number: number): string {
  if (number < 1000) return String(number)
  const thousands = number / 1000
  if (thousands >= 999.5) return `${Math.round(number / 1_000_000)}M`
  return thousands < 9.95 ? `${thousands.toFixed(1)}k` : `${Math.round(thousands)}k`
}

/** Which cell the arrow keys reach. */
export function moveCell(row: number, column: number, key: string, rows: number, columns: number): [number, number] | null {
  const limit = (at: number, size: number) => Math.max(0, Math.min(size - 1, at))
  switch (key) {
    case 'ArrowLeft':
      return [row, limit(column - 1, columns)]
    case 'ArrowRight':
      return [row, limit(column + 1, columns)]
    case 'ArrowUp':
      return [limit(row - 1, rows), column]
    case 'ArrowDown':
      return [limit(row + 1, rows), column]
    case 'Home':
      return [row, 0]
    case 'End':
      return [row, columns - 1]
    default:
      return null
  }
}

/** Counts of a row, whether it has marks or buckets. */
export function hoursOf(row: TimelineRow): Timed[] {
  if (row.buckets) {
    return row.buckets.map((bucket) => ({
      at: Date.parse(bucket.at),
      counts: { ran: bucket.succeeded + bucket.late + bucket.failed + bucket.cancelled + bucket.unfinished, failed: bucket.failed, skipped: bucket.skipped },
    }))
  }
  return [
    ...row.runs.map((run) => ({ at: Date.parse(run.scheduled_at), counts: { ran: 1, failed: run.state === 'failed' ? 1 : 0 } })),
    ...row.skips.map((skip) => ({ at: Date.parse(skip.first_at), counts: { skipped: skip.count } })),
  ]
}
