/** What a job is called, and what people say about it. */
import { useState } from 'react'
import { Field } from '../../components/Field'
import { Card } from '../../components/Screen'
import { describeMore, nameOf, type Form } from './form'

interface Props {
  form: Form
  set: (patch: Partial<Form>) => void
  error: (...pointers: string[]) => string | undefined
  isNew: boolean
}

/** A new job needs no more than a name here; the rest opens by itself once it says something. */
export function JobCard({ form, set, error, isNew }: Props) {
  const more = describeMore(form)
  const errors = ['/description', '/tags', '/subject'].some((pointer) => error(pointer))
  const [isOpen, setOpen] = useState(!isNew || more !== '')
  return (
    <Card title="Job">
      <div className="edit-stack">
        <Field label="Name" hint="Letters, digits, _ and -." error={error('/name')}>
          <input value={form.name} onChange={(event) => set({ name: nameOf(event.target.value) })} maxLength={100} spellCheck={false} autoComplete="off" autoFocus={isNew && !form.name} required placeholder={isNew ? 'nightly-report' : undefined} />
        </Field>
        <details className="edit-more" open={isOpen || errors} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>Description, tags and subject {more ? <span className="hb-muted">{more}</span> : <span className="hb-muted">optional</span>}</summary>
          <div className="edit-stack">
            <Field label="Description" error={error('/description')}>
              <textarea rows={2} value={form.description} onChange={(event) => set({ description: event.target.value })} maxLength={10_000} />
            </Field>
            <div className="edit-columns">
              <Tags tags={form.tags} onChange={(tags) => set({ tags })} error={error('/tags')} />
              <Field label="Subject" hint="The customer, tenant or object it belongs to; lists can be filtered by it." error={error('/subject')}>
                <input value={form.subject} onChange={(event) => set({ subject: event.target.value })} maxLength={200} autoComplete="off" />
              </Field>
            </div>
          </div>
        </details>
      </div>
    </Card>
  )
}

function Tags({ tags, onChange, error }: { tags: string[]; onChange: (tags: string[]) => void; error: string | undefined }) {
  const [text, setText] = useState('')
  const add = () => {
    const added = text.split(',').map((tag) => tag.trim()).filter((tag) => tag && !tags.includes(tag))
    if (added.length) onChange([...tags, ...added])
    setText('')
  }
  return (
    <div className="edit-tags">
      <Field label="Tags" hint="Enter adds a tag." error={error}>
        <input
          value={text}
          maxLength={100}
          autoComplete="off"
          onChange={(event) => setText(event.target.value)}
          onBlur={add}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey) {
              event.preventDefault()
              add()
            } else if (event.key === 'Backspace' && !text && tags.length) onChange(tags.slice(0, -1))
          }}
        />
      </Field>
      {tags.length > 0 && (
        <div className="hb-actions">
          {tags.map((tag) => (
            <span key={tag} className="hb-chip">
              {tag}
              <button type="button" aria-label={`Remove the tag ${tag}`} onClick={() => onChange(tags.filter((each) => each !== tag))}>
                ×
              </button>
            </span>
          ))}
        </div>
      )}
    </div>
  )
}
