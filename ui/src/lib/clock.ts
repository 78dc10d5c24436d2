/**
 * The server's time, whatever the browser's clock says.
 *
 * Each answer bounds the difference between the two clocks: the server wrote its time after the request left and before
 * the answer came. The bounds of many answers are intersected.
 */
export interface Bounds {
  low: number
  high: number
}

export const NO_BOUNDS: Bounds = { low: -Infinity, high: Infinity }

/** Bounds of server clock − browser clock in ms. `resolution` is 1000 for a Date header, which drops the fraction. */
export function boundsOf(server: number, sentAt: number, receivedAt: number, resolution: number): Bounds {
  return { low: server - receivedAt, high: server + resolution - sentAt }
}

/** Intersect; if the two contradict each other, a clock was set, and the newer one counts. */
export function narrow(known: Bounds, found: Bounds): Bounds {
  const low = Math.max(known.low, found.low)
  const high = Math.min(known.high, found.high)
  return low <= high ? { low, high } : found
}

/** The difference to assume: none if the clocks may agree, else the middle. */
export function offsetOf({ low, high }: Bounds): number {
  if (low <= 0 && high >= 0) return 0
  return Number.isFinite(low) && Number.isFinite(high) ? Math.round((low + high) / 2) : 0
}

let known = NO_BOUNDS

export function observe(server: number, sentAt: number, receivedAt: number, resolution: number): void {
  if (Number.isFinite(server)) known = narrow(known, boundsOf(server, sentAt, receivedAt, resolution))
}

/** Milliseconds since 1970 by the server's clock. */
export function serverNow(): number {
  return Date.now() + offsetOf(known)
}

export function clockOffset(): number {
  return offsetOf(known)
}
