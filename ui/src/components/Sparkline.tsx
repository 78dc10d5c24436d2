import type { RecentTime } from '../api/types'
import { formatDuration } from '../lib/duration'
import { FATE_WORDS, summarizeFates, TONES } from '../lib/outcome'
import { formatTime } from '../lib/time'

const STEP = 6
const HEIGHT = 16

/** The last scheduled times of a job, oldest first: the height is the duration, shape and colour the outcome. */
export function Sparkline({ times, zone, slots = 20 }: { times: readonly RecentTime[]; zone: string; slots?: number }) {
  const longest = Math.max(1, ...times.map((time) => time.duration_ms ?? 0))
  const shown = times.slice(-slots)
  const first = slots - shown.length
  return (
    <svg className="hb-spark" width={slots * STEP} height={HEIGHT} viewBox={`0 0 ${slots * STEP} ${HEIGHT}`} role="img" aria-label={`Last ${summarizeFates(shown.map((time) => time.fate))}`}>
      {shown.map((time, index) => (
        <g key={`${time.at}-${time.run_id ?? index}`} data-tone={TONES[time.fate]} transform={`translate(${(first + index) * STEP} 0)`}>
          <title>{describe(time, zone)}</title>
          <rect className="hb-spark-hit" width={STEP} height={HEIGHT} />
          {mark(time, longest)}
        </g>
      ))}
    </svg>
  )
}

function describe(time: RecentTime, zone: string): string {
  const late = time.fate === 'late' && time.lateness_ms !== null ? ` by ${formatDuration(time.lateness_ms)}` : ''
  const took = time.duration_ms === null ? '' : `, took ${formatDuration(time.duration_ms)}`
  return `${formatTime(time.at, zone, { offset: true })}: ${FATE_WORDS[time.fate]}${late}${took}`
}

function mark(time: RecentTime, longest: number): React.ReactNode {
  const height = 5 + Math.round(8 * Math.sqrt((time.duration_ms ?? 0) / longest))
  const top = HEIGHT - 1 - height
  switch (time.fate) {
    case 'succeeded':
      return <rect x="1.5" y={top} width="3" height={height} rx="1" fill="currentColor" />
    case 'late':
      return (
        <>
          <rect x="1.5" y={top} width="3" height={Math.max(2, height - 4)} rx="1" fill="currentColor" />
          <rect x="1.5" y={HEIGHT - 3} width="3" height="2" fill="currentColor" />
        </>
      )
    case 'failed':
      return <path d={`M3 ${HEIGHT - 9} 6 ${HEIGHT - 5} 3 ${HEIGHT - 1} 0 ${HEIGHT - 5}Z`} fill="currentColor" />
    case 'skipped':
      return <circle cx="3" cy={HEIGHT - 4} r="2.1" fill="none" stroke="currentColor" strokeWidth="1.1" />
    default:
      return <rect x="1.6" y={top + 0.6} width="2.8" height={height - 1.2} rx="1" fill="none" stroke="currentColor" strokeWidth="1.1" />
  }
}
