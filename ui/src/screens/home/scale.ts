/** The window of the time line: which times it shows, how they become pixels, and how zoom and pan change it. */
import { oneOf } from '../../lib/url'

export const MINUTE = 60_000
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

/** How much each button shows on both sides of now. */
export const ZOOMS = { '24h': DAY, '1h': HOUR, '7d': 7 * DAY, '30d': 30 * DAY } as const
export type Zoom = keyof typeof ZOOMS
export const ZOOM_NAMES = Object.keys(ZOOMS) as [Zoom, ...Zoom[]]

/** Widest window: a little below the 62 days of the API, which also has to hold the margins. */
export const MAX_SPAN = 60 * DAY
export const MIN_SPAN = 10 * MINUTE
/** How far from now one may go. */
const MAX_DISTANCE = 400 * DAY

export interface Span {
  from: number
  until: number
}

/** A window that follows now, or one that somebody moved. */
export type View = { zoom: Zoom; span: null } | { zoom: null; span: Span }

export function spanOf(view: View, now: number): Span {
  if (view.span) return view.span
  const half = ZOOMS[view.zoom]
  return { from: now - half, until: now + half }
}

export function toX(at: number, { from, until }: Span, width: number): number {
  return ((at - from) / (until - from)) * width
}

export function toTime(x: number, { from, until }: Span, width: number): number {
  return from + (x / width) * (until - from)
}

/** Limit length and distance from now; the middle stays where it can. */
export function limitSpan({ from, until }: Span, now: number): Span {
  const length = Math.max(MIN_SPAN, Math.min(MAX_SPAN, until - from))
  const middle = Math.max(now - MAX_DISTANCE, Math.min(now + MAX_DISTANCE, (from + until) / 2))
  return { from: Math.round(middle - length / 2), until: Math.round(middle + length / 2) }
}

/** Zoom by a factor (below 1 shows less), so that the time `anchor` stays at its pixel. */
export function zoomAt(span: Span, factor: number, anchor: number, now: number): Span {
  const length = span.until - span.from
  const wanted = Math.max(MIN_SPAN, Math.min(MAX_SPAN, length * factor))
  const share = (anchor - span.from) / length
  return limitSpan({ from: anchor - share * wanted, until: anchor + (1 - share) * wanted }, now)
}

/** Move by a share of the length: 0.5 is half a window to the right. */
export function pan({ from, until }: Span, share: number, now: number): Span {
  const step = (until - from) * share
  return limitSpan({ from: from + step, until: until + step }, now)
}

/** What to ask the server for: the window with margins for panning and for now, which moves on. Whole seconds. */
export function withMargin({ from, until }: Span, share = 0.03): Span {
  const margin = Math.min((until - from) * share, DAY)
  return { from: Math.floor((from - margin) / 1000) * 1000, until: Math.ceil((until + margin) / 1000) * 1000 }
}

/** The view that the address describes. A damaged address shows the default. */
export function viewOf(query: URLSearchParams, now: number): View {
  const from = Date.parse(query.get('from') ?? '')
  const until = Date.parse(query.get('until') ?? '')
  if (from < until) return { zoom: null, span: limitSpan({ from, until }, now) }
  return { zoom: oneOf(query.get('zoom'), ZOOM_NAMES), span: null }
}

export function viewPatch(view: View): { zoom: string | null; from: string | null; until: string | null } {
  if (!view.span) return { zoom: view.zoom === '24h' ? null : view.zoom, from: null, until: null }
  return { zoom: null, from: isoSeconds(view.span.from), until: isoSeconds(view.span.until) }
}

export function isoSeconds(at: number): string {
  return new Date(Math.round(at / 1000) * 1000).toISOString().replace('.000Z', 'Z')
}
