import { describe, expect, it } from 'vitest'
import type { RunDetail } from '../src/api/types'
import { errorLine } from '../src/lib/errorLine'
import { asCurl } from '../src/screens/run/curl'
import { differences, eventsOf, splitExcerpt, summaryOf } from '../src/screens/run/events'

const RUN = {
  id: 'r',
  kind: 'scheduled',
  state: 'failed',
  reason: 'exhausted',
  scheduled_at: '2026-11-18T09:00:00Z',
  planned_at: '2026-11-18T09:00:05Z',
  ready_at: '2026-11-18T09:00:35Z',
  started_at: '2026-11-18T09:00:05.100Z',
  finished_at: '2026-11-18T09:00:36Z',
  attempt: 2,
  lateness_ms: 5100,
  duration_ms: 30_900,
  attempts: [
    { number: 1, started_at: '2026-11-18T09:00:05.100Z', finished_at: '2026-11-18T09:00:05.400Z', outcome: 'failed', error: 'HTTP 503 Service Unavailable' },
    { number: 2, started_at: '2026-11-18T09:00:35.100Z', finished_at: '2026-11-18T09:00:36Z', outcome: 'failed', error: 'Traceback (most recent call last):\n  File "x"\n    y()\nValueError: no rate' },
  ],
} as unknown as RunDetail

describe('the life of a run', () => {
  it('lists what happened in order, with what each lasted', () => {
    expect(eventsOf(RUN).map(({ text, fate }) => [text, fate])).toEqual([
      ['Scheduled', 'planned'],
      ['Planned', undefined],
      ['Attempt 1', 'failed'],
      ['Attempt 2', 'failed'],
      ['Failed for good', 'failed'],
    ])
    expect(eventsOf(RUN)[1]?.detail).toBe('5 s after its scheduled time')
  })

  it('says when a run that waits is tried again', () => {
    const waiting = { ...RUN, state: 'retrying', reason: null, finished_at: null, attempts: RUN.attempts?.slice(0, 1), attempt: 1, waits_for: 'its next attempt' } as RunDetail
    expect(eventsOf(waiting).at(-1)).toMatchObject({ text: 'Attempt 2', fate: 'planned', at: Date.parse('2026-11-18T09:00:35Z') })
  })

  it('shows an attempt in progress as open', () => {
    const running = { ...RUN, state: 'running', finished_at: null, attempts: [], attempt: 1 } as unknown as RunDetail
    expect(eventsOf(running).at(-1)).toMatchObject({ text: 'Attempt 1', until: null, fate: 'running' })
  })
})

describe('the summary', () => {
  it('names the error of the last attempt', () => expect(summaryOf(RUN, 0)).toBe('Failed after 2 attempts over 31 s: ValueError: no rate.'))
  it('says when a run is tried again', () => {
    const run = { ...RUN, state: 'retrying', attempt: 1, finished_at: null, ready_at: '2026-11-18T10:00:30Z' } as RunDetail
    expect(summaryOf(run, Date.parse('2026-11-18T10:00:00Z'))).toBe('1 attempt failed: ValueError: no rate. It is tried again in 30 s.')
    expect(eventsOf({ ...run, waits_for: 'its next attempt, 2026-11-18T10:00:30Z' } as RunDetail).at(-1)?.detail).toBeUndefined()
  })
  it('is short for a success', () => expect(summaryOf({ ...RUN, state: 'succeeded', attempt: 1, lateness_ms: 3, duration_ms: 900 } as RunDetail, 0)).toBe('Succeeded in 900 ms.'))
})

describe('texts of attempts', () => {
  it('takes the exception of a traceback', () => expect(errorLine('Traceback (most recent call last):\n  File "a.py", line 1\n    x()\nKeyError: 1\nmore\n')).toBe('KeyError: 1'))
  it('takes the first line of anything else', () => expect(errorLine('HTTP 500\nbody')).toBe('HTTP 500'))
  it('splits headers from the body', () => expect(splitExcerpt('Server: x\nContent-Type: text/html\n\n<p>\n\nno')).toEqual({ headers: 'Server: x\nContent-Type: text/html', body: '<p>\n\nno' }))
  it('takes text without headers as the body', () => expect(splitExcerpt('one\n\ntwo')).toEqual({ headers: '', body: 'one\n\ntwo' }))
})

describe('curl', () => {
  it('quotes for the shell and marks secrets', () => {
    const command = asCurl({ url: "https://a.example/it's", headers: { Authorization: { secret: true } } }, { a: "b'c" }, (value) => JSON.stringify(value))
    expect(command).toContain("'https://a.example/it'\\''s'")
    expect(command).toContain("-H 'Authorization: SECRET'")
    expect(command).toContain(`--data '{"payload":{"a":"b'\\''c"}}'`)
  })
  it('sends no body with GET', () => expect(asCurl({ url: 'https://a.example', method: 'GET' }, null, String)).toBe("curl -X GET 'https://a.example'"))
})

describe('differences', () => {
  it('names version and payload only if they differ', () => {
    const write = (value: unknown) => JSON.stringify(value)
    const same = { job_version: 1, payload: { a: 1 }, attempt: 1 }
    expect(differences(same, same, write)).toEqual([])
    expect(differences({ ...same, job_version: 2, payload: null }, same, write)).toEqual([
      { what: 'Version of the job', here: '2', there: '1' },
      { what: 'Payload', here: 'null', there: '{"a":1}' },
    ])
  })
})
