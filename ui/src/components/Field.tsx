import { cloneElement, useId, type InputHTMLAttributes, type ReactElement, type ReactNode, type SelectHTMLAttributes } from 'react'

interface FieldProps {
  label: string
  /** An explanation below the control. */
  hint?: ReactNode
  /** What is wrong with the value; shown in place of the hint and read aloud. */
  error?: string | undefined
  /** Keep the label for screen readers only. */
  isLabelHidden?: boolean
  /** One control; it gets its id and descriptions here. */
  children: ReactElement<InputHTMLAttributes<HTMLElement>>
}

export function Field({ label, hint, error, isLabelHidden = false, children }: FieldProps) {
  const id = useId()
  const note = error ?? hint
  return (
    <div className="hb-field">
      <label htmlFor={id} className={isLabelHidden ? 'hb-hidden' : undefined}>
        {label}
      </label>
      {cloneElement(children, {
        id,
        ...(note ? { 'aria-describedby': `${id}-note` } : {}),
        ...(error ? { 'aria-invalid': true } : {}),
        className: `hb-input ${children.props.className ?? ''}`,
      })}
      {note && (
        <div id={`${id}-note`} className={error ? 'hb-field-error' : 'hb-field-hint'} role={error ? 'alert' : undefined}>
          {note}
        </div>
      )}
    </div>
  )
}

interface SelectProps<T extends string> extends Omit<SelectHTMLAttributes<HTMLSelectElement>, 'onChange' | 'value'> {
  value: T
  options: readonly (T | readonly [value: T, label: string])[]
  onChange: (value: T) => void
  /** Marks a filter that is set. */
  isSet?: boolean
}

/** A native select. Inside a `Field`, or with its own `aria-label`. */
export function Select<T extends string>({ value, options, onChange, isSet, className = '', ...rest }: SelectProps<T>) {
  return (
    <select {...rest} data-set={isSet || undefined} className={`hb-select ${className}`} value={value} onChange={(event) => onChange(event.target.value as T)}>
      {options.map((option) => {
        const [key, label] = typeof option === 'string' ? [option, option] : option
        return (
          <option key={key} value={key}>
            {label}
          </option>
        )
      })}
    </select>
  )
}
