import { createContext, useContext, useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from 'react'
import { useMay } from '../api/queries'
import type { Role } from '../lib/roles'
import { Keys } from './Keys'

const CloseContext = createContext<() => void>(() => undefined)

/** A button with a list of actions below it. Arrow keys move, Escape closes. */
export function Menu({ label, name, header, children, size = 'normal' }: { label: string; name?: string; header?: ReactNode; children: ReactNode; size?: 'small' | 'normal' }) {
  const [isOpen, setOpen] = useState(false)
  const box = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  const id = useId()
  const items = () => [...(box.current?.querySelectorAll<HTMLElement>('.hb-menu-list button') ?? [])]
  useEffect(() => {
    if (!isOpen) return undefined
    items()[0]?.focus()
    const onPointer = (event: PointerEvent) => {
      if (!box.current?.contains(event.target as globalThis.Node)) setOpen(false)
    }
    document.addEventListener('pointerdown', onPointer)
    return () => document.removeEventListener('pointerdown', onPointer)
  }, [isOpen])
  const close = () => {
    setOpen(false)
    button.current?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOpen) return
    event.stopPropagation()
    if (event.key === 'Escape') {
      event.preventDefault()
      close()
    }
    const all = items()
    const at = all.indexOf(document.activeElement as HTMLElement)
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key]
    if (to === undefined) return
    event.preventDefault()
    all[(to + all.length) % all.length]?.focus()
  }
  return (
    <div className="hb-menu" ref={box} onKeyDown={onKeyDown} onBlur={(event) => event.relatedTarget && !box.current?.contains(event.relatedTarget) && setOpen(false)}>
      <button type="button" ref={button} className={`hb-button hb-button-plain hb-button-${size}`} aria-label={name} aria-expanded={isOpen} aria-controls={id} onClick={() => setOpen(!isOpen)}>
        {label}
      </button>
      <div className="hb-menu-list" id={id} hidden={!isOpen}>
        {isOpen && (
          <CloseContext.Provider value={close}>
            {header && <div className="hb-menu-head">{header}</div>}
            {children}
          </CloseContext.Provider>
        )}
      </div>
    </div>
  )
}

export function MenuItem({ onSelect, needs = 'viewer', keys, isDanger = false, children }: { onSelect: () => void; needs?: Role; keys?: string; isDanger?: boolean; children: ReactNode }) {
  const close = useContext(CloseContext)
  const isAllowed = useMay(needs)
  if (!isAllowed) return null
  return (
    <button
      type="button"
      className="hb-menu-item"
      data-danger={isDanger || undefined}
      onClick={() => {
        close()
        onSelect()
      }}
    >
      {children}
      {keys && <Keys keys={keys} />}
    </button>
  )
}
