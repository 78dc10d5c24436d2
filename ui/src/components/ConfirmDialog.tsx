import { createContext, useCallback, useContext, useState, type ReactNode } from 'react'
import { Button } from './Button'
import { Dialog } from './Dialog'
import { Field } from './Field'

export interface Question {
  /** Says what and how many: "Delete 12 jobs?" */
  title: string
  /** What it means: what stays, what stops, whether it can be undone. */
  body?: ReactNode
  /** The button repeats it: "Delete 12 jobs". */
  action: string
  isDanger?: boolean
  /** A text to type before the button works, for what hits very many. */
  typed?: string
}

type Ask = (question: Question) => Promise<boolean>

const ConfirmContext = createContext<Ask>(() => Promise.resolve(false))

export function ConfirmProvider({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState<{ question: Question; answer: (yes: boolean) => void } | null>(null)
  const ask = useCallback<Ask>((question) => new Promise((resolve) => setOpen({ question, answer: resolve })), [])
  const close = (yes: boolean) => {
    open?.answer(yes)
    setOpen(null)
  }
  return (
    <ConfirmContext.Provider value={ask}>
      {children}
      {open && <ConfirmDialog question={open.question} onAnswer={close} />}
    </ConfirmContext.Provider>
  )
}

/** `if (await confirm({ title: 'Delete 12 jobs?', action: 'Delete 12 jobs', isDanger: true })) …` */
export function useConfirm(): Ask {
  return useContext(ConfirmContext)
}

function ConfirmDialog({ question, onAnswer }: { question: Question; onAnswer: (yes: boolean) => void }) {
  const [text, setText] = useState('')
  const { title, body, action, isDanger = false, typed } = question
  const isReady = typed === undefined || text === typed
  return (
    <Dialog
      title={title}
      onClose={() => onAnswer(false)}
      onSubmit={() => isReady && onAnswer(true)}
      footer={
        <>
          <Button onClick={() => onAnswer(false)} autoFocus={isDanger && typed === undefined}>
            Cancel
          </Button>
          <Button type="submit" look={isDanger ? 'danger' : 'primary'} disabled={!isReady} autoFocus={!isDanger && typed === undefined}>
            {action}
          </Button>
        </>
      }
    >
      {body}
      {typed !== undefined && (
        <Field label={`Type ${typed} to confirm`}>
          <input value={text} onChange={(event) => setText(event.target.value)} autoFocus autoComplete="off" spellCheck={false} />
        </Field>
      )}
    </Dialog>
  )
}
