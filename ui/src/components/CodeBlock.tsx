import { useEffect, useState } from 'react'
import { Button } from './Button'

/** Text to copy. `label` says what it is ("curl"); `name` says it to screen readers only. */
export function CodeBlock({ code, label, name = label }: { code: string; label?: string; name?: string }) {
  return (
    <figure className="hb-code">
      {label && <figcaption>{label}</figcaption>}
      <pre tabIndex={0} aria-label={name} role="region">
        <code>{code}</code>
      </pre>
      <CopyButton text={code} what={name} />
    </figure>
  )
}

export function CopyButton({ text, what, label = 'Copy' }: { text: string; what?: string | undefined; label?: string }) {
  const [state, setState] = useState<'idle' | 'done' | 'failed'>('idle')
  useEffect(() => {
    if (state === 'idle') return undefined
    const timer = setTimeout(() => setState('idle'), 2000)
    return () => clearTimeout(timer)
  }, [state])
  const copy = () => void copyText(text).then((isDone) => setState(isDone ? 'done' : 'failed'))
  return (
    <Button size="small" onClick={copy} aria-label={what ? `Copy ${what}` : undefined}>
      <span role="status">{state === 'done' ? 'Copied' : state === 'failed' ? 'Select and copy by hand' : label}</span>
    </Button>
  )
}

/** Copy a text. The clipboard API exists only on HTTPS and this machine, so plain HTTP uses a selection. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const area = document.createElement('textarea')
    area.value = text
    area.className = 'hb-hidden'
    const host = document.querySelector('dialog[open]') ?? document.body
    const focused = document.activeElement
    host.append(area)
    area.select()
    const isDone = document.execCommand('copy')
    area.remove()
    if (focused instanceof HTMLElement) focused.focus()
    return isDone
  }
}
