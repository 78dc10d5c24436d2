/** The hours above the time line, changes of the clocks among them, and the mark that says now. */
import { formatDate } from '../../lib/time'
import { toX, type Span } from './scale'
import { clockChanges, labelSize, placeLabels, placeTicks, ticks } from './ticks'

export function layoutAxis(span: Span, zone: string, width: number, now: number) {
  const most = Math.max(2, width / 78)
  const isNowShown = now >= span.from && now <= span.until
  const nowX = isNowShown && width ? toX(now, span, width) : null
  const taken = nowX === null ? [] : [{ x: nowX, size: 44 }]
  const changes = clockChanges(span, zone).map((item) => ({ item, x: toX(item.at, span, width) }))
  const placed = placeLabels(changes.map(({ item, x }) => ({ item, x, size: labelSize(item.label) + 10 })), width, 6, taken)
  const shown = placeTicks(ticks(span, zone, most), span, width, [...taken, ...placed.map(({ item, x }) => ({ x, size: labelSize(item.label) + 10 }))])
  return { ticks: shown, changes: placed, nowX }
}

export function Axis({ axis, from, zone }: { axis: ReturnType<typeof layoutAxis>; from: number; zone: string }) {
  return (
    <div className="home-axis">
      <div className="home-axis-zone">
        <span>{formatDate(from, zone)}</span>
        <span title="The time zone of the axis">{zone}</span>
      </div>
      <div className="home-axis-ticks" aria-hidden="true">
        {axis.ticks.map(({ item, x }) => (
          <span key={item.at} style={{ left: x }} data-day={item.isDay || undefined}>
            {item.label}
          </span>
        ))}
        {axis.changes.map(({ item, x }) => (
          <span key={`c${item.at}`} style={{ left: x }} className="home-axis-change">
            {item.label}
          </span>
        ))}
        {axis.nowX !== null && (
          <span className="home-now" style={{ left: axis.nowX }}>
            now
          </span>
        )}
      </div>
    </div>
  )
}
