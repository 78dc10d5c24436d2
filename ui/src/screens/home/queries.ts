import { keepPreviousData, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { getJson, sendJson } from '../../api/client'
import { keys } from '../../api/queries'
import type { Incident, Job, List, Stats, Timeline } from '../../api/types'
import { serverNow } from '../../lib/clock'
import { titleOf } from '../incidents/words'
import { isoSeconds, spanOf, withMargin, type View } from './scale'

export const ATTENTIONS = ['failing', 'retrying', 'losing', 'late', 'paused', 'due'] as const
export type AttentionFilter = (typeof ATTENTIONS)[number]

export interface TimelineFilter {
  attention: AttentionFilter | null
  tag: string | null
  q: string | null
}

export interface TimelineQuery extends TimelineFilter {
  view: View
  sort: 'attention' | 'name'
  limit: number
  cursor: string | null
  maxMarks: number
}

/** The rows of the time line. What comes with them says which question they answer, so that rows may move when it changes. */
export function useTimeline(query: TimelineQuery | null): UseQueryResult<Timeline & { asked: string }, Error> {
  const { view, maxMarks, ...rest } = query ?? { view: { zoom: '24h' as const, span: null }, maxMarks: 0 }
  const asked = JSON.stringify(rest)
  return useQuery({
    queryKey: keys.timeline(query ?? { none: true }),
    enabled: query !== null,
    queryFn: async ({ signal }) => {
      const { from, until } = withMargin(spanOf(view, serverNow()))
      const found = await getJson<Timeline>('/timeline', { ...rest, max_marks: maxMarks, from: isoSeconds(from), until: isoSeconds(until) }, signal)
      return { ...found, asked }
    },
    placeholderData: keepPreviousData,
    // Comparing thousands of runs costs more than drawing them.
    structuralSharing: false,
    refetchInterval: 60_000,
  })
}

/** The jobs that fire next. */
export function useNextJobs(limit: number): UseQueryResult<Job[], Error> {
  return useQuery({
    queryKey: keys.jobs({ next: limit }),
    queryFn: async ({ signal }) => (await getJson<List<Job>>('/jobs', { sort: 'next_at', state: 'active', limit }, signal)).items,
  })
}

export interface BulkAnswer {
  dry_run: boolean
  matched: number
}

/** How many failed runs of a job could be replayed. Asked again only when the job failed again. */
export function useReplayable(job: string, streak: number, isEnabled: boolean): number | null {
  const found = useQuery({
    queryKey: ['replayable', job, streak],
    enabled: isEnabled,
    queryFn: async () => (await sendJson<BulkAnswer>('POST', '/runs/replay', { job }, { dry_run: true })).matched,
  })
  return found.data ?? null
}

/** How many jobs a filter matches, if the statistics say so. */
export function totalOf(stats: Stats | undefined, filter: TimelineFilter): number | null {
  if (!stats || filter.tag || filter.q) return null
  switch (filter.attention) {
    case null:
      return stats.jobs
    case 'paused':
      return stats.paused
    case 'due':
      return stats.due_within_hour ?? null
    default:
      return stats[filter.attention] ?? null
  }
}

/** Incidents that nobody has acknowledged; counted up to a limit. */
export function useOpenIncidents() {
  return useQuery({
    queryKey: ['incidents', 'open'],
    queryFn: async ({ signal }) => {
      const { items, next_cursor } = await getJson<List<Incident>>('/incidents', { state: 'open', limit: 50 }, signal)
      return { count: items.length, isMore: next_cursor !== null, newest: items[0] ? titleOf(items[0]) : '' }
    },
  })
}
