import { useRef, useState, type KeyboardEvent } from 'react'
import { count, formatNumber } from '../../lib/outcome'
import { compact, HOURS, moveCell, NO_COUNTS, strength, type Cell, type Counts } from './grid'

interface Props {
  label: string
  /** What the numbers count. */
  of: 'planned' | 'ran'
  cells: readonly (readonly Cell[])[]
  counts: ReadonlyMap<Cell, Counts>
  most: number
  now: number
  dayName: (cell: Cell) => string
  selected: number | null
  onSelect: (cell: Cell) => void
  /** Days across and hours down, for narrow screens. */
  isUpright: boolean
}

/** Seven days of 24 hours. One cell can have the focus; arrow keys move it. */
export function HeatMap({ label, of, cells, counts, most, now, dayName, selected, onSelect, isUpright }: Props) {
  const body = useRef<HTMLTableSectionElement>(null)
  const [focus, setFocus] = useState<[number, number]>([0, 0])
  const rows = isUpright ? HOURS.map((hour) => cells.map((day) => day[hour] as Cell)) : cells
  const onKeyDown = (event: KeyboardEvent) => {
    const next = moveCell(focus[0], focus[1], event.key, rows.length, rows[0]?.length ?? 0)
    if (!next) return
    event.preventDefault()
    setFocus(next)
    body.current?.rows[next[0]]?.querySelectorAll('button')[next[1]]?.focus()
  }
  const hourName = (hour: number) => String(hour).padStart(2, '0')
  return (
    <table className="forecast-map" data-upright={isUpright || undefined} aria-label={label}>
      <thead>
        <tr>
          <td />
          {isUpright
            ? cells.map((day) => (
                <th key={day[0]?.day} scope="col">
                  {day[0] && dayName(day[0]).slice(0, 3)}
                </th>
              ))
            : HOURS.map((hour) => (
                <th key={hour} scope="col">
                  {hourName(hour)}
                </th>
              ))}
        </tr>
      </thead>
      <tbody ref={body} onKeyDown={onKeyDown}>
        {rows.map((row, rowIndex) => (
          <tr key={isUpright ? rowIndex : row[0]?.day}>
            <th scope="row">{isUpright ? hourName(rowIndex) : row[0] && dayName(row[0])}</th>
            {row.map((cell, column) => {
              const found = counts.get(cell) ?? NO_COUNTS
              const isOver = of === 'planned' && cell.until <= now && cell.until > cell.from
              const isMissing = cell.until === cell.from
              return (
                <td key={column}>
                  <button
                    type="button"
                    tabIndex={focus[0] === rowIndex && focus[1] === column ? 0 : -1}
                    aria-pressed={selected === cell.from && !isMissing}
                    aria-label={`${dayName(cell)} ${hourName(cell.hour)}:00, ${isMissing ? 'does not exist: clocks go forward' : isOver ? 'over' : cellText(found, of)}`}
                    title={isMissing ? 'This hour does not exist: clocks go forward.' : isOver ? undefined : `${dayName(cell)} ${hourName(cell.hour)}:00: ${cellText(found, of)}${cell.until - cell.from > 3_600_000 ? ' (this hour comes twice)' : ''}`}
                    data-missing={isMissing || undefined}
                    data-over={isOver || undefined}
                    data-failed={found.failed > 0 || undefined}
                    style={found[of] ? { background: `color-mix(in srgb, var(--accent) ${strength(found[of], most)}%, var(--card))` } : undefined}
                    onFocus={() => setFocus([rowIndex, column])}
                    onClick={() => !isMissing && !isOver && onSelect(cell)}
                  >
                    {isMissing || isOver ? '' : found[of] ? compact(found[of]) : found.skipped ? '○' : ''}
                  </button>
                </td>
              )
            })}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

export function cellText(found: Counts, of: 'planned' | 'ran'): string {
  if (of === 'planned') return `${count(found.planned, 'run')} planned`
  const parts = [`${count(found.ran, 'run')}`]
  if (found.failed) parts.push(`${formatNumber(found.failed)} failed`)
  if (found.skipped) parts.push(`${formatNumber(found.skipped)} skipped`)
  return parts.join(', ')
}
