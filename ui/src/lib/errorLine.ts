/** The line of an error that says what is wrong: of a Python traceback the exception, else the first line. */
export function errorLine(error: string): string {
  const lines = error.split('\n').filter((line) => line.trim())
  const lastFrame = lines.findLastIndex((line) => line.startsWith('  File "'))
  const after = lastFrame < 0 ? lines : lines.slice(lastFrame + 1).filter((line) => !line.startsWith(' '))
  return (after[0] ?? lines.at(-1) ?? error).trim()
}
