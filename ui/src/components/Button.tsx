import { forwardRef, type ButtonHTMLAttributes, type ReactNode } from 'react'
import { Link } from 'wouter'
import { useMay } from '../api/queries'
import type { Role } from '../lib/roles'

interface Look {
  /** One primary button on a screen; danger for what cannot be undone. */
  look?: 'plain' | 'primary' | 'danger' | 'quiet'
  size?: 'small' | 'normal'
  /** The role that the action needs. Callers without it do not see the button. */
  needs?: Role
}

type Props = ButtonHTMLAttributes<HTMLButtonElement> & Look & { isBusy?: boolean }

export const Button = forwardRef<HTMLButtonElement, Props>(function Button({ needs = 'viewer', ...rest }, ref) {
  return useMay(needs) || needs === 'viewer' ? <Plain {...rest} ref={ref} /> : null
})

const Plain = forwardRef<HTMLButtonElement, Omit<Props, 'needs'>>(function Plain(
  { look = 'plain', size = 'normal', isBusy = false, className = '', disabled, ...rest },
  ref,
) {
  return (
    <button
      type="button"
      ref={ref}
      {...rest}
      disabled={disabled || isBusy}
      aria-busy={isBusy || undefined}
      className={`hb-button hb-button-${look} hb-button-${size} ${className}`}
    />
  )
})

/** A link that looks like a button: for what opens a screen. */
export function LinkButton({ href, look = 'plain', size = 'normal', needs = 'viewer', children }: Look & { href: string; children: ReactNode }) {
  const isAllowed = useMay(needs)
  if (needs !== 'viewer' && !isAllowed) return null
  return (
    <Link href={href} className={`hb-button hb-button-${look} hb-button-${size}`}>
      {children}
    </Link>
  )
}
