/** The time zone that times are shown in: UTC, the browser's, or each job's own. */
import { createContext, useContext, useMemo, useState, type ReactNode } from 'react'
import { recall, remember } from '../lib/storage'
import { browserZone, isZone } from '../lib/time'
import { oneOf } from '../lib/url'

export const ZONE_MODES = ['browser', 'utc', 'job'] as const
export type ZoneMode = (typeof ZONE_MODES)[number]

interface ZoneChoice {
  mode: ZoneMode
  setMode: (mode: ZoneMode) => void
}

const ZoneContext = createContext<ZoneChoice>({ mode: 'utc', setMode: () => undefined })

export function ZoneProvider({ children }: { children: ReactNode }) {
  const [mode, setMode] = useState<ZoneMode>(() => oneOf(recall('zone'), ZONE_MODES))
  const choice = useMemo(
    () => ({
      mode,
      setMode: (next: ZoneMode) => {
        setMode(next)
        remember('zone', next)
      },
    }),
    [mode],
  )
  return <ZoneContext.Provider value={choice}>{children}</ZoneContext.Provider>
}

export function useZoneMode(): ZoneChoice {
  return useContext(ZoneContext)
}

/** The IANA name of the zone to show a time in. Times of many jobs on one axis have no job's zone: UTC then. */
export function useZone(jobZone?: string | null): string {
  const { mode } = useZoneMode()
  if (mode === 'browser') return browserZone()
  return mode === 'job' && jobZone && isZone(jobZone) ? jobZone : 'UTC'
}
