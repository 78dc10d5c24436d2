import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getJson, sendJson } from '../../api/client'
import { keys } from '../../api/queries'
import type { Job, JobBulkAnswer, JobBulkBody, List } from '../../api/types'
import type { Chosen, Filter } from './filter'

export const PAGE = 50
const RECENT = 20
const MAX_TAGS = 200
const MAX_JOBS_PER_CALL = 1000

interface Page extends List<Job> {
  /** The request that this answers, so that rows of another one are told apart. */
  of: string
  /** The jobs on all pages, if a filter is set; null for more than 10,000. */
  total?: number | null
}

export function useJobs(filter: Filter, sort: string | undefined, cursor: string | null) {
  const query = { ...filter, sort, cursor, limit: PAGE, recent: RECENT, total: Object.keys(filter).length > 0 }
  return useQuery({
    queryKey: keys.jobs(query),
    queryFn: async ({ signal }): Promise<Page> => ({ ...(await getJson<List<Job> & { total?: number | null }>('/jobs', query, signal)), of: JSON.stringify(query) }),
    placeholderData: keepPreviousData,
  })
}

/** The tags that jobs have, for the filter. */
export function useTags(): readonly string[] {
  const tags = useQuery({ queryKey: keys.jobs({ tags: true }), queryFn: async ({ signal }) => (await getJson<List<{ tag: string }>>('/tags', { limit: MAX_TAGS }, signal)).items.map(({ tag }) => tag), staleTime: 60_000 })
  return tags.data ?? []
}

/** How many jobs match, exactly; more than a call may change are counted page by page. */
export async function countMatching(body: JobBulkBody): Promise<number> {
  const counted = await sendJson<JobBulkAnswer>('POST', '/jobs/bulk', body, { dry_run: true })
  return counted.has_more ? (await namesMatching(body.filter ?? {})).length : counted.matched
}

async function namesMatching(filter: JobBulkBody['filter']): Promise<string[]> {
  const names: string[] = []
  let cursor: string | null = null
  do {
    const page: List<Job> = await getJson<List<Job>>('/jobs', { ...filter, limit: 500, cursor })
    names.push(...page.items.map((job) => job.name))
    cursor = page.next_cursor
  } while (cursor)
  return names
}

/**
 * Do something to the chosen jobs. `expect` is the number that the user confirmed: if another number matches by then,
 * nothing is done.
 */
export async function actOn(chosen: Chosen, filter: Filter, expect: number, action: Omit<JobBulkBody, 'jobs' | 'filter' | 'expect'>): Promise<JobBulkAnswer> {
  const [only] = chosen === 'all' || chosen.size > 1 ? [] : [...chosen]
  if (only !== undefined && action.action !== 'tag' && action.action !== 'untag') return actOnOne(only, action.action, action)
  const isOneCall = expect <= MAX_JOBS_PER_CALL
  if (chosen === 'all' && isOneCall) {
    return sendJson<JobBulkAnswer>('POST', '/jobs/bulk', { ...action, filter, expect })
  }
  const names = chosen === 'all' ? await namesMatching(filter) : [...chosen]
  if (names.length !== expect) throw new Error(`${names.length} jobs match now, not ${expect}; nothing was done. Check the list and repeat.`)
  const total: JobBulkAnswer = { dry_run: false, matched: 0, done: [], refused: [], has_more: false }
  for (let from = 0; from < names.length; from += MAX_JOBS_PER_CALL) {
    const jobs = names.slice(from, from + MAX_JOBS_PER_CALL)
    const answer = await sendJson<JobBulkAnswer>('POST', '/jobs/bulk', { ...action, jobs })
    total.matched += answer.matched
    total.done.push(...answer.done)
    total.refused.push(...answer.refused)
  }
  return total
}

/** One job has its own endpoints; their answer is given the shape of the answer about many. */
async function actOnOne(name: string, action: 'pause' | 'resume' | 'trigger' | 'delete', { note, until }: { note?: string; until?: string }): Promise<JobBulkAnswer> {
  const path = `/jobs/${encodeURIComponent(name)}`
  let made: { run_id?: string } | undefined
  if (action === 'delete') await sendJson('DELETE', path)
  else made = await sendJson<{ run_id?: string }>('POST', `${path}/${action}`, action === 'pause' ? { ...(note ? { note } : {}), ...(until ? { until } : {}) } : {})
  return { dry_run: false, matched: 1, done: [{ id: '', name, ...(made?.run_id ? { run_id: made.run_id } : {}) }], refused: [], has_more: false }
}
