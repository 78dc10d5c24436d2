import { useState } from 'react'
import { useNow } from '../app/now'
import { useZone } from '../app/zone'
import { serverNow } from '../lib/clock'
import { formatRelative } from '../lib/duration'
import { browserZone, formatTime, toMs, type TimeOptions } from '../lib/time'

interface Props extends Omit<TimeOptions, 'now'> {
  at: string | number | null | undefined
  /** The job's zone, for the zone switch and the hover. */
  zone?: string | null
}

/** A time in the chosen zone; the hover shows it in the other zones. */
export function Time({ at, zone, ...options }: Props) {
  const shown = useZone(zone)
  const [title, setTitle] = useState<string>()
  if (at === null || at === undefined) return <span className="hb-muted">—</span>
  const explain = () => setTitle(allZones(at, zone))
  return (
    <time dateTime={new Date(toMs(at)).toISOString()} title={title} onPointerEnter={explain} onFocus={explain}>
      {formatTime(at, shown, { ...options, now: serverNow() })}
    </time>
  )
}

/** "in 6 min", renewed as time passes; the hover shows the time itself in all zones. */
export function RelativeTime({ at, zone }: Pick<Props, 'at' | 'zone'>) {
  const ms = at === null || at === undefined ? null : toMs(at)
  const distance = ms === null ? 0 : Math.abs(ms - serverNow())
  useNow(ms === null ? 3600 : distance < 130_000 ? 1 : 15)
  const [title, setTitle] = useState<string>()
  if (ms === null) return <span className="hb-muted">—</span>
  return (
    <time dateTime={new Date(ms).toISOString()} title={title} onPointerEnter={() => setTitle(allZones(ms, zone))}>
      {formatRelative(ms, serverNow())}
    </time>
  )
}

/** One line per zone: the job's, the browser's, UTC. */
export function allZones(at: string | number, jobZone?: string | null): string {
  const zones = [...new Set([jobZone, browserZone(), 'UTC'].filter((zone): zone is string => !!zone))]
  const ms = toMs(at)
  const seconds = ms % 1000 ? 'ms' : ms % 60_000 !== 0
  return zones.map((zone) => `${formatTime(ms, zone, { offset: true, seconds, now: serverNow() })}  ${zone}`).join('\n')
}
