/** How the plot of the time line follows its size, the scroll position, the wheel and a view that moves. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type RefObject } from 'react'
import type { Span } from './scale'

const SLICE_STEP = 120
const SETTLE_MS = 180

/** The part of the rows that the canvas covers, in pixels from their top. */
interface Slice {
  top: number
  bottom: number
}

/** The part of the rows on the screen, and a margin, so that a canvas of a hundred rows is no larger than the screen. */
export function useSlice(element: RefObject<HTMLElement | null>, height: number): Slice {
  const [slice, setSlice] = useState<Slice>({ top: 0, bottom: 0 })
  useLayoutEffect(() => {
    const read = () => {
      const from = -(element.current?.getBoundingClientRect().top ?? 0)
      const top = Math.max(0, Math.floor(from / SLICE_STEP - 1) * SLICE_STEP)
      const bottom = Math.max(top, Math.min(height, Math.ceil((from + window.innerHeight) / SLICE_STEP + 1) * SLICE_STEP))
      setSlice((before) => (before.top === top && before.bottom === bottom ? before : { top, bottom }))
    }
    read()
    window.addEventListener('scroll', read, { passive: true, capture: true })
    window.addEventListener('resize', read)
    return () => {
      window.removeEventListener('scroll', read, { capture: true })
      window.removeEventListener('resize', read)
    }
  }, [element, height])
  return slice
}

/** Scroll a row that the keyboard reached into view, clear of the top bar. */
export function showRow(plot: HTMLElement | null, { top, bottom }: { top: number; bottom: number }): void {
  const from = plot?.getBoundingClientRect().top
  if (from === undefined) return
  const margin = 110
  if (from + top < margin) window.scrollBy({ top: from + top - margin })
  else if (from + bottom > window.innerHeight - 20) window.scrollBy({ top: from + bottom - window.innerHeight + 20 })
}

export function useWidth(element: RefObject<HTMLElement | null>): { width: number; isNarrow: boolean } {
  const [width, setWidth] = useState(0)
  const isNarrow = useMedia('(max-width: 640px)')
  useLayoutEffect(() => {
    const found = element.current
    if (!found) return undefined
    const observer = new ResizeObserver(() => setWidth(found.clientWidth))
    observer.observe(found)
    setWidth(found.clientWidth)
    return () => observer.disconnect()
  }, [element])
  return { width, isNarrow }
}

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => window.matchMedia(query).matches)
  useEffect(() => {
    const list = window.matchMedia(query)
    const onChange = () => setMatches(list.matches)
    list.addEventListener('change', onChange)
    return () => list.removeEventListener('change', onChange)
  }, [query])
  return matches
}

/** Call `onSettled` with the last span when nobody moved it for a moment. */
export function useSettling(moving: Span | null, onSettled: (span: Span) => void): () => void {
  const latest = useRef({ moving, onSettled })
  latest.current = { moving, onSettled }
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  return useCallback(() => {
    clearTimeout(timer.current)
    timer.current = setTimeout(() => {
      const { moving: span, onSettled: settled } = latest.current
      if (span) settled(span)
    }, SETTLE_MS)
  }, [])
}

/** The wheel, with the right to keep the page from scrolling, which React's own listener does not have. */
export function useWheel(element: RefObject<HTMLElement | null>, onWheel: (event: WheelEvent, x: number) => boolean): void {
  const latest = useRef(onWheel)
  latest.current = onWheel
  useEffect(() => {
    const found = element.current
    if (!found) return undefined
    const listen = (event: WheelEvent) => {
      if (latest.current(event, event.clientX - found.getBoundingClientRect().left)) event.preventDefault()
    }
    found.addEventListener('wheel', listen, { passive: false })
    return () => found.removeEventListener('wheel', listen)
  }, [element])
}
