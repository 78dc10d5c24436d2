/**
 * Rows that stay where they are while somebody points at them.
 *
 * Known rows keep their position and get their new content; rows that are gone keep their last content; new rows wait.
 */
export interface Steady<T> {
  rows: T[]
  /** How many rows are new, gone or elsewhere and are shown when the pointer leaves. */
  held: number
}

export function steady<T>(shown: readonly T[], found: readonly T[], keyOf: (row: T) => string, isHeld: boolean): Steady<T> {
  if (!isHeld || !shown.length) return { rows: [...found], held: 0 }
  const fresh = new Map(found.map((row) => [keyOf(row), row]))
  const rows = shown.map((row) => fresh.get(keyOf(row)) ?? row)
  const known = new Set(shown.map(keyOf))
  const gone = shown.filter((row) => !fresh.has(keyOf(row))).length
  const added = found.filter((row) => !known.has(keyOf(row))).length
  const order = found.map(keyOf).filter((key) => known.has(key))
  const wanted = shown.map(keyOf).filter((key) => fresh.has(key))
  const moved = order.filter((key, index) => key !== wanted[index]).length
  return { rows, held: gone + added + moved }
}
