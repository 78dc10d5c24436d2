import { useQuery } from '@tanstack/react-query'
import { getJson } from '../../api/client'
import type { Channel } from '../../api/types'

export function useChannels() {
  return useQuery({ queryKey: ['channels'], queryFn: ({ signal }) => getJson<{ items: Channel[] }>('/channels', {}, signal) })
}
