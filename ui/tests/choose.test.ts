import { describe, expect, it } from 'vitest'
import { chooseJobs, chosenText, filterText } from '../src/screens/home/choose'

describe('jobs chosen by a text', () => {
  it.each([
    ['', {}],
    ['import', { q: 'import' }],
    [' tag:billing  invoice', { tag: 'billing', q: 'invoice' }],
    ['Tag:', {}],
  ])('%j', (text, choice) => expect(chooseJobs(text)).toEqual(choice))

  it('begins with what the time line shows', () => {
    expect(filterText({ q: 'import', tag: 'billing' })).toBe('tag:billing import')
    expect(filterText({ q: null, tag: null })).toBe('')
  })

  it('says which they are', () => {
    expect(chosenText({}, 12)).toBe('12 jobs')
    expect(chosenText({ q: 'import', tag: 'nightly' }, 2)).toBe('2 jobs whose names begin with import and with the tag nightly')
    expect(chosenText({ tag: 'billing', attention: 'failing' }, 1)).toBe('1 job with the tag billing that is failing')
  })
})
