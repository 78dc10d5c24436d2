import type { ReactNode } from 'react'
import { Link } from 'wouter'

interface Props {
  /** The heading and the title of the tab. */
  title: string
  /** Links above the heading: [["Jobs", "/jobs"]]. */
  path?: readonly (readonly [label: string, href: string])[]
  /** Beside the heading: chips. */
  beside?: ReactNode
  /** Buttons at the right; the primary one last. */
  actions?: ReactNode
  /** A sentence below the heading. */
  lead?: ReactNode
  isTitleHidden?: boolean
  children: ReactNode
}

/** The frame of every screen: heading, actions, content. */
export function Screen({ title, path, beside, actions, lead, isTitleHidden = false, children }: Props) {
  return (
    <div className="hb-screen">
      <title>{`${title} · Hourbell`}</title>
      {path && (
        <nav aria-label="Path" className="hb-path">
          {path.map(([label, href]) => (
            <span key={href}>
              <Link href={href}>{label}</Link> /{' '}
            </span>
          ))}
          <span aria-current="page">{title}</span>
        </nav>
      )}
      <div className={isTitleHidden ? 'hb-hidden' : 'hb-heading'}>
        <div className="hb-heading-title">
          <h1>{title}</h1>
          {beside}
        </div>
        {actions && <div className="hb-actions">{actions}</div>}
      </div>
      {lead && <p className="hb-lead">{lead}</p>}
      {children}
    </div>
  )
}

/** A card with an optional title and controls at its right. */
export function Card({ title, controls, children, className = '' }: { title?: string; controls?: ReactNode; children: ReactNode; className?: string }) {
  return (
    <section className={`hb-card ${className}`} aria-label={title}>
      {(title || controls) && (
        <div className="hb-card-head">
          {title && <h2>{title}</h2>}
          {controls && <div className="hb-actions">{controls}</div>}
        </div>
      )}
      {children}
    </section>
  )
}
