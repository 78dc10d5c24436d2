/** Where in an expression an error is, for the line of carets below it. */
export interface ScheduleProblem {
  /** "hour field, column 3: 25 is outside 0-23" */
  message: string
  hint: string | null
  /** The line of the expression and the carets below it; null if the error is about the whole. */
  shown: { line: string; carets: string } | null
}

/** Lines of the expression with the carets of all errors in them. */
export function markedLines(problems: readonly ScheduleProblem[]): { line: string; carets: string }[] {
  const found = new Map<string, string>()
  for (const { shown } of problems) {
    if (!shown) continue
    const before = found.get(shown.line) ?? ''
    const width = Math.max(before.length, shown.carets.length)
    found.set(shown.line, Array.from({ length: width }, (_, at) => (before[at] === '^' || shown.carets[at] === '^' ? '^' : ' ')).join(''))
  }
  return [...found].map(([line, carets]) => ({ line, carets }))
}

/** Errors of one field, each with the marked part of the expression. Columns count characters from 1. */
export function markErrors(expression: string, errors: readonly { message: string; hint?: string | null | undefined }[]): ScheduleProblem[] {
  return errors.flatMap(({ message, hint }) =>
    message.split('\n').map((line) => ({ message: line, hint: hint ?? null, shown: mark(expression, Number(/\bcolumn (\d+):/.exec(line)?.[1] ?? 0)) })),
  )
}

function mark(expression: string, column: number): ScheduleProblem['shown'] {
  const characters = [...expression]
  if (column < 1 || column > characters.length + 1) return null
  let start = 0
  characters.slice(0, column - 1).forEach((character, index) => {
    if (character === '\n') start = index + 1
  })
  const rest = characters.slice(start)
  const end = rest.indexOf('\n')
  const line = (end < 0 ? rest : rest.slice(0, end)).map((character) => (character === '\t' ? ' ' : character)).join('')
  const at = column - 1 - start
  const width = /^[^\s,;]*/.exec([...line].slice(at).join(''))?.[0].length ?? 0
  return { line, carets: ' '.repeat(at) + '^'.repeat(Math.max(1, width)) }
}
