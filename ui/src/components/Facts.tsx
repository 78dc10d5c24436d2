import type { ReactNode } from 'react'

/** A list of names and values: `<dt>` and `<dd>` in turn, a line between the pairs. */
export function Facts({ children }: { children: ReactNode }) {
  return <dl className="hb-facts">{children}</dl>
}
