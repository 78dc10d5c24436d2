/** Ranking of what the palette offers. */

/** How well a text matches what was typed, 0 for not at all: a beginning counts more than a word, a word more than a part. */
export function score(text: string, typed: string): number {
  const name = text.toLowerCase()
  const wanted = typed.trim().toLowerCase()
  if (!wanted) return 1
  if (name === wanted) return 5
  if (name.startsWith(wanted)) return 4
  if (name.split(/[\s_-]+/).some((word) => word.startsWith(wanted))) return 3
  if (name.includes(wanted)) return 2
  const words = wanted.split(/\s+/)
  return words.length > 1 && words.every((word) => name.includes(word)) ? 1 : 0
}

const RUN_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** The id of a run in what was typed or pasted, also inside an address. */
export function runIdIn(typed: string): string | null {
  const found = typed.trim().split(/[\s/?#]/).find((part) => RUN_ID.test(part))
  return found ? found.toLowerCase() : null
}

const VERBS = ['run', 'pause', 'resume', 'edit', 'explain'] as const
export type Verb = (typeof VERBS)[number]

/** "pause report" is an action and a job; anything else is only a text. */
export function splitVerb(typed: string): { verb: Verb | null; rest: string } {
  const [first = '', ...others] = typed.trim().split(/\s+/)
  const verb = VERBS.find((known) => known === first.toLowerCase())
  return verb && others.length ? { verb, rest: others.join(' ') } : { verb: null, rest: typed.trim() }
}
