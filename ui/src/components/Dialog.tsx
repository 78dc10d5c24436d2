import { useEffect, useId, useRef, type FormEvent, type ReactNode } from 'react'

interface Props {
  title: string
  onClose: () => void
  children: ReactNode
  /** Buttons at the end; with `onSubmit` one of them has type="submit". */
  footer?: ReactNode
  onSubmit?: () => void
  size?: 'normal' | 'wide'
}

/** A modal dialog: the browser keeps the focus inside, and Escape or a click beside it closes it. */
export function Dialog({ title, onClose, children, footer, onSubmit, size = 'normal' }: Props) {
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const element = dialog.current
    const before = document.activeElement
    if (element && !element.open) element.showModal()
    return () => {
      element?.close()
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onSubmit?.()
  }
  return (
    <dialog
      ref={dialog}
      className={`hb-dialog hb-dialog-${size}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onMouseDown={(event) => event.target === dialog.current && onClose()}
    >
      <form onSubmit={submit} method="dialog">
        <h2 id={titleId}>{title}</h2>
        <div className="hb-dialog-body">{children}</div>
        {footer && <div className="hb-dialog-footer">{footer}</div>}
      </form>
    </dialog>
  )
}
