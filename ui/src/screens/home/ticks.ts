/** Labels of the axis, at round times of a zone's wall clock, also on days on which the clocks change. */
import { formatClock, offsetChanges, offsetMinutes, partsOf } from '../../lib/time'
import { DAY, HOUR, MINUTE, toX, type Span } from './scale'

export interface Tick {
  at: number
  label: string
  /** The beginning of a day. */
  isDay: boolean
}

export interface ClockChange {
  at: number
  /** Minutes by which the clocks move; forward is positive. */
  minutes: number
  label: string
}

const STEPS = [1, 2, 5, 10, 15, 30].map((n) => n * MINUTE).concat([1, 2, 3, 4, 6, 12].map((n) => n * HOUR), [1, 2, 3, 5, 7, 14].map((n) => n * DAY))

/** The shortest step of which at most `most` fit. */
export function tickStep(length: number, most: number): number {
  return STEPS.find((step) => length / step <= Math.max(1, most)) ?? (STEPS.at(-1) as number)
}

const changesOfYears = new Map<string, ReturnType<typeof offsetChanges>>()

/** Changes of a zone's offset in the window. Finding them is slow, so that each year of a zone is searched once. */
export function zoneChanges({ from, until }: Span, zone: string): ReturnType<typeof offsetChanges> {
  const found: ReturnType<typeof offsetChanges> = []
  for (let year = new Date(from).getUTCFullYear(); year <= new Date(until).getUTCFullYear(); year++) {
    const key = `${zone} ${year}`
    let changes = changesOfYears.get(key)
    if (!changes) {
      changes = offsetChanges(Date.UTC(year, 0, 1), Date.UTC(year + 1, 0, 1), zone)
      changesOfYears.set(key, changes)
    }
    found.push(...changes)
  }
  return found.filter(({ at }) => at > from && at < until)
}

/** Parts of the window with one offset from UTC each, in minutes. */
export function offsetParts({ from, until }: Span, zone: string): (Span & { offset: number })[] {
  const changes = zoneChanges({ from, until }, zone)
  const edges = [from, ...changes.map((change) => change.at), until]
  return edges.slice(0, -1).map((start, index) => ({ from: start, until: edges[index + 1] as number, offset: offsetMinutes(start, zone) }))
}

/** Round times of the wall clock: both of a time that comes twice, unless they are too close to show. */
export function ticks(span: Span, zone: string, most: number): Tick[] {
  const step = tickStep(span.until - span.from, most)
  const found: Tick[] = []
  for (const part of offsetParts(span, zone)) {
    const shift = part.offset * MINUTE
    for (let wall = Math.ceil((part.from + shift) / step) * step; wall - shift < part.until; wall += step) {
      const at = wall - shift
      const last = found.at(-1)
      if (last && at - last.at < step * 0.6) continue
      const isDay = wall % DAY === 0
      found.push({ at, isDay, label: isDay ? dayLabel(at, zone) : formatClock(at, zone) })
    }
  }
  return found
}

/** The changes of the clocks in the window, in words. */
export function clockChanges(span: Span, zone: string): ClockChange[] {
  return zoneChanges(span, zone).map(({ at, before, after }) => {
    const minutes = after - before
    const amount = Math.abs(minutes) % 60 ? `${Math.abs(minutes)} min` : `${Math.abs(minutes) / 60} h`
    return { at, minutes, label: `clocks ${minutes > 0 ? 'forward' : 'back'} ${amount}` }
  })
}

export interface Placed<T> {
  item: T
  x: number
}

/**
 * Choose which labels to show: each is centred at its x, must fit into the width, and must not touch one that was chosen
 * before. Earlier items win.
 */
export function placeLabels<T>(items: readonly { item: T; x: number; size: number }[], width: number, gap = 6, taken: readonly { x: number; size: number }[] = []): Placed<T>[] {
  const used = taken.map(({ x, size }) => ({ low: x - size / 2, high: x + size / 2 }))
  const shown: Placed<T>[] = []
  for (const { item, x, size } of items) {
    const low = x - size / 2
    const high = x + size / 2
    if (low < 0 || high > width || used.some((other) => low < other.high + gap && high > other.low - gap)) continue
    used.push({ low, high })
    shown.push({ item, x })
  }
  return shown.sort((one, other) => one.x - other.x)
}

/** Ticks whose labels fit: those of days first. `taken` is kept free, for the label of now. */
export function placeTicks(all: readonly Tick[], span: Span, width: number, taken: readonly { x: number; size: number }[]): Placed<Tick>[] {
  const sized = all.map((tick) => ({ item: tick, x: toX(tick.at, span, width), size: labelSize(tick.label) }))
  return placeLabels([...sized.filter(({ item }) => item.isDay), ...sized.filter(({ item }) => !item.isDay)], width, 8, taken)
}

/** About how many pixels a label of 12 px text takes. */
export function labelSize(label: string): number {
  return label.length * 6.6
}

function dayLabel(at: number, zone: string): string {
  const { weekday, day, month } = partsOf(at, zone)
  return `${weekday} ${day} ${month}`
}
