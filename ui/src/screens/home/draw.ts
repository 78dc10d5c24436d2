/** Draw the time line on a canvas: some calls per colour and shape, so that thousands of marks take milliseconds. */
import type { Fate } from '../../lib/outcome'
import type { BucketMark, Mark, Pause, PlanMark, RunMark, SkipMark } from './marks'
import { middle } from './marks'

export const COLOURS = ['card', 'page', 'line', 'line-2', 'line-strong', 'text', 'text-2', 'accent', 'accent-soft', 'ok', 'ok-soft', 'late', 'bad', 'outage', 'hover', 'sunken'] as const
export type Colours = Record<(typeof COLOURS)[number], string>

export interface DrawnRow {
  /** The upper edge of the row, and the middle of its marks. */
  top: number
  bottom: number
  middle: number
  marks: readonly Mark[]
  pause: Pause | null
  /** Changes of the clocks of the job's own zone. */
  changes: readonly number[]
}

export interface Drawing {
  width: number
  /** The part of the rows that is drawn. */
  top: number
  bottom: number
  activeRow: number
  rows: readonly DrawnRow[]
  ticks: readonly number[]
  outages: readonly { x: number; end: number }[]
  changes: readonly number[]
  now: number
  /** The mark with a ring around it. */
  active: { mark: Mark; middle: number } | null
}

const HALF = 6.5
const DIAMOND_HALF = 5.5
const CIRCLE_RADIUS = 3.6

export function draw(context: CanvasRenderingContext2D, drawing: Drawing, colours: Colours): void {
  const { width, top, bottom, rows } = drawing
  context.clearRect(0, top, width, bottom - top)
  drawGround(context, drawing, colours)
  const all = { runs: [] as Placed<RunMark>[], skips: [] as Placed<SkipMark>[], plans: [] as Placed<PlanMark>[], buckets: [] as Placed<BucketMark>[] }
  for (const row of rows) {
    for (const mark of row.marks) {
      if (mark.kind === 'run') all.runs.push({ mark, y: row.middle })
      else if (mark.kind === 'skip') all.skips.push({ mark, y: row.middle })
      else if (mark.kind === 'plan') all.plans.push({ mark, y: row.middle })
      else all.buckets.push({ mark, y: row.middle })
    }
  }
  drawBuckets(context, all.buckets, colours)
  drawPlans(context, all.plans, width, colours)
  drawRuns(context, all.runs, width, colours)
  drawSkips(context, all.skips, width, colours)
  line(context, drawing.now, top, bottom, colours.accent, 2)
  if (drawing.active) drawRing(context, drawing.active, colours)
}

interface Placed<T> {
  mark: T
  y: number
}

function drawGround(context: CanvasRenderingContext2D, { width, top, bottom, rows, activeRow, ticks, outages, changes }: Drawing, colours: Colours): void {
  const active = rows[activeRow]
  if (active) {
    context.fillStyle = colours.hover
    context.fillRect(0, active.top, width, active.bottom - active.top)
  }
  context.fillStyle = colours.outage
  for (const { x, end } of outages) context.fillRect(x, top, Math.max(2, end - x), bottom - top)
  context.fillStyle = colours['line-2']
  for (const x of ticks) context.fillRect(Math.round(x), top, 1, bottom - top)
  for (const row of rows) context.fillRect(0, row.bottom - 1, width, 1)
  for (const row of rows) if (row.pause) hatch(context, row.pause, row, colours)
  context.save()
  context.setLineDash([3, 3])
  for (const x of changes) line(context, x, top, bottom, colours['text-2'], 1)
  for (const row of rows) for (const x of row.changes) line(context, x, row.top + 3, row.bottom - 4, colours['text-2'], 1)
  context.restore()
}

function hatch(context: CanvasRenderingContext2D, { x, end }: Pause, row: DrawnRow, colours: Colours): void {
  const top = row.middle - 12
  const height = 24
  context.save()
  context.beginPath()
  context.rect(x, top, end - x, height)
  context.clip()
  context.strokeStyle = colours['line-strong']
  context.lineWidth = 1
  context.beginPath()
  for (let at = Math.floor((x - height) / 7) * 7; at < end; at += 7) {
    context.moveTo(at, top + height)
    context.lineTo(at + height, top)
  }
  context.stroke()
  context.restore()
}

