/** The names at the left of the time line, with what each job says of itself. */
import { memo } from 'react'
import { Link } from 'wouter'
import type { TimelineRow } from '../../api/types'
import { OutcomeMark } from '../../components/Outcome'
import { count } from '../../lib/outcome'
import { jobPath, withSearch } from '../../lib/url'
import { rowFate, rowNote, type Line } from './rows'

export const GROUP_HEIGHT = 28

export const Labels = memo(function Labels({ lines, rowHeight, zone, now, active }: { lines: readonly Line[]; rowHeight: number; zone: string; now: number; active: string | null }) {
  return (
    <ul className="home-labels">
      {lines.map((line) =>
        line.kind === 'group' ? (
          <li key={`group-${line.tag}`} className="home-group" style={{ height: GROUP_HEIGHT }}>
            {line.tag === null ? <span>no tag</span> : <Link href={withSearch('/', { tag: line.tag })}>{line.tag}</Link>}
            <span className="hb-muted">{count(line.count, 'job')}</span>
          </li>
        ) : (
          <Label key={line.row.job.id} row={line.row} height={rowHeight} zone={zone} now={now} isActive={active === line.row.job.id} />
        ),
      )}
    </ul>
  )
})

const Label = memo(function Label({ row, height, zone, now, isActive }: { row: TimelineRow; height: number; zone: string; now: number; isActive: boolean }) {
  const note = rowNote(row, zone, now)
  return (
    <li className="home-label" style={{ height }} data-active={isActive || undefined}>
      <OutcomeMark fate={rowFate(row)} size={11} />
      <div className="home-label-text">
        <Link href={jobPath(row.job)} title={row.job.name}>
          {row.job.name}
        </Link>
        <span className="home-label-note" title={note}>
          {note}
        </span>
      </div>
      <span className="home-label-zone" title={row.job.timezone}>
        {row.job.timezone}
      </span>
    </li>
  )
})
