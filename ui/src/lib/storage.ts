/** Remembered choices. A browser that refuses storage remembers nothing, and everything else works. */
export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(`hourbell.${key}`, value)
  } catch {
    // private windows and strict settings
  }
}

export function recall(key: string): string | null {
  try {
    return localStorage.getItem(`hourbell.${key}`)
  } catch {
    return null
  }
}
