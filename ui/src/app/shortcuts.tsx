/** Keyboard shortcuts. Screens add theirs with `useShortcuts`; the newest wins, and `?` lists all that are active. */
import { createContext, useContext, useEffect, useRef, useState, type ReactNode } from 'react'
import { match, SEQUENCE_MS } from '../lib/keys'

export interface Shortcut {
  /** "g j", "?", "Ctrl+k", "Escape" */
  keys: string
  /** What it does, for the help; one without is not listed. */
  label?: string
  run: (event: KeyboardEvent) => void
}

class Registry {
  private sets: Shortcut[][] = []

  add(set: Shortcut[]): () => void {
    this.sets = [...this.sets, set]
    return () => {
      this.sets = this.sets.filter((other) => other !== set)
    }
  }

  /** By keys, the newest of each. */
  active(): Map<string, Shortcut> {
    return new Map(this.sets.flat().map((shortcut) => [shortcut.keys, shortcut]))
  }
}

const ShortcutContext = createContext<Registry>(new Registry())

export function ShortcutProvider({ children }: { children: ReactNode }) {
  const [registry] = useState(() => new Registry())
  useEffect(() => {
    let pending = ''
    let timer: ReturnType<typeof setTimeout> | undefined
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.altKey || event.isComposing || document.querySelector('dialog[open]')) return
      const active = registry.active()
      const press = { key: event.key, ctrl: event.ctrlKey || event.metaKey, inField: isField(event.target) }
      const result = match([...active.keys()], pending, press)
      pending = result.pending
      clearTimeout(timer)
      if (pending) timer = setTimeout(() => (pending = ''), SEQUENCE_MS)
      if (!result.found) return
      if (result.found !== 'Escape') event.preventDefault()
      active.get(result.found)?.run(event)
    }
    document.addEventListener('keydown', onKeyDown)
    return () => {
      document.removeEventListener('keydown', onKeyDown)
      clearTimeout(timer)
    }
  }, [registry])
  return <ShortcutContext.Provider value={registry}>{children}</ShortcutContext.Provider>
}

/** Shortcuts of a mounted component. The functions may change with every render; keys and labels are read anew, too. */
export function useShortcuts(shortcuts: readonly (Shortcut | false | null | undefined)[]): void {
  const registry = useContext(ShortcutContext)
  const latest = useRef<readonly Shortcut[]>([])
  latest.current = shortcuts.filter((shortcut): shortcut is Shortcut => !!shortcut)
  const signature = JSON.stringify(latest.current.map(({ keys, label }) => [keys, label]))
  useEffect(() => {
    const set = (JSON.parse(signature) as [string, string | undefined][]).map(([keys, label]) => ({
      keys,
      ...(label ? { label } : {}),
      run: (event: KeyboardEvent) => latest.current.find((shortcut) => shortcut.keys === keys)?.run(event),
    }))
    return registry.add(set)
  }, [registry, signature])
}

export function useActiveShortcuts(): () => Shortcut[] {
  const registry = useContext(ShortcutContext)
  return () => [...registry.active().values()].filter((shortcut) => shortcut.label)
}

function isField(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  const isTyped = target instanceof HTMLInputElement && !['checkbox', 'radio', 'button', 'submit', 'range'].includes(target.type)
  return isTyped || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable
}
