import type { QueryClient } from '@tanstack/react-query'
import { createContext, useContext, useEffect, useRef, useState, useSyncExternalStore, type ReactNode } from 'react'
import { Live, type Changes, type LiveState } from '../api/live'
import { isLoginNeeded } from '../api/errors'
import { useSession } from '../api/queries'

const LiveContext = createContext<Live | null>(null)

export function LiveProvider({ client, children }: { client: QueryClient; children: ReactNode }) {
  const [live] = useState(() => new Live(client))
  const session = useSession()
  const isKnown = session.data !== undefined && !isLoginNeeded(session.error)
  useEffect(() => {
    if (!isKnown) return undefined
    live.start()
    return () => live.stop()
  }, [live, isKnown])
  return <LiveContext.Provider value={live}>{children}</LiveContext.Provider>
}

export function useLiveState(): LiveState {
  const live = useContext(LiveContext)
  return useSyncExternalStore(live?.watch ?? (() => () => undefined), live?.getState ?? (() => 'connecting' as const))
}

/** Call `listener` with each set of changes. Queries refresh by themselves; this is for anything else. */
export function useLiveChanges(listener: (changes: Changes) => void): void {
  const live = useContext(LiveContext)
  const latest = useRef(listener)
  latest.current = listener
  useEffect(() => live?.onChanges((changes) => latest.current(changes)), [live])
}

const WORDS: Record<LiveState, string> = {
  connecting: 'connecting',
  live: 'live',
  paused: 'paused',
  offline: 'offline',
}
const TITLES: Record<LiveState, string> = {
  connecting: 'Connecting to the server',
  live: 'Live: changes appear immediately',
  paused: 'Paused while this tab is hidden',
  offline: 'The server does not answer; the page keeps trying. Click to try now.',
}

export function LiveDot() {
  const live = useContext(LiveContext)
  const state = useLiveState()
  return (
    <button type="button" className="hb-live" data-state={state} title={TITLES[state]} onClick={() => live?.reconnect()}>
      <span className="hb-live-dot" aria-hidden="true" />
      <span role="status">{WORDS[state]}</span>
    </button>
  )
}