function drawBuckets(context: CanvasRenderingContext2D, buckets: readonly Placed<BucketMark>[], colours: Colours): void {
  for (const { mark, y } of buckets) {
    const { bucket } = mark
    const x = mark.x + 0.5
    const size = Math.max(1, mark.end - mark.x - (mark.end - mark.x > 4 ? 1 : 0))
    const done = bucket.succeeded + bucket.late + bucket.cancelled + bucket.unfinished
    const weight = 0.35 + 0.65 * mark.share
    if (bucket.planned) {
      context.globalAlpha = done ? 0.55 : 0.12 + 0.28 * mark.share
      context.fillStyle = done ? colours.ok : colours.accent
      context.fillRect(x, y - HALF, size, 2 * HALF)
      context.globalAlpha = 0.75
      context.strokeStyle = colours.accent
      context.lineWidth = 1
      context.strokeRect(x + 0.5, y - HALF + 0.5, size - 1, 2 * HALF - 1)
    } else if (done) {
      context.globalAlpha = weight
      context.fillStyle = colours.ok
      context.fillRect(x, y - HALF, size, 2 * HALF)
      if (bucket.late) {
        context.globalAlpha = 1
        context.fillStyle = colours.late
        const part = Math.max(4, (2 * HALF * bucket.late) / mark.total)
        context.fillRect(x, y + HALF - part, size, part)
      }
    }
    context.globalAlpha = 1
    if (bucket.failed) {
      // A diamond above the share that failed, so that a failure shows by its shape as well.
      const part = Math.max(3, (2 * HALF * bucket.failed) / mark.total)
      context.fillStyle = colours.bad
      context.fillRect(x, y + HALF - part, size, part)
      const half = Math.min(4, Math.max(2.5, size / 2))
      context.beginPath()
      diamond(context, x + size / 2, y + HALF - part - half + 1, half)
      context.fill()
    }
    if (bucket.skipped) {
      const radius = Math.min(2.6, Math.max(1.6, size / 2 - 0.5))
      context.beginPath()
      context.arc(x + size / 2, y - HALF + 3, radius, 0, 2 * Math.PI)
      context.fillStyle = colours.card
      context.fill()
      context.strokeStyle = colours['text-2']
      context.lineWidth = 1.1
      context.stroke()
    }
  }
}

function drawPlans(context: CanvasRenderingContext2D, plans: readonly Placed<PlanMark>[], width: number, colours: Colours): void {
  context.strokeStyle = colours.accent
  context.fillStyle = colours.card
  context.globalAlpha = 0.75
  context.lineWidth = 1
  // A path of a few shapes at a time: one of thousands takes far longer.
  for (const part of chunks(plans)) {
    context.beginPath()
    for (const { mark, y } of part) {
      const low = Math.max(-4, mark.x)
      const size = Math.max(3, Math.min(width + 4, mark.end) - low - 1)
      const tall = HALF - 0.5
      if (size < 8) context.rect(Math.round(low) + 0.5, y - tall + 0.5, Math.round(size), 2 * tall - 1)
      else context.roundRect(low + 0.5, y - tall + 0.5, size, 2 * tall - 1, 2)
    }
    context.fill()
    context.stroke()
  }
  context.globalAlpha = 1
}

type Bar = Placed<RunMark>

const FILLS: Partial<Record<Fate, keyof Colours>> = { succeeded: 'ok', late: 'late' }

function drawRuns(context: CanvasRenderingContext2D, runs: readonly Bar[], width: number, colours: Colours): void {
  drawLeads(context, runs, colours)
  const by = new Map<string, Bar[]>()
  for (const run of runs) {
    const key = run.mark.isRetried ? 'retried' : run.mark.fate
    const known = by.get(key)
    if (known) known.push(run)
    else by.set(key, [run])
  }
  for (const [key, bars] of by) {
    if (key === 'succeeded' || key === 'late') fillBars(context, bars, width, colours[FILLS[key] ?? 'ok'])
    else if (key === 'retried') {
      fillBars(context, bars, width, colours.late)
      // Cut in two: it took more than one attempt.
      context.fillStyle = colours.card
      for (const { mark, y } of bars) context.fillRect(mark.x - 1, y - 1, mark.end - mark.x + 2, 2)
    } else if (key === 'failed') drawFailed(context, bars, colours)
    else if (key === 'running') drawRunning(context, bars, width, colours)
    else if (key === 'retrying') drawRetrying(context, bars, colours)
    else if (key === 'cancelled') drawCancelled(context, bars, colours)
    else drawWaiting(context, bars, colours)
  }
}

