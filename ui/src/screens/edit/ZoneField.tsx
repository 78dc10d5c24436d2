/** A time zone, found by typing any part of its name. */
import { useId, useMemo, useRef, useState, type KeyboardEvent } from 'react'
import { serverNow } from '../../lib/clock'
import { browserZone, isZone, partsOf } from '../../lib/time'
import { allZones, findZones } from './zones'

const SHOWN = 40

export function ZoneField({ value, onChange, error }: { value: string; onChange: (zone: string) => void; error?: string | undefined }) {
  const [text, setText] = useState<string | null>(null)
  const [active, setActive] = useState(0)
  const zones = useMemo(allZones, [])
  const found = useMemo(() => (text === null ? [] : findZones(zones, text).slice(0, SHOWN)), [zones, text])
  const id = useId()
  const input = useRef<HTMLInputElement>(null)
  const isOpen = text !== null && found.length > 0
  const choose = (zone: string) => {
    onChange(zone)
    setText(null)
  }
  const show = (at: number) => {
    setActive(at)
    requestAnimationFrame(() => document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: 'nearest' }))
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      if (text === null) setText('')
      else if (found.length) show((active + (event.key === 'ArrowDown' ? 1 : -1) + found.length) % found.length)
    } else if (event.key === 'Enter' && isOpen) {
      event.preventDefault()
      choose(found[active] ?? value)
    } else if (event.key === 'Escape' && text !== null) {
      event.preventDefault()
      event.stopPropagation()
      setText(null)
    }
  }
  const mine = browserZone()
  return (
    <div className="hb-field edit-zone">
      <label htmlFor={id}>Time zone</label>
      <input
        id={id}
        ref={input}
        className="hb-input"
        role="combobox"
        aria-expanded={isOpen}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={isOpen ? `${id}-${active}` : undefined}
        aria-describedby={`${id}-note`}
        aria-invalid={error ? true : undefined}
        autoComplete="off"
        spellCheck={false}
        value={text ?? value}
        onChange={(event) => {
          setText(event.target.value)
          setActive(0)
          if (event.target.value === 'UTC' || zones.includes(event.target.value)) onChange(event.target.value)
        }}
        onFocus={(event) => event.target.select()}
        onClick={() => text === null && setText('')}
        onBlur={() => {
          if (text) onChange(found[0] && found[0].toLowerCase() === text.toLowerCase() ? found[0] : text)
          setText(null)
        }}
        onKeyDown={onKeyDown}
      />
      <ul className="edit-zones" id={`${id}-list`} role="listbox" aria-label="Time zones" hidden={!isOpen}>
        {found.map((zone, index) => (
          <li
            key={zone}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === active}
            onPointerDown={(event) => {
              event.preventDefault()
              choose(zone)
            }}
            onPointerMove={() => setActive(index)}
          >
            <span>{zone}</span>
            <span className="hb-muted">{offsetNow(zone)}</span>
          </li>
        ))}
      </ul>
      <div id={`${id}-note`} className={error ? 'hb-field-error' : 'hb-field-hint'} role={error ? 'alert' : undefined}>
        {error ?? (
          <>
            {isZone(value) && `Now ${offsetNow(value)}. `}
            {value !== mine && mine !== 'UTC' && (
              <button type="button" className="edit-text-button" onClick={() => onChange(mine)}>
                Use {mine}
              </button>
            )}
          </>
        )}
      </div>
    </div>
  )
}

function offsetNow(zone: string): string {
  return isZone(zone) ? `UTC${partsOf(serverNow(), zone).offset}` : ''
}
