/** Filters of the run list and what they mean for the API. */
export const VIEWS = [
  ['all', 'All'],
  ['late', 'Began late'],
  ['stuck', 'Stuck'],
] as const
export type View = (typeof VIEWS)[number][0]

export const ENDPOINTS: Record<View, string> = { all: '/runs', late: '/runs/late', stuck: '/runs/stuck' }

export const VIEW_NOTES: Record<View, string> = {
  all: '',
  late: 'Runs that started later than their job’s late_after, the latest first.',
  stuck: 'Runs that still wait an hour after they were planned and ready.',
}

export const STATES = [
  ['', 'Any state'],
  ['running', 'running'],
  ['pending', 'waiting'],
  ['retrying', 'retrying'],
  ['failed', 'failed'],
  ['succeeded', 'succeeded'],
  ['cancelled', 'cancelled'],
] as const

export const SPANS = [
  ['', 'Any time'],
  ['1h', 'Last hour'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
] as const
export type Span = (typeof SPANS)[number][0]

const SPAN_MS: Record<string, number> = { '1h': 3_600_000, '24h': 86_400_000, '7d': 604_800_000 }

/** The time that a filter means: a span back from now, or a time as it is. */
export function sinceOf(since: string, now: number): string {
  const span = SPAN_MS[since]
  return span === undefined ? since : new Date(now - span).toISOString()
}
