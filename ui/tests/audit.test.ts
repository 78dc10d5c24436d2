import { describe, expect, it } from 'vitest'
import { actionText, diff } from '../src/screens/audit/diff'

describe('diff of an audit entry', () => {
  it('names the nested fields that differ, and no others', () => {
    const before = { schedule: '@daily', target: { type: 'http', url: 'https://a.example' }, tags: ['x'] }
    const after = { schedule: '@daily', target: { type: 'http', url: 'https://b.example' }, tags: ['x', 'y'] }

    expect(diff(before, after)).toEqual([
      { field: 'target.url', before: 'https://a.example', after: 'https://b.example' },
      { field: 'tags', before: ['x'], after: ['x', 'y'] },
    ])
  })

  it('lists every field of what was created', () => {
    expect(diff(undefined, { name: 'report', enabled: true })).toEqual([
      { field: 'name', before: undefined, after: 'report' },
      { field: 'enabled', before: undefined, after: true },
    ])
  })

  it('finds nothing where nothing changed, whatever the order of the fields', () => {
    expect(diff({ a: [{ b: 1, c: 2 }] }, { a: [{ c: 2, b: 1 }] })).toEqual([])
  })

  it('tells null from absent', () => {
    expect(diff({ payload: null }, {})).toEqual([{ field: 'payload', before: null, after: undefined }])
  })
})

describe('text of an action', () => {
  it.each([
    ['job.pause', 'paused the job'],
    ['run.replay', 'replayed the run'],
    ['job.rotate_secret', 'job rotate secret'],
  ])('%s', (action, text) => expect(actionText(action)).toBe(text))
})
