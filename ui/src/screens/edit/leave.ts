/** Ask before an edited form is left: by a link, a shortcut, Back, or by closing the tab. */
import { useEffect, useRef } from 'react'
import { guardBack } from '../../app/back'

type Ask = () => Promise<boolean>

export function useLeaveGuard(isDirty: boolean, ask: Ask): { leave: () => void } {
  const state = useRef({ isDirty, ask })
  state.current = { isDirty, ask }
  const isLeaving = useRef(false)
  useEffect(() => {
    const here = () => window.location.pathname
    const edited = { path: here(), href: window.location.href }
    const holds = () => state.current.isDirty && !isLeaving.current
    const pushed = history.pushState
    const guarded: History['pushState'] = (data, unused, url) => {
      const to = url === null || url === undefined ? here() : new URL(String(url), document.baseURI).pathname
      if (!holds() || to === edited.path) return pushed.call(history, data, unused, url)
      void state.current.ask().then((isSure) => {
        if (!isSure) return
        isLeaving.current = true
        pushed.call(history, data, unused, url)
      })
      return undefined
    }
    history.pushState = guarded
    const onPop = (event: PopStateEvent) => {
      if (!holds() || here() === edited.path) return
      event.stopImmediatePropagation()
      History.prototype.pushState.call(history, null, '', edited.href)
      void state.current.ask().then((isSure) => {
        if (!isSure) return
        isLeaving.current = true
        history.back()
      })
    }
    const onUnload = (event: BeforeUnloadEvent) => {
      if (holds()) event.preventDefault()
    }
    const stop = guardBack(onPop)
    window.addEventListener('beforeunload', onUnload)
    return () => {
      if (history.pushState === guarded) history.pushState = pushed
      stop()
      window.removeEventListener('beforeunload', onUnload)
    }
  }, [])
  return {
    leave: () => {
      isLeaving.current = true
    },
  }
}
