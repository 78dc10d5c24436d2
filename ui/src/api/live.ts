/**
 * The event stream: which jobs, runs and incidents changed, at most once a second, and the state of the connection.
 *
 * It pauses while the tab is hidden, reconnects with growing waits, and refreshes everything after a gap.
 */
import type { QueryClient } from '@tanstack/react-query'
import { BASE } from './client'
import { keys, TOPICS_OF, type Topic } from './queries'

export type LiveState = 'connecting' | 'live' | 'paused' | 'offline'

export interface Changes {
  jobs: { id: string; version: number | null }[]
  runs: { id: string; job_id: string; state: string }[]
  incidents?: { id: string; state: string }[]
}

const MIN_WAIT_MS = 1_000
const MAX_WAIT_MS = 30_000
const REFRESH_MS = 1_000

export class Live {
  private source: EventSource | null = null
  private state: LiveState = 'connecting'
  private failures = 0
  private retryTimer: ReturnType<typeof setTimeout> | undefined
  private readonly stale = new Set<Topic>()
  private isRefreshing = false
  private isStopped = true
  private hadGap = false
  private readonly watchers = new Set<() => void>()
  private readonly listeners = new Set<(changes: Changes) => void>()

  constructor(private readonly client: QueryClient) {}

  readonly getState = (): LiveState => this.state

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher)
    return () => this.watchers.delete(watcher)
  }

  /** Be called with each set of changes, for what a refresh of queries does not cover. */
  readonly onChanges = (listener: (changes: Changes) => void): (() => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  start(): void {
    this.isStopped = false
    document.addEventListener('visibilitychange', this.follow)
    window.addEventListener('online', this.reconnect)
    this.follow()
  }

  stop(): void {
    this.isStopped = true
    document.removeEventListener('visibilitychange', this.follow)
    window.removeEventListener('online', this.reconnect)
    this.close()
  }

  readonly reconnect = (): void => {
    if (this.isStopped || document.hidden) return
    this.failures = 0
    this.close()
    this.open()
  }

  private readonly follow = (): void => {
    if (document.hidden) {
      this.close()
      this.hadGap = true
      this.setState('paused')
    } else if (!this.source) this.open()
  }

  private open(): void {
    clearTimeout(this.retryTimer)
    this.setState(this.failures ? 'offline' : 'connecting')
    const source = new EventSource(`${BASE}/api/v1/events`, { withCredentials: true })
    this.source = source
    source.onopen = () => {
      this.failures = 0
      this.setState('live')
      if (this.hadGap) this.refreshAll()
      this.hadGap = false
    }
    source.onerror = () => {
      this.close()
      this.hadGap = true
      this.failures += 1
      this.setState('offline')
      const wait = Math.min(MAX_WAIT_MS, MIN_WAIT_MS * 2 ** (this.failures - 1))
      this.retryTimer = setTimeout(() => !document.hidden && this.open(), wait * (0.75 + Math.random() / 2))
      // The stream says nothing of its status; a session that ended shows in the next query.
      void this.client.invalidateQueries({ queryKey: keys.session })
    }
    source.addEventListener('reset', () => this.refreshAll())
    source.addEventListener('changes', (event) => {
      const changes = JSON.parse((event as MessageEvent<string>).data) as Changes
      if (changes.jobs.length) this.mark(TOPICS_OF.jobs)
      if (changes.runs.length) this.mark(TOPICS_OF.runs)
      if (changes.incidents?.length) this.mark(TOPICS_OF.incidents)
      for (const listener of this.listeners) listener(changes)
    })
  }

  private close(): void {
    clearTimeout(this.retryTimer)
    this.source?.close()
    this.source = null
  }

  private refreshAll(): void {
    this.mark([...TOPICS_OF.jobs, ...TOPICS_OF.runs, ...TOPICS_OF.incidents])
  }

  private mark(topics: readonly Topic[]): void {
    for (const topic of topics) this.stale.add(topic)
    if (!this.isRefreshing) void this.refresh()
  }

  /** Refresh what is stale, at most once a second and never faster than the server answers. */
  private async refresh(): Promise<void> {
    this.isRefreshing = true
    try {
      while (this.stale.size && !this.isStopped) {
        const topics = new Set(this.stale)
        this.stale.clear()
        const started = performance.now()
        await this.client.invalidateQueries({ predicate: (query) => topics.has(query.queryKey[0] as Topic) }, { cancelRefetch: false })
        const took = performance.now() - started
        await new Promise((resolve) => setTimeout(resolve, Math.max(REFRESH_MS, 2 * took)))
      }
    } finally {
      this.isRefreshing = false
    }
  }

  private setState(state: LiveState): void {
    if (state === this.state) return
    this.state = state
    for (const watcher of this.watchers) watcher()
  }
}
