import { useEffect, useState, type ComponentType } from 'react'
import { Loading } from '../components/Loading'

/**
 * A screen that is loaded when it is opened. React's own `lazy` shows what replaces its fallback only 300 ms after the
 * fallback, which is longer than loading takes; this one shows a screen as soon as it is there.
 */
export function lazyScreen(load: () => Promise<{ default: ComponentType }>): ComponentType {
  let loaded: ComponentType | undefined
  return function LazyScreen() {
    const [Screen, setScreen] = useState<ComponentType | undefined>(() => loaded)
    const [error, setError] = useState<unknown>()
    useEffect(() => {
      if (loaded) return
      load().then(
        (module) => {
          loaded = module.default
          setScreen(() => module.default)
        },
        (reason: unknown) => setError(reason instanceof Error ? reason : new Error(String(reason))),
      )
    }, [])
    if (error !== undefined) throw error
    return Screen ? <Screen /> : <Loading what="the screen" />
  }
}
