import { useState, type ReactNode } from 'react'
import { CodeBlock } from './CodeBlock'
import { Tabs } from './Tabs'

/** An empty state that teaches: what will be here, and code to copy that makes it happen. */
export function Empty({ title, children, examples = [] }: { title: string; children?: ReactNode; examples?: readonly { label: string; code: string }[] }) {
  const [shown, setShown] = useState(0)
  const example = examples[shown]
  return (
    <section className="hb-card hb-empty">
      <h2>{title}</h2>
      {children}
      {examples.length > 1 && <Tabs label="Examples" tabs={examples.map(({ label }) => [label, label] as const)} value={example?.label ?? ''} onChange={(label) => setShown(examples.findIndex((one) => one.label === label))} />}
      {example && <CodeBlock code={example.code} {...(examples.length > 1 ? { name: example.label } : { label: example.label })} />}
    </section>
  )
}
