import { useEffect, useRef, useState, type ReactNode } from 'react'
import { useLocation } from 'wouter'
import { useShortcuts } from '../app/shortcuts'
import { steady, type Steady } from '../lib/steady'

export interface Column<T> {
  id: string
  header: string
  cell: (row: T) => ReactNode
  /** The value of the sort parameter; such a header is a button. */
  sort?: string
  align?: 'end'
  /** Leave the column out below this width. */
  hide?: 'narrow' | 'medium' | 'wide'
  isHeaderHidden?: boolean
}

export interface Selection {
  keys: ReadonlySet<string>
  onChange: (keys: Set<string>) => void
}

interface Props<T> {
  /** What the rows are, for screen readers. */
  label: string
  rows: readonly T[]
  rowKey: (row: T) => string
  columns: readonly Column<T>[]
  /** The screen that Enter or a click on the row opens. */
  href?: (row: T) => string
  /** How to call a row, for its checkbox. */
  rowName?: (row: T) => string
  selection?: Selection
  sort?: { by: string; onChange: (by: string) => void }
  /** Shortcuts for the row with the focus: p, t, … */
  rowKeys?: readonly { keys: string; label: string; run: (row: T) => void }[]
  /** Changes when other rows were asked for (filter, sort, page): then rows may move at once. */
  resetKey?: string
}

/**
 * A table of live rows. While the pointer is inside, rows keep their places and only their content changes.
 * j and k move, Enter opens, x selects.
 */
export function Table<T>({ label, rows, rowKey, columns, href, rowName, selection, sort, rowKeys = [], resetKey = '' }: Props<T>) {
  const [, navigate] = useLocation()
  const body = useRef<HTMLTableSectionElement>(null)
  const [isHeld, setHeld] = useState(false)
  const { rows: shown, held } = useSteadyRows(rows, rowKey, isHeld, resetKey)
  const [active, setActive] = useState<string | null>(null)
  const anchor = useRef<string | null>(null)

  const elements = () => [...(body.current?.querySelectorAll<HTMLTableRowElement>(':scope > tr') ?? [])]
  const activeRow = shown.find((row) => rowKey(row) === active)
  const move = (step: number) => {
    const at = shown.findIndex((row) => rowKey(row) === active)
    const to = Math.max(0, Math.min(shown.length - 1, at < 0 ? (step > 0 ? 0 : shown.length - 1) : at + step))
    const element = elements()[to]
    element?.focus()
    element?.scrollIntoView({ block: 'nearest' })
  }
  const toggle = (key: string, withRange = false) => {
    if (!selection) return
    const keys = new Set(selection.keys)
    const isOn = !keys.has(key)
    const all = shown.map(rowKey)
    const from = withRange && anchor.current !== null ? all.indexOf(anchor.current) : -1
    const to = all.indexOf(key)
    const range = from < 0 ? [key] : all.slice(Math.min(from, to), Math.max(from, to) + 1)
    for (const one of range) {
      if (isOn) keys.add(one)
      else keys.delete(one)
    }
    anchor.current = key
    selection.onChange(keys)
  }
  useShortcuts([
    { keys: 'j', label: 'Next row', run: () => move(1) },
    { keys: 'k', label: 'Previous row', run: () => move(-1) },
    href && { keys: 'o', label: 'Open the row', run: () => activeRow && navigate(href(activeRow)) },
    selection && { keys: 'x', label: 'Select the row', run: () => activeRow && toggle(rowKey(activeRow)) },
    ...rowKeys.map(({ keys, label, run }) => ({ keys, label, run: () => activeRow && run(activeRow) })),
  ])

  const keys = shown.map(rowKey)
  const chosen = selection ? keys.filter((key) => selection.keys.has(key)).length : 0
  const toggleAll = () => {
    if (!selection) return
    const next = new Set(selection.keys)
    for (const key of keys) {
      if (chosen === keys.length) next.delete(key)
      else next.add(key)
    }
    selection.onChange(next)
  }
  return (
    <div className="hb-table-box" onPointerEnter={(event) => event.pointerType === 'mouse' && setHeld(true)} onPointerLeave={() => setHeld(false)}>
      <table className="hb-table">
        <caption className="hb-hidden">{label}</caption>
        <thead>
          <tr>
            {selection && (
              <th className="hb-check">
                <Checkbox label={`Select all ${keys.length} shown`} isOn={chosen > 0 && chosen === keys.length} isMixed={chosen > 0 && chosen < keys.length} onToggle={toggleAll} />
              </th>
            )}
            {columns.map((column) => (
              <th key={column.id} scope="col" data-align={column.align} data-hide={column.hide} aria-sort={column.sort && sort?.by === column.sort ? 'ascending' : undefined}>
                {column.sort && sort ? (
                  <button type="button" onClick={() => sort.onChange(column.sort ?? '')}>
                    {column.header}
                    <span aria-hidden="true">{sort.by === column.sort ? ' ↑' : ''}</span>
                  </button>
                ) : (
                  <span className={column.isHeaderHidden ? 'hb-hidden' : undefined}>{column.header}</span>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {shown.map((row) => {
            const key = rowKey(row)
            return (
              <tr
                key={key}
                tabIndex={-1}
                data-active={key === active || undefined}
                data-chosen={selection?.keys.has(key) || undefined}
                onFocus={() => setActive(key)}
                onKeyDown={(event) => {
                  if (event.key === 'Enter' && event.target === event.currentTarget && href) navigate(href(row))
                }}
                onClick={(event) => {
                  if (!href || (event.target as Element).closest('a, button, input, label, select, summary') || window.getSelection()?.toString()) return
                  if (event.ctrlKey || event.metaKey) return
                  navigate(href(row))
                }}
              >
                {selection && (
                  <td className="hb-check">
                    <Checkbox label={`Select ${rowName?.(row) ?? key}`} isOn={selection.keys.has(key)} onToggle={(withRange) => toggle(key, withRange)} />
                  </td>
                )}
                {columns.map((column) => (
                  <td key={column.id} data-align={column.align} data-hide={column.hide} data-column={column.id}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            )
          })}
        </tbody>
      </table>
      <div className="hb-held" aria-hidden="true" data-shown={held > 0 || undefined}>
        {held > 0 && `${held} ${held === 1 ? 'row moves' : 'rows move'} when the pointer leaves the table`}
      </div>
    </div>
  )
}

function useSteadyRows<T>(rows: readonly T[], rowKey: (row: T) => string, isHeld: boolean, resetKey: string): Steady<T> {
  const last = useRef<{ key: string; rows: readonly T[] }>({ key: resetKey, rows })
  const result = steady(last.current.key === resetKey ? last.current.rows : [], rows, rowKey, isHeld)
  useEffect(() => {
    last.current = { key: resetKey, rows: result.rows }
  })
  return result
}

function Checkbox({ label, isOn, isMixed = false, onToggle }: { label: string; isOn: boolean; isMixed?: boolean; onToggle: (withRange: boolean) => void }) {
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (input.current) input.current.indeterminate = isMixed
  }, [isMixed])
  return (
    <label>
      <input ref={input} type="checkbox" checked={isOn} aria-label={label} onChange={(event) => onToggle((event.nativeEvent as MouseEvent).shiftKey)} />
    </label>
  )
}