function drawLeads(context: CanvasRenderingContext2D, runs: readonly Bar[], colours: Colours): void {
  for (const isLate of [false, true]) {
    context.beginPath()
    for (const { mark, y } of runs) {
      if (mark.lead === null || mark.run.is_late !== isLate) continue
      context.moveTo(mark.lead, y)
      context.lineTo(mark.x, y)
    }
    context.save()
    context.setLineDash([2, 1.5])
    context.lineWidth = 1.5
    context.strokeStyle = isLate ? colours.late : colours['text-2']
    context.stroke()
    context.restore()
  }
}

function fillBars(context: CanvasRenderingContext2D, bars: readonly Bar[], width: number, colour: string): void {
  context.fillStyle = colour
  const wide: Bar[] = []
  for (const bar of bars) {
    const low = Math.max(-4, bar.mark.x)
    const size = Math.min(width + 4, bar.mark.end) - low
    if (size < 4) context.fillRect(low, bar.y - HALF, size, 2 * HALF)
    else wide.push(bar)
  }
  for (const part of chunks(wide)) {
    context.beginPath()
    for (const { mark, y } of part) {
      const low = Math.max(-4, mark.x)
      context.roundRect(low, y - HALF + 1, Math.min(width + 4, mark.end) - low, 2 * HALF - 2, 2)
    }
    context.fill()
  }
}

function drawFailed(context: CanvasRenderingContext2D, bars: readonly Bar[], colours: Colours): void {
  context.fillStyle = colours.bad
  context.beginPath()
  bars.forEach(({ mark, y }, index) => {
    // A long failure is a thin bar that ends in the diamond. Where many are close, they are smaller.
    const isLong = mark.end - mark.x > 2 * DIAMOND_HALF
    if (isLong) context.rect(mark.x, y - 2, mark.end - mark.x, 4)
    const gap = Math.min(...[bars[index - 1], bars[index + 1]].map((other) => (other?.y === y ? Math.abs(middle(other.mark) - middle(mark)) : Infinity)))
    diamond(context, isLong ? mark.end : middle(mark), y, Math.max(3, Math.min(DIAMOND_HALF, gap * 0.6)))
  })
  context.fill()
  context.strokeStyle = colours.card
  context.lineWidth = 0.75
  context.stroke()
}

function drawRunning(context: CanvasRenderingContext2D, bars: readonly Bar[], width: number, colours: Colours): void {
  for (const { mark, y } of bars) {
    const low = Math.max(-4, mark.x)
    const size = Math.max(4, Math.min(width + 4, mark.end) - low)
    context.beginPath()
    context.roundRect(low + 0.75, y - HALF + 1.75, size - 1.5, 2 * HALF - 3.5, 2)
    context.fillStyle = colours['accent-soft']
    context.fill()
    context.strokeStyle = colours.accent
    context.lineWidth = 1.5
    context.stroke()
    context.fillStyle = colours.accent
    context.fillRect(low, y - HALF + 1, Math.min(3, size), 2 * HALF - 2)
  }
}

function drawRetrying(context: CanvasRenderingContext2D, bars: readonly Bar[], colours: Colours): void {
  context.beginPath()
  for (const { mark, y } of bars) diamond(context, mark.x, y, DIAMOND_HALF - 1)
  context.fillStyle = colours.card
  context.fill()
  context.strokeStyle = colours.late
  context.lineWidth = 1.5
  context.stroke()
  context.fillStyle = colours.late
  for (const { mark, y } of bars) context.fillRect(mark.x - 1.2, y - 1.2, 2.4, 2.4)
}

