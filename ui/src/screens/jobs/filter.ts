/** The filters of the job list, as they stand in the address and in the API. */
export const FILTERS = ['q', 'tag', 'state', 'target', 'managed_by', 'source', 'subject', 'last_result', 'attention'] as const
export type FilterName = (typeof FILTERS)[number]
export type Filter = Partial<Record<FilterName, string>>

export const SORTS = ['name', 'next_at'] as const
export type Sort = (typeof SORTS)[number]

export const ATTENTION_OPTIONS = [
  ['', 'Any attention'],
  ['failing', 'failing'],
  ['retrying', 'retrying'],
  ['losing', 'losing runs'],
  ['late', 'late now'],
  ['paused', 'paused'],
  ['due', 'due within the hour'],
] as const
export const STATE_OPTIONS = [
  ['', 'Any state'],
  ['active', 'active'],
  ['paused', 'paused'],
  ['done', 'done'],
  ['error', 'in error'],
] as const
export const TARGET_OPTIONS = [
  ['', 'Any target'],
  ['http', 'http'],
  ['sql', 'sql'],
  ['task', 'task'],
  ['command', 'command'],
  ['queue', 'queue'],
] as const
export const RESULT_OPTIONS = [
  ['', 'Any last result'],
  ['succeeded', 'last succeeded'],
  ['failed', 'last failed'],
  ['retrying', 'retrying now'],
  ['running', 'running now'],
  ['cancelled', 'last cancelled'],
] as const
export const OWNER_OPTIONS = [
  ['', 'Any owner'],
  ['api', 'owned by the API'],
  ['app', 'owned by an application'],
  ['code', 'owned by code'],
  ['file', 'owned by a file'],
  ['sql', 'owned by SQL'],
] as const

export function readFilter(query: URLSearchParams): Filter {
  const found: Filter = {}
  for (const name of FILTERS) {
    const value = query.get(name)
    if (value) found[name] = value
  }
  return found
}

/** The list by last result has an order of its own, so it cannot be sorted. */
export function isSortable(filter: Filter): boolean {
  return !filter.last_result
}

/** Names of selected jobs, or "all" that match the filter. Names contain no commas. */
export type Chosen = ReadonlySet<string> | 'all'

export function readChosen(text: string | null): Chosen {
  return text === '*' ? 'all' : new Set((text ?? '').split(',').filter(Boolean))
}

export function writeChosen(chosen: Chosen): string {
  return chosen === 'all' ? '*' : [...chosen].join(',')
}

/** "78 jobs", "first 100 of 1,204 jobs", "more than 100 jobs" */
export function describeCount(shown: number, hasMore: boolean, isFirst: boolean, total: number | undefined): string {
  const noun = (number: number) => `${number.toLocaleString('en-GB')} ${number === 1 ? 'job' : 'jobs'}`
  if (isFirst && !hasMore) return noun(shown)
  if (total !== undefined) return `${shown.toLocaleString('en-GB')} of ${noun(total)}`
  return isFirst ? `the first ${noun(shown)} that match` : `${noun(shown)} on this page`
}
