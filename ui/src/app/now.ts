import { useSyncExternalStore } from 'react'
import { serverNow } from '../lib/clock'

const watchers = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined
let second = 0

function tick(): void {
  if (document.hidden) return
  second = Math.floor(serverNow() / 1000)
  for (const watcher of [...watchers]) watcher()
}

function watch(watcher: () => void): () => void {
  if (!watchers.size) {
    timer = setInterval(tick, 1000)
    document.addEventListener('visibilitychange', tick)
  }
  watchers.add(watcher)
  return () => {
    watchers.delete(watcher)
    if (watchers.size) return
    clearInterval(timer)
    document.removeEventListener('visibilitychange', tick)
  }
}

/** The server's time in ms, in steps of `stepSeconds`: the component renders again only when a step is over. */
export function useNow(stepSeconds = 1): number {
  return (
    useSyncExternalStore(watch, () => {
      if (!second || !watchers.size) second = Math.floor(serverNow() / 1000)
      return Math.floor(second / stepSeconds) * stepSeconds
    }) * 1000
  )
}
