import { createContext, useCallback, useContext, useEffect, useRef, useState, type ReactNode } from 'react'
import { Button } from './Button'

export interface Message {
  text: string
  tone?: 'plain' | 'bad'
  /** Offer to take it back. */
  undo?: () => void | Promise<unknown>
  /** Something to open: ["Watch the run", () => navigate(…)] */
  action?: readonly [label: string, run: () => void]
}

type Show = (message: Message) => void

const SHOWN_MS = 8_000
const ToastContext = createContext<Show>(() => undefined)

export function ToastProvider({ children }: { children: ReactNode }) {
  const [messages, setMessages] = useState<(Message & { id: number })[]>([])
  const next = useRef(0)
  const show = useCallback<Show>((message) => {
    next.current += 1
    const id = next.current
    setMessages((shown) => [...shown.slice(-2), { ...message, id }])
  }, [])
  const drop = useCallback((id: number) => setMessages((shown) => shown.filter((message) => message.id !== id)), [])
  return (
    <ToastContext.Provider value={show}>
      {children}
      <div className="hb-toasts" role="region" aria-label="Messages" aria-live="polite">
        {messages.map((message) => (
          <Toast key={message.id} message={message} onClose={() => drop(message.id)} onError={(text) => show({ text, tone: 'bad' })} />
        ))}
      </div>
    </ToastContext.Provider>
  )
}

/** `toast({ text: '12 jobs paused', undo: () => … })` */
export function useToast(): Show {
  return useContext(ToastContext)
}

function Toast({ message, onClose, onError }: { message: Message; onClose: () => void; onError: (text: string) => void }) {
  const [isHeld, setHeld] = useState(false)
  const close = useRef(onClose)
  close.current = onClose
  useEffect(() => {
    if (isHeld) return undefined
    const timer = setTimeout(() => close.current(), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [isHeld])
  const undo = async () => {
    onClose()
    try {
      await message.undo?.()
    } catch (error) {
      onError(error instanceof Error ? error.message : String(error))
    }
  }
  return (
    <div className="hb-toast" data-tone={message.tone} onPointerEnter={() => setHeld(true)} onPointerLeave={() => setHeld(false)} onFocus={() => setHeld(true)} onBlur={() => setHeld(false)}>
      <span>{message.text}</span>
      {message.action && (
        <Button
          size="small"
          onClick={() => {
            onClose()
            message.action?.[1]()
          }}
        >
          {message.action[0]}
        </Button>
      )}
      {message.undo && (
        <Button size="small" onClick={() => void undo()}>
          Undo
        </Button>
      )}
      <Button size="small" look="quiet" aria-label="Close the message" onClick={onClose}>
        ×
      </Button>
    </div>
  )
}
