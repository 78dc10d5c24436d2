/** The card of the mark under the pointer or the focus. */
import { Link } from 'wouter'
import type { TimelineRow } from '../../api/types'
import { OutcomeMark } from '../../components/Outcome'
import { describeMark, pathOf } from './describe'
import { left, middle, type Mark } from './marks'

const CARD_WIDTH = 300

export function MarkCard({ mark, row, zone, now, width, top, height, isPinned, onZoom }: { mark: Mark; row: TimelineRow; zone: string; now: number; width: number; top: number; height: number; isPinned: boolean; onZoom: () => void }) {
  const { fate, title, facts, action } = describeMark(mark, row, zone, now)
  const path = pathOf(mark, row)
  const size = Math.min(CARD_WIDTH, width)
  const centre = Math.max(left(mark), Math.min(middle(mark), width))
  const x = Math.max(0, Math.min(width - size, centre - size / 2))
  const isAbove = top > height / 2 && top > 120
  return (
    <div className="home-card" data-pinned={isPinned || undefined} style={{ left: x, width: size, ...(isAbove ? { bottom: height - top + 16 } : { top: top + 16 }) }} onPointerDown={(event) => event.stopPropagation()} onPointerUp={(event) => event.stopPropagation()}>
      <div className="home-card-head">
        <OutcomeMark fate={fate} />
        <strong>{row.job.name}</strong>
        <span>{title}</span>
      </div>
      <dl>
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <div className="home-card-foot">
        {zone}
        {isPinned ? path ? <Link href={path}>{action}</Link> : <button onClick={onZoom}>{action}</button> : <span>{action}</span>}
      </div>
    </div>
  )
}
