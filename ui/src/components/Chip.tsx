import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { Tone } from '../lib/outcome'

/** A tag or a small fact; with `href` it links to the list it names, with `onRemove` it is a filter that is set. */
export function Chip({ children, href, tone, onRemove, title }: { children: ReactNode; href?: string; tone?: Tone; onRemove?: () => void; title?: string }) {
  if (href) {
    return (
      <Link href={href} className="hb-chip" data-tone={tone} title={title}>
        {children}
      </Link>
    )
  }
  return (
    <span className="hb-chip" data-tone={tone} title={title}>
      {children}
      {onRemove && (
        <button type="button" onClick={onRemove} aria-label={`Remove ${typeof children === 'string' ? children : 'this filter'}`}>
          ×
        </button>
      )}
    </span>
  )
}
