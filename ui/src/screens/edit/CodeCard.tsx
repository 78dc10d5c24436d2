/** The job as a curl command, in a jobs file, and in Python. */
import { useState } from 'react'
import { CodeBlock } from '../../components/CodeBlock'
import { Card } from '../../components/Screen'
import { Tabs } from '../../components/Tabs'

const LANGUAGES = [
  ['curl', 'curl'],
  ['toml', 'TOML'],
  ['python', 'Python'],
] as const

export function CodeCard({ code }: { code: Record<(typeof LANGUAGES)[number][0], string> }) {
  const [language, setLanguage] = useState<(typeof LANGUAGES)[number][0]>('curl')
  return (
    <Card title="As code" controls={<Tabs label="Language" tabs={LANGUAGES} value={language} onChange={setLanguage} />}>
      <CodeBlock code={code[language]} name={`The job as ${language}`} />
    </Card>
  )
}
