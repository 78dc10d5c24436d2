/** Keyboard shortcuts such as "g j", "?", "Ctrl+k": parsing and matching, without the browser. */
export interface Press {
  key: string
  ctrl: boolean
  inField: boolean
}

export const SEQUENCE_MS = 1000

/** "Ctrl+k" also stands for the command key of a Mac. */
export function nameOf(press: Press): string {
  return press.ctrl ? `Ctrl+${press.key.toLowerCase()}` : press.key
}

export interface Match {
  /** The shortcut to run. */
  found: string | null
  /** Keys that may begin a longer shortcut. */
  pending: string
}

/** Match a key, after those that wait to be continued. In a field only Ctrl shortcuts and Escape count. */
export function match(shortcuts: readonly string[], pending: string, press: Press): Match {
  const name = nameOf(press)
  if (press.inField && !press.ctrl && name !== 'Escape') return { found: null, pending: '' }
  for (const keys of pending ? [`${pending} ${name}`, name] : [name]) {
    if (shortcuts.includes(keys)) return { found: keys, pending: '' }
    if (shortcuts.some((shortcut) => shortcut.startsWith(`${keys} `))) return { found: null, pending: keys }
  }
  return { found: null, pending: '' }
}
