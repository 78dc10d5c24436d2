import { memo, useState, type PointerEvent } from 'react'
import type { RecentTime } from '../api/types'
import { formatDuration } from '../lib/duration'
import { FATE_WORDS, summarizeFates } from '../lib/outcome'
import { SPARK_HEIGHT, SPARK_STEP, sparkPaths, timeAt } from '../lib/spark'
import { formatTime } from '../lib/time'

/** The last scheduled times of a job, oldest first: the height is the duration, shape and colour the outcome. */
export const Sparkline = memo(function Sparkline({ times, zone, slots = 20 }: { times: readonly RecentTime[]; zone: string; slots?: number }) {
  const [pointed, setPointed] = useState<RecentTime>()
  const shown = times.slice(-slots)
  const width = slots * SPARK_STEP
  const point = (event: PointerEvent<SVGSVGElement>) => setPointed(timeAt(shown, slots, event.clientX - event.currentTarget.getBoundingClientRect().left))
  return (
    <svg className="hb-spark" width={width} height={SPARK_HEIGHT} viewBox={`0 0 ${width} ${SPARK_HEIGHT}`} role="img" aria-label={`Last ${summarizeFates(shown.map((time) => time.fate))}`} onPointerMove={point}>
      {pointed && <title>{describe(pointed, zone)}</title>}
      <rect className="hb-spark-hit" width={width} height={SPARK_HEIGHT} />
      {sparkPaths(shown, slots).map(({ tone, isFilled, d }) => (
        <path key={`${tone} ${isFilled}`} data-tone={tone} d={d} fill={isFilled ? 'currentColor' : 'none'} stroke={isFilled ? 'none' : 'currentColor'} strokeWidth="1.1" />
      ))}
    </svg>
  )
})

function describe(time: RecentTime, zone: string): string {
  const late = time.fate === 'late' && time.lateness_ms !== null ? ` by ${formatDuration(time.lateness_ms)}` : ''
  const took = time.duration_ms === null ? '' : `, took ${formatDuration(time.duration_ms)}`
  return `${formatTime(time.at, zone, { offset: true })}: ${FATE_WORDS[time.fate]}${late}${took}`
}
