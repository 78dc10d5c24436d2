import { describe, expect, it } from 'vitest'
import { runIdIn, score, splitVerb } from '../src/lib/palette'
import { describeCount, isSortable, readChosen, readFilter, writeChosen } from '../src/screens/jobs/filter'

describe('the filter of the job list', () => {
  it('reads what the API knows and nothing else', () => {
    expect(readFilter(new URLSearchParams('q=a&tag=x&state=&sort=name&sel=a'))).toEqual({ q: 'a', tag: 'x' })
    expect(isSortable({ last_result: 'failed' })).toBe(false)
  })

  it('writes and reads the selection', () => {
    expect(writeChosen(readChosen('a,b'))).toBe('a,b')
    expect(readChosen('*')).toBe('all')
    expect(writeChosen(readChosen(null))).toBe('')
  })

  it.each([
    [1, false, true, 5, '1 job'],
    [78, false, true, undefined, '78 jobs'],
    [100, true, true, 1204, '100 of 1,204 jobs'],
    [100, true, true, undefined, 'the first 100 jobs that match'],
    [4, false, false, undefined, '4 jobs on this page'],
  ] as const)('counts %d', (shown, hasMore, isFirst, total, text) => expect(describeCount(shown, hasMore, isFirst, total)).toBe(text))
})

describe('the palette', () => {
  it('ranks beginnings before words before parts', () => {
    const scores = ['cache', 'cache-warmup', 'warm-cache', 'mycache', 'other'].map((name) => score(name, 'cache'))
    expect(scores).toEqual([5, 4, 3, 2, 0])
    expect(score('Import a crontab or jobs file', 'crontab jobs')).toBe(1)
  })

  it('finds the id of a run, also in an address', () => {
    const id = '01a1f01a-f160-8ce5-a10e-d36d4d585694'
    expect(runIdIn(` https://h/tools/runs/${id}?x=1`)).toBe(id)
    expect(runIdIn(id.toUpperCase())).toBe(id)
    expect(runIdIn('01a1f01a')).toBeNull()
  })

  it('splits an action from its job', () => {
    expect(splitVerb('pause  report')).toEqual({ verb: 'pause', rest: 'report' })
    expect(splitVerb('pause')).toEqual({ verb: null, rest: 'pause' })
    expect(splitVerb('paused report')).toEqual({ verb: null, rest: 'paused report' })
  })
})
