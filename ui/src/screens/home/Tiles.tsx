import { Link } from 'wouter'
import type { Stats } from '../../api/types'
import { formatDuration } from '../../lib/duration'
import { formatNumber, type Tone } from '../../lib/outcome'
import { patchSearch } from '../../lib/url'
import type { AttentionFilter } from './queries'

/** From here on the scheduler is behind. */
const LAG_WARN_MS = 5_000

interface Tile {
  label: string
  value: string
  tone: Tone | undefined
  href: string
  isSet?: boolean
  title: string
}

/** Numbers that are filters of the time line; a second click removes the filter. */
export function Tiles({ stats, search, attention }: { stats: Stats | undefined; search: string; attention: AttentionFilter | null }) {
  const filter = (value: AttentionFilter, label: string, number: number | undefined, tone: Tone | undefined, title: string): Tile => {
    const isSet = attention === value
    const next = patchSearch(search, { attention: isSet ? null : value, cursor: null, skip: null })
    const isAtLeast = stats?.at_least.includes(value === 'due' ? 'due_within_hour' : value)
    return { label, value: number === undefined ? '–' : `${formatNumber(number)}${isAtLeast ? '+' : ''}`, tone: number ? tone : undefined, href: next ? `/?${next}` : '/', isSet, title: isSet ? `${title} Click to show all jobs.` : title }
  }
  const lag = stats?.lag_ms
  const nodes = stats?.nodes
  const tiles: Tile[] = [
    filter('failing', 'Failing', stats?.failing, 'bad', 'Jobs whose last run failed.'),
    filter('retrying', 'Retrying', stats?.retrying, 'late', 'Jobs with a failed attempt that is retried.'),
    filter('losing', 'Losing runs', stats?.losing, 'late', 'Jobs with times skipped in the last 24 hours, other than by a pause or an edit.'),
    filter('late', 'Late now', stats?.late, 'late', 'Jobs with a run that waits longer than the job’s “late after”.'),
    filter('paused', 'Paused', stats?.paused, undefined, 'Paused jobs.'),
    filter('due', 'Due within the hour', stats?.due_within_hour, undefined, 'Jobs that fire within the hour.'),
    { label: 'Scheduler lag', value: lag === undefined ? '–' : formatDuration(lag), tone: lag !== undefined && lag > LAG_WARN_MS ? 'late' : undefined, href: '/nodes', title: 'How long the oldest due job or ready run has waited.' },
    { label: nodes === 1 ? 'Node' : 'Nodes', value: nodes === undefined ? '–' : formatNumber(nodes), tone: nodes === 0 ? 'bad' : undefined, href: '/nodes', title: 'Live nodes.' },
  ]
  return (
    <nav className="home-tiles" aria-label="At a glance">
      {tiles.map(({ label, value, tone, href, isSet, title }) => (
        <Link key={label} href={href} className="home-tile" data-tone={tone} aria-current={isSet ? 'true' : undefined} title={title}>
          <span className="home-tile-value">{value}</span>
          <span className="home-tile-label">{label}</span>
        </Link>
      ))}
    </nav>
  )
}
