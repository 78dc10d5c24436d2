/** Groups of failed runs, and what can be done with them. */
import { useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query'
import { useLocation } from 'wouter'
import { getJson, sendJson } from '../../api/client'
import type { FailureGroup, List } from '../../api/types'
import { useConfirm } from '../../components/ConfirmDialog'
import { errorText } from '../../components/ErrorNotice'
import { useToast } from '../../components/Toast'
import { serverNow } from '../../lib/clock'
import { count } from '../../lib/outcome'
import { withSearch } from '../../lib/url'
import { splitRate } from './rates'

interface Groups extends List<FailureGroup> {
  is_sampled?: boolean
}

interface BulkAnswer {
  matched: number
  has_more: boolean
  done: { run_id: string; new_run_id: string | null }[]
  refused: { run_id: string; message: string }[]
}

/** Failed runs that nobody replayed or discarded, grouped by error and receiver; of one job, or of all. */
export function useFailureGroups(job: string | null): UseQueryResult<Groups, Error> {
  return useQuery({ queryKey: ['runs', 'groups', job], queryFn: ({ signal }) => getJson<Groups>('/runs/groups', { job, limit: 100 }, signal) })
}

export function useGroupActions(job: string | null) {
  const client = useQueryClient()
  const confirm = useConfirm()
  const toast = useToast()
  const [, navigate] = useLocation()
  const act = async (verb: 'replay' | 'discard', groups: readonly FailureGroup[], rates: readonly number[] = []) => {
    const total = { done: 0, refused: [] as string[], hasMore: false }
    try {
      for (const [index, { fingerprint }] of groups.entries()) {
        const answer = await sendJson<BulkAnswer>('POST', `/runs/${verb}`, { state: 'failed', fingerprint, ...(job ? { job } : {}), ...(verb === 'replay' ? { per_minute: rates[index] } : {}) })
        total.done += answer.done.length
        total.refused.push(...answer.refused.map(({ message }) => message))
        total.hasMore ||= answer.has_more
      }
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
    if (total.done || total.refused.length) {
      const refused = total.refused.length ? `, ${total.refused.length} refused: ${total.refused[0]}` : ''
      toast({
        text: `${count(total.done, 'run')} ${verb === 'replay' ? 'replayed' : 'discarded'}${refused}${total.hasMore ? '; more remain: repeat the action' : ''}`,
        ...(total.refused.length ? { tone: 'bad' as const } : {}),
        ...(verb === 'replay' && total.done ? { action: ['Watch', () => navigate(withSearch('/runs', { job, since: new Date(serverNow() - 60_000).toISOString() }))] as const } : {}),
      })
    }
    for (const topic of ['runs', 'stats', 'jobs', 'job', 'timeline']) void client.invalidateQueries({ queryKey: [topic] })
  }
  return {
    replay: (groups: readonly FailureGroup[], perMinute: number) => act('replay', groups, splitRate(perMinute, groups.map((group) => group.count))),
    discard: async (group: FailureGroup) => {
      const what = count(group.count, 'failed run')
      const isSure = await confirm({ title: `Discard ${what}?`, body: 'They are removed from this list. Their history stays until retention deletes it.', action: `Discard ${what}`, isDanger: true })
      if (isSure) await act('discard', [group])
    },
  }
}