function drawCancelled(context: CanvasRenderingContext2D, bars: readonly Bar[], colours: Colours): void {
  context.beginPath()
  for (const { mark, y } of bars) {
    const size = Math.max(5, mark.end - mark.x)
    context.rect(mark.x + 0.5, y - 5, size - 1, 10)
    context.moveTo(mark.x + 0.5, y + 5)
    context.lineTo(mark.x + size - 0.5, y - 5)
  }
  context.strokeStyle = colours['text-2']
  context.lineWidth = 1.1
  context.stroke()
}

function drawWaiting(context: CanvasRenderingContext2D, bars: readonly Bar[], colours: Colours): void {
  for (const { mark, y } of bars) {
    context.save()
    context.setLineDash([2, 2])
    context.beginPath()
    context.moveTo(mark.x, y)
    context.lineTo(mark.end, y)
    context.lineWidth = 2
    context.strokeStyle = mark.run.is_late ? colours.late : colours['text-2']
    context.stroke()
    context.restore()
    context.fillStyle = mark.run.is_late ? colours.late : colours['text-2']
    context.fillRect(mark.x, y - 4, 1.5, 8)
  }
}

function drawSkips(context: CanvasRenderingContext2D, skips: readonly Placed<SkipMark>[], width: number, colours: Colours): void {
  context.beginPath()
  skips.forEach(({ mark, y }, index) => {
    // Where many are close, they are smaller.
    const gap = Math.min(...[skips[index - 1], skips[index + 1]].map((other) => (other?.y === y ? Math.abs(middle(other.mark) - middle(mark)) : Infinity)))
    const radius = Math.max(2, Math.min(CIRCLE_RADIUS, gap * 0.38))
    if (mark.count === 1 || mark.end - mark.x < 2 * CIRCLE_RADIUS + 4) {
      const x = middle(mark)
      context.moveTo(x + radius, y)
      context.arc(x, y, radius, 0, 2 * Math.PI)
    } else {
      const low = Math.max(-6, mark.x + 0.5)
      context.roundRect(low, y - CIRCLE_RADIUS, Math.min(width + 6, mark.end) - low - 0.5, 2 * CIRCLE_RADIUS, CIRCLE_RADIUS)
    }
  })
  context.fillStyle = colours.card
  context.fill()
  context.strokeStyle = colours['text-2']
  context.lineWidth = 1.2
  context.stroke()
  context.fillStyle = colours['text-2']
  context.font = '10px Inter, system-ui, sans-serif'
  context.textAlign = 'center'
  context.textBaseline = 'middle'
  for (const { mark, y } of skips) {
    if (mark.count < 2) continue
    const low = Math.max(0, mark.x)
    const high = Math.min(width, mark.end)
    const text = mark.count.toLocaleString('en-GB')
    const size = text.length * 6 + 6
    if (high - low < size + 10) continue
    context.fillStyle = colours.card
    context.fillRect((low + high - size) / 2, y - CIRCLE_RADIUS - 1, size, 2 * CIRCLE_RADIUS + 2)
    context.fillStyle = colours['text-2']
    context.fillText(text, (low + high) / 2, y + 0.5)
  }
}

function drawRing(context: CanvasRenderingContext2D, { mark, middle: y }: { mark: Mark; middle: number }, colours: Colours): void {
  const size = mark.end - mark.x
  const wide = Math.max(14, size + 6)
  context.beginPath()
  context.roundRect(middle(mark) - wide / 2, y - 11, wide, 22, 5)
  context.strokeStyle = colours.accent
  context.lineWidth = 2
  context.stroke()
}

function* chunks<T>(items: readonly T[], size = 64): Generator<readonly T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size)
}

function diamond(context: CanvasRenderingContext2D, x: number, y: number, half: number): void {
  context.moveTo(x, y - half)
  context.lineTo(x + half, y)
  context.lineTo(x, y + half)
  context.lineTo(x - half, y)
  context.closePath()
}

function line(context: CanvasRenderingContext2D, x: number, from: number, to: number, colour: string, size: number): void {
  context.beginPath()
  context.moveTo(x, from)
  context.lineTo(x, to)
  context.strokeStyle = colour
  context.lineWidth = size
  context.stroke()
}
