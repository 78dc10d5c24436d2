/**
 * Query keys and hooks that several screens use. A key begins with its topic; the topics decide what the event stream
 * refreshes (`TOPICS_OF`). A screen's own queries live in its folder and use the same topics.
 */
import { MutationCache, QueryCache, QueryClient, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { useEffect } from 'react'
import { observe } from '../lib/clock'
import { may, type Role } from '../lib/roles'
import { api, call, getJson, setCsrfToken } from './client'
import { ApiError, isLoginNeeded, isPassing } from './errors'
import type { Job, JobDetail, List, RunDetail, Session, Stats } from './types'

export type Topic = 'jobs' | 'job' | 'runs' | 'run' | 'timeline' | 'stats' | 'forecast' | 'nodes' | 'audit' | 'tokens' | 'incidents' | 'incident' | 'channels' | 'alert-policies' | 'session'

/** What a change of a job, a run or an incident makes stale. The messages of incidents and channels are runs. */
export const TOPICS_OF: Record<'jobs' | 'runs' | 'incidents', readonly Topic[]> = {
  jobs: ['jobs', 'job', 'timeline', 'stats', 'forecast', 'audit'],
  runs: ['jobs', 'job', 'runs', 'run', 'timeline', 'stats', 'nodes', 'incident', 'channels'],
  incidents: ['incidents', 'incident', 'channels'],
}

export const keys = {
  session: ['session'] as const,
  stats: ['stats'] as const,
  jobs: (filter: object) => ['jobs', filter] as const,
  job: (name: string, ...more: unknown[]) => ['job', name, ...more] as const,
  runs: (filter: object) => ['runs', filter] as const,
  run: (id: string) => ['run', id] as const,
  timeline: (filter: object) => ['timeline', filter] as const,
}

export function createQueryClient(): QueryClient {
  // A session that has ended shows in any answer; asking for it again leads to the login.
  const onError = (error: unknown, query?: { queryKey: readonly unknown[] }) => {
    if (isLoginNeeded(error) && query?.queryKey[0] !== keys.session[0]) void client.invalidateQueries({ queryKey: keys.session })
  }
  const client: QueryClient = new QueryClient({
    queryCache: new QueryCache({ onError: (error, query) => onError(error, query) }),
    mutationCache: new MutationCache({ onError: (error) => onError(error) }),
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        retry: (failures, error) => failures < 2 && isPassing(error),
        retryDelay: (failures, error) => Math.max(1000 * 2 ** failures, error instanceof ApiError ? (error.retryAfterSeconds ?? 0) * 1000 : 0),
        refetchOnWindowFocus: true,
        networkMode: 'always',
      },
      mutations: { retry: false, networkMode: 'always' },
    },
  })
  return client
}

export function useSession(): UseQueryResult<Session, Error> {
  const session = useQuery({ queryKey: keys.session, queryFn: () => call(api.GET('/api/v1/session')), staleTime: 60_000, retryOnMount: false, retry: (failures, error) => failures < 5 && isPassing(error) })
  const token = session.data?.csrf_token
  useEffect(() => setCsrfToken(token), [token])
  return session
}

/** Whether the caller's role may do what needs `role`. False until the session is known. */
export function useMay(role: Role): boolean {
  return may(useSession().data?.role as Role | undefined, role)
}

export function useStats(): UseQueryResult<Stats, Error> {
  return useQuery({
    queryKey: keys.stats,
    queryFn: async () => {
      const sentAt = Date.now()
      const stats = await getJson<Stats>('/stats')
      if (stats.now) observe(Date.parse(stats.now), sentAt, Date.now(), 1)
      return stats
    },
    refetchInterval: 10_000,
  })
}

export function useJob(name: string): UseQueryResult<JobDetail, Error> {
  return useQuery({ queryKey: keys.job(name), queryFn: ({ signal }) => getJson<JobDetail>(`/jobs/${encodeURIComponent(name)}`, { recent: 20 }, signal) })
}

export function useRun(id: string): UseQueryResult<RunDetail, Error> {
  return useQuery({ queryKey: keys.run(id), queryFn: () => call(api.GET('/api/v1/runs/{run}', { params: { path: { run: id } } })) as Promise<RunDetail> })
}

/** A few jobs whose names match, for pickers. */
export function useJobSearch(text: string, limit = 8): UseQueryResult<Job[], Error> {
  return useQuery({
    queryKey: keys.jobs({ search: text, limit }),
    queryFn: async ({ signal }) => (await getJson<List<Job>>('/jobs', { q: text, limit }, signal)).items,
    placeholderData: (shown) => shown,
  })
}
