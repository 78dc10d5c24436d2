import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { getJson } from '../../api/client'
import type { Forecast, Timeline, TimelineRow } from '../../api/types'
import { isoSeconds } from '../home/scale'
import { hoursOf, type Timed } from './grid'

const HOUR = 3_600_000
const PAGE = 100
/** More jobs than these are not asked for one by one. */
export const MAX_PAGES = 10

/** Planned runs by hour. */
export function usePlanned(from: number, until: number): UseQueryResult<{ hours: Timed[]; leftOut: number }, Error> {
  const buckets = Math.min(744, Math.ceil((until - from) / HOUR))
  return useQuery({
    queryKey: ['forecast', 'hours', from, buckets],
    queryFn: async ({ signal }) => {
      const found = await getJson<Forecast>('/forecast', { from: isoSeconds(from), bucket: '1h', buckets }, signal)
      return { hours: found.buckets.map(({ at, count }) => ({ at: Date.parse(at), counts: { planned: count } })), leftOut: found.jobs_left_out }
    },
    placeholderData: keepPreviousData,
  })
}

export interface Minute {
  at: number
  count: number
}

const MINUTES_PER_CALL = 720

/** The fullest minutes of the coming 24 hours, the fullest first. */
export function useWorstMinutes(from: number, most: number): UseQueryResult<Minute[], Error> {
  return useQuery({
    queryKey: ['forecast', 'minutes', from, most],
    queryFn: async ({ signal }) => {
      const halves = [0, 1].map((half) => getJson<Forecast>('/forecast', { from: isoSeconds(from + half * MINUTES_PER_CALL * 60_000), bucket: '1m', buckets: MINUTES_PER_CALL }, signal))
      const minutes = (await Promise.all(halves)).flatMap((found) => found.buckets.map(({ at, count }) => ({ at: Date.parse(at), count })))
      return minutes.filter(({ count }) => count > 0).sort((one, other) => other.count - one.count || one.at - other.at).slice(0, most)
    },
    placeholderData: keepPreviousData,
  })
}

export interface JobCounts {
  row: TimelineRow
  hours: Timed[]
}

export interface Actual {
  jobs: JobCounts[]
  /** There are more jobs than were read. */
  isPart: boolean
}

/** What ran, by job and hour. Read once and then only now and then: the past changes little. */
export function useActual(from: number, until: number): UseQueryResult<Actual, Error> {
  return useQuery({
    queryKey: ['past', from, until],
    queryFn: async ({ signal }) => {
      const { rows, isPart } = await pages({ from, until, sort: 'name', max_marks: 1 }, () => false, signal)
      return { jobs: rows.map((row) => ({ row, hours: hoursOf(row) })), isPart }
    },
    staleTime: 60_000,
    refetchInterval: 5 * 60_000,
    structuralSharing: false,
  })
}

/** The jobs that fire within a span to come, the fullest first, with how often they do. */
export function useFiring(from: number, until: number, isEnabled: boolean): UseQueryResult<{ jobs: { row: TimelineRow; count: number }[]; isPart: boolean }, Error> {
  return useQuery({
    queryKey: ['forecast', 'jobs', from, until],
    enabled: isEnabled,
    queryFn: async ({ signal }) => {
      // Sorted by the next time: who fires in the span fires next in it or before it.
      const { rows, isPart } = await pages({ from, until, sort: 'next', max_marks: 100 }, (row) => row.job.next_at !== null && Date.parse(row.job.next_at) >= until, signal)
      const jobs = rows.map((row) => ({ row, count: row.planned.length + (row.buckets ?? []).reduce((sum, bucket) => sum + bucket.planned, 0) })).filter(({ count }) => count > 0)
      return { jobs: jobs.sort((one, other) => other.count - one.count || one.row.job.name.localeCompare(other.row.job.name)), isPart }
    },
    placeholderData: keepPreviousData,
  })
}

async function pages(query: { from: number; until: number; sort: string; max_marks: number }, isEnough: (last: TimelineRow) => boolean, signal: AbortSignal): Promise<{ rows: TimelineRow[]; isPart: boolean }> {
  const rows: TimelineRow[] = []
  let cursor: string | null = null
  for (let page = 0; page < MAX_PAGES; page++) {
    const found: Timeline = await getJson<Timeline>('/timeline', { ...query, from: isoSeconds(query.from), until: isoSeconds(query.until), limit: PAGE, cursor }, signal)
    rows.push(...found.items)
    cursor = found.next_cursor
    const last = found.items.at(-1)
    if (!cursor || (last && isEnough(last))) return { rows, isPart: false }
  }
  return { rows, isPart: true }
}
