/** Jobs that a text chooses: the start of a name, and tags as "tag:billing". */
import { count } from '../../lib/outcome'
import type { TimelineFilter } from './queries'

export interface Choice {
  q?: string
  tag?: string
}

export function chooseJobs(text: string): Choice {
  const choice: Choice = {}
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const [, tag] = /^tag:(.*)$/i.exec(word) ?? []
    if (tag === undefined) choice.q = choice.q ? `${choice.q} ${word}` : word
    else if (tag) choice.tag = tag
  }
  return choice
}

/** The text that chooses what a filter of the time line shows. */
export function filterText({ q, tag }: Pick<TimelineFilter, 'q' | 'tag'>): string {
  return [tag && `tag:${tag}`, q].filter(Boolean).join(' ')
}

const ATTENTION_WORDS: Record<string, string> = { failing: 'failing', retrying: 'retrying', losing: 'losing runs', late: 'late', paused: 'paused', due: 'due within the hour' }

/** "3 jobs with the tag billing that are failing" */
export function chosenText({ q, tag, attention }: Choice & { attention?: string }, number: number): string {
  const parts = [count(number, 'job')]
  if (q) parts.push(`whose ${number === 1 ? 'name begins' : 'names begin'} with ${q}`)
  if (tag) parts.push(`${q ? 'and ' : ''}with the tag ${tag}`)
  if (attention) parts.push(`that ${number === 1 ? 'is' : 'are'} ${ATTENTION_WORDS[attention] ?? attention}`)
  return parts.join(' ')
}
