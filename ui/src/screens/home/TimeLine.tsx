/** The time line: names on the left, marks on a canvas, and the card of the mark under the pointer or the focus. */
import { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from 'react'
import { useLocation } from 'wouter'
import type { Outage, TimelineRow } from '../../api/types'
import { useNow } from '../../app/now'
import { useShortcuts } from '../../app/shortcuts'
import { count } from '../../lib/outcome'
import { jobPath } from '../../lib/url'
import { Axis, layoutAxis } from './Axis'
import { useColours } from './colours'
import { pathOf, sentence } from './describe'
import { draw } from './draw'
import { GROUP_HEIGHT, Labels } from './Labels'
import { MarkCard } from './MarkCard'
import { keyOf, layoutRow, left, markAt, middle, nextMark, pauseOf, type Mark } from './marks'
import { showRow, useSettling, useSlice, useWheel, useWidth } from './plot'
import { linesOf, pauseText, type Line } from './rows'
import { limitSpan, pan, spanOf, toTime, toX, zoomAt, type Span, type View } from './scale'
import { zoneChanges } from './ticks'

interface Props {
  rows: readonly TimelineRow[]
  bucketSeconds: number
  outages: readonly Outage[]
  isGrouped: boolean
  view: View
  onView: (view: View) => void
  zone: string
  /** How many pixels the marks have, for the number of marks to ask for. */
  onWidth: (width: number) => void
  /** The pointer is inside: rows must not move. */
  onHold: (isHeld: boolean) => void
}

interface Active {
  job: string
  key: string | null
  /** Reached by keyboard: it is read aloud and has a ring. Touched: its card stays and has a link. */
  by: 'pointer' | 'keyboard' | 'touch'
}

interface LaidOut {
  line: Line
  top: number
  bottom: number
  middle: number
  /** Laid out when they are needed: for rows on the screen and for the row with the focus. */
  marks: () => Mark[]
}

const ZOOM_STEP = 1.5

export function TimeLine({ rows, bucketSeconds, outages, isGrouped, view, onView, zone, onWidth, onHold }: Props) {
  const [, navigate] = useLocation()
  const plot = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const { width, isNarrow } = useWidth(plot)
  const [moving, setMoving] = useState<Span | null>(null)
  const [active, setActive] = useState<Active | null>(null)
  const colours = useColours()
  const helpId = useId()

  const half = view.span ? 0 : spanOf(view, 0).until
  const length = moving ? moving.until - moving.from : view.span ? view.span.until - view.span.from : 2 * half
  // Now moves by one pixel in this many seconds.
  const now = useNow(Math.max(1, Math.min(60, Math.floor(length / Math.max(width, 1) / 1000))))
  const span = useMemo(() => moving ?? spanOf(view, now), [moving, view, now])

  useEffect(() => {
    onWidth(width)
  }, [onWidth, width])

  const settle = useSettling(moving, (span) => onView({ zoom: null, span }))
  const move = useCallback(
    (change: (span: Span) => Span) => {
      setMoving((before) => change(before ?? spanOf(view, now)))
      settle()
    },
    [view, now, settle],
  )
  useEffect(() => setMoving(null), [view])

  const lines = useMemo(() => linesOf(rows, isGrouped), [rows, isGrouped])
  const rowHeight = isNarrow ? 50 : 34
  const laidOut = useMemo(() => {
    let top = 0
    return lines.map((line): LaidOut => {
      const height = line.kind === 'group' ? GROUP_HEIGHT : rowHeight
      const bottom = top + height
      const centre = isNarrow ? bottom - 15 : top + height / 2
      let marks: Mark[] | undefined
      const found = { line, top, bottom, middle: centre, marks: () => (marks ??= line.kind === 'job' ? layoutRow(line.row, bucketSeconds, span, width, now) : []) }
      top = bottom
      return found
    })
  }, [lines, bucketSeconds, span, width, now, rowHeight, isNarrow])
  const height = laidOut.at(-1)?.bottom ?? 0
  const slice = useSlice(plot, height)
  const drawn = useMemo(
    () =>
      laidOut.flatMap(({ line, top, bottom, middle: centre, marks }) =>
        line.kind === 'job' && bottom > slice.top && top < slice.bottom ? [{ id: line.row.job.id, paused: line.row.job.paused, top, bottom, middle: centre, marks: marks(), pause: pauseOf(line.row, span, width, now), changes: ownChanges(line.row, zone, span, width) }] : [],
      ),
    [laidOut, slice, span, width, now, zone],
  )

  const axis = useMemo(() => layoutAxis(span, zone, width, now), [span, zone, width, now])
  const bands = useMemo(
    () => outages.map((outage) => ({ outage, x: toX(Date.parse(outage.from), span, width), end: toX(outage.until ? Date.parse(outage.until) : now, span, width) })).filter(({ x, end }) => end >= 0 && x <= width),
    [outages, span, width, now],
  )

  const activeLine = active && laidOut.find(({ line }) => line.kind === 'job' && line.row.job.id === active.job)
  const activeMark = activeLine && active.key !== null ? activeLine.marks().find((mark) => keyOf(mark) === active.key) : undefined

  useLayoutEffect(() => {
    const element = canvas.current
    const context = element?.getContext('2d')
    if (!element || !context || !colours || !width) return
    const ratio = window.devicePixelRatio || 1
    const [wide, tall] = [Math.round(width * ratio), Math.round((slice.bottom - slice.top) * ratio)]
    if (element.width !== wide || element.height !== tall) {
      element.width = wide
      element.height = tall
    }
    context.setTransform(ratio, 0, 0, ratio, 0, -slice.top * ratio)
    draw(
      context,
      {
        width,
        top: slice.top,
        bottom: slice.bottom,
        rows: drawn,
        activeRow: drawn.findIndex((row) => row.id === active?.job),
        ticks: axis.ticks.map(({ x }) => x),
        outages: bands,
        changes: axis.changes.map(({ x }) => x),
        now: toX(now, span, width),
        active: activeLine && activeMark && active.by !== 'pointer' ? { mark: activeMark, middle: activeLine.middle } : null,
      },
      colours,
    )
  }, [drawn, slice, axis, bands, colours, width, span, now, active, activeLine, activeMark])

  const open = (mark: Mark, row: TimelineRow) => {
    const path = pathOf(mark, row)
    if (path) navigate(path)
    else if (mark.kind === 'bucket') onView({ zoom: null, span: limitSpan({ from: mark.at - (mark.until - mark.at), until: mark.until + (mark.until - mark.at) }, now) })
  }

  // Pointer
  const drag = useRef<{ x: number; span: Span; isDragged: boolean } | null>(null)
  const find = (event: { clientX: number; clientY: number }) => {
    const box = plot.current?.getBoundingClientRect()
    if (!box) return null
    const [x, y] = [event.clientX - box.left, event.clientY - box.top]
    const found = laidOut.find(({ top, bottom }) => y >= top && y < bottom)
    if (!found || found.line.kind !== 'job') return null
    return { row: found.line.row, mark: markAt(found.marks(), x, isNarrow ? 14 : 6) }
  }
  const onPointerMove = (event: PointerEvent<HTMLDivElement>) => {
    const held = drag.current
    if (held) {
      const by = event.clientX - held.x
      if (!held.isDragged && Math.abs(by) < 5) return
      held.isDragged = true
      setActive(null)
      const share = -by / width
      const { from, until } = held.span
      move(() => limitSpan({ from: from + share * (until - from), until: until + share * (until - from) }, now))
      return
    }
    if (event.pointerType === 'touch') return
    const found = find(event)
    const next: Active | null = found?.mark ? { job: found.row.job.id, key: keyOf(found.mark), by: 'pointer' } : null
    if (next?.key !== active?.key || next?.job !== active?.job) setActive(next)
  }
  const onPointerDown = (event: PointerEvent<HTMLDivElement>) => {
    if (event.button !== 0) return
    drag.current = { x: event.clientX, span, isDragged: false }
    if (event.pointerType !== 'touch') event.currentTarget.setPointerCapture(event.pointerId)
  }
  const onPointerUp = (event: PointerEvent<HTMLDivElement>) => {
    const held = drag.current
    drag.current = null
    if (!held || held.isDragged) return
    const found = find(event)
    if (!found?.mark) setActive(null)
    else if (event.pointerType === 'touch') setActive({ job: found.row.job.id, key: keyOf(found.mark), by: 'touch' })
    else open(found.mark, found.row)
  }
  useWheel(plot, (event, x) => {
    if (event.ctrlKey || event.metaKey || event.altKey) move((before) => zoomAt(before, Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240))), toTime(x, before, width), now))
    else if (event.shiftKey && !event.deltaX) move((before) => pan(before, event.deltaY / width, now))
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move((before) => pan(before, event.deltaX / width, now))
    else return false
    return true
  })

  // Keyboard
  const jobs = laidOut.filter(({ line }) => line.kind === 'job')
  const zoom = (factor: number) => {
    const anchor = activeMark ? toTime(middle(activeMark), span, width) : now > span.from && now < span.until ? now : (span.from + span.until) / 2
    move((before) => zoomAt(before, factor, anchor, now))
  }
  const goTo = (index: number, near: number | null) => {
    const target = jobs[Math.max(0, Math.min(jobs.length - 1, index))]
    if (!target || target.line.kind !== 'job') return
    const mark = nextMark(target.marks(), null, 1, near ?? toX(now, span, width))
    setActive({ job: target.line.row.job.id, key: mark && keyOf(mark), by: 'keyboard' })
    showRow(plot.current, target)
  }
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return
    const at = jobs.findIndex((found) => found === activeLine)
    const near = activeMark ? middle(activeMark) : null
    const step = (by: 1 | -1) => {
      if (!activeLine || activeLine.line.kind !== 'job') return goTo(0, null)
      const mark = nextMark(activeLine.marks(), active?.key ?? null, by, toX(now, span, width))
      setActive({ job: activeLine.line.row.job.id, key: mark && keyOf(mark), by: 'keyboard' })
    }
    const edge = (mark: Mark | undefined) => activeLine?.line.kind === 'job' && mark && setActive({ job: activeLine.line.row.job.id, key: keyOf(mark), by: 'keyboard' })
    if (event.shiftKey && event.key === 'ArrowLeft') move((before) => pan(before, -0.25, now))
    else if (event.shiftKey && event.key === 'ArrowRight') move((before) => pan(before, 0.25, now))
    else if (event.key === 'ArrowLeft') step(-1)
    else if (event.key === 'ArrowRight') step(1)
    else if (event.key === 'ArrowUp') goTo(at < 0 ? 0 : at - 1, near)
    else if (event.key === 'ArrowDown') goTo(at < 0 ? 0 : at + 1, near)
    else if (event.key === 'Home') edge(activeLine?.marks()[0])
    else if (event.key === 'End') edge(activeLine?.marks().at(-1))
    else if ((event.key === 'Enter' || event.key === ' ') && activeLine?.line.kind === 'job') {
      if (activeMark) open(activeMark, activeLine.line.row)
      else navigate(jobPath(activeLine.line.row.job))
    } else if (event.key === 'Escape' && active) setActive(null)
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  const focusRow = (by: number) => {
    plot.current?.focus()
    const at = jobs.findIndex((found) => found === activeLine)
    goTo(at < 0 ? 0 : at + by, activeMark ? middle(activeMark) : null)
  }
  useShortcuts([
    { keys: 'j', label: 'Time line: next job', run: () => focusRow(1) },
    { keys: 'k', label: 'Time line: previous job', run: () => focusRow(-1) },
    { keys: '+', label: 'Time line: zoom in (or Ctrl and the wheel)', run: () => zoom(1 / ZOOM_STEP) },
    { keys: '-', label: 'Time line: zoom out', run: () => zoom(ZOOM_STEP) },
    { keys: '[', label: 'Time line: earlier (or drag)', run: () => move((before) => pan(before, -0.25, now)) },
    { keys: ']', label: 'Time line: later', run: () => move((before) => pan(before, 0.25, now)) },
    { keys: '0', label: 'Time line: back to now', run: () => onView({ zoom: view.zoom ?? '24h', span: null }) },
  ])

  const isAnnounced = active?.by === 'keyboard' && activeLine?.line.kind === 'job'
  const spoken = isAnnounced && activeLine.line.kind === 'job' ? (activeMark ? sentence(activeMark, activeLine.line.row, zone, now) : `${activeLine.line.row.job.name}: no marks in this window. Enter: open the job.`) : ''
  return (
    <div className="home-line" data-narrow={isNarrow || undefined} onPointerEnter={() => onHold(true)} onPointerLeave={() => onHold(false)}>
      <Axis axis={axis} from={span.from} zone={zone} />
      <div className="home-rows">
        <Labels lines={lines} rowHeight={rowHeight} zone={zone} now={Math.floor(now / 60_000) * 60_000} active={active?.job ?? null} />
        <div
          ref={plot}
          className="home-plot"
          role="application"
          aria-roledescription="time line"
          aria-label={`Marks of ${count(jobs.length, 'job')}`}
          aria-describedby={helpId}
          tabIndex={0}
          style={{ height }}
          onKeyDown={onKeyDown}
          onFocus={(event) => event.target === event.currentTarget && event.currentTarget.matches(':focus-visible') && !active && goTo(0, null)}
          onBlur={(event) => !event.currentTarget.contains(event.relatedTarget) && active?.by === 'keyboard' && setActive(null)}
          onPointerMove={onPointerMove}
          onPointerDown={onPointerDown}
          onPointerUp={onPointerUp}
          onPointerCancel={() => (drag.current = null)}
          onPointerLeave={() => !drag.current && active?.by === 'pointer' && setActive(null)}
          data-on={activeMark && active?.by === 'pointer' ? '' : undefined}
        >
          <canvas ref={canvas} aria-hidden="true" style={{ width, height: slice.bottom - slice.top, top: slice.top }} />
          {drawn.map(({ id, pause, paused, marks, middle: centre }) => {
            if (!pause) return null
            const room = roomAfter(marks, pause.x + 8, width)
            const text = pauseText(paused, zone, now)
            return (
              room > 70 && (
                <span key={id} className="home-pause" style={{ left: pause.x + 8, maxWidth: room - 8, top: centre - 9 }}>
                  {text}
                </span>
              )
            )
          })}
          {activeLine && activeLine.line.kind === 'job' && activeMark && <MarkCard mark={activeMark} row={activeLine.line.row} zone={zone} now={now} width={width} top={activeLine.middle} height={height} isPinned={active?.by === 'touch'} onZoom={() => activeLine.line.kind === 'job' && open(activeMark, activeLine.line.row)} />}
        </div>
      </div>
      <p id={helpId} className="hb-hidden">
        Arrow up and down move between jobs, left and right between the marks of a job, Enter opens. Plus and minus zoom. The button “As table” shows the same data as a table.
      </p>
      <div role="status" className="hb-hidden">
        {spoken}
      </div>
    </div>
  )
}

/** How many pixels are free of marks to the right of `x`. */
function roomAfter(marks: readonly Mark[], x: number, width: number): number {
  return marks.reduce((room, mark) => (mark.end > x ? Math.min(room, Math.max(0, left(mark) - x)) : room), width - x)
}

/** Changes of the clocks of a job's zone, where the axis has another one. */
function ownChanges(row: TimelineRow, zone: string, span: Span, width: number): number[] {
  return row.job.timezone === zone || row.job.timezone === 'UTC' ? [] : zoneChanges(span, row.job.timezone).map(({ at }) => toX(at, span, width))
}
