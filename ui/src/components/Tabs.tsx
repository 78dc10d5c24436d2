import { useRef, type KeyboardEvent } from 'react'

interface Props<T extends string> {
  label: string
  tabs: readonly (readonly [value: T, label: string])[]
  value: T
  onChange: (value: T) => void
}

/** A choice of one among few, as a segmented control; arrow keys move. */
export function Tabs<T extends string>({ label, tabs, value, onChange }: Props<T>) {
  const group = useRef<HTMLDivElement>(null)
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
    if (!step) return
    event.preventDefault()
    const at = (tabs.findIndex(([key]) => key === value) + step + tabs.length) % tabs.length
    const next = tabs[at]
    if (!next) return
    onChange(next[0])
    group.current?.querySelectorAll('button')[at]?.focus()
  }
  const isKnown = tabs.some(([key]) => key === value)
  return (
    <div className="hb-tabs" role="radiogroup" aria-label={label} onKeyDown={move} ref={group}>
      {tabs.map(([key, text], index) => (
        <button key={key} type="button" role="radio" aria-checked={key === value} tabIndex={key === value || (!isKnown && index === 0) ? 0 : -1} onClick={() => onChange(key)}>
          {text}
        </button>
      ))}
    </div>
  )
}
