import { describe, expect, it } from 'vitest'
import { parseJson, stringifyJson } from '../src/lib/exactJson'
import { match } from '../src/lib/keys'
import { count, fateOf, formatPercent, summarizeFates } from '../src/lib/outcome'
import { may } from '../src/lib/roles'
import { steady } from '../src/lib/steady'
import { explainPath, jobPath, oneOf, patchSearch, safeNext, withSearch } from '../src/lib/url'

describe('exact JSON', () => {
  it('keeps integers above 2^53', () => {
    const text = '{"id":9007199254740993,"list":[-12345678901234567890,1.5,1e3,"9007199254740993"],"t":true,"n":null,"o":{},"a":[]}'
    const value = parseJson(text) as { id: unknown; list: unknown[] }
    expect(value.id).toBe(9007199254740993n)
    expect(value.list).toEqual([-12345678901234567890n, 1.5, 1000, '9007199254740993'])
    expect(stringifyJson(value)).toBe(text.replace('1e3', '1000'))
  })

  it.each(['{"a": 1, "b": ["x\\"y\\u00e9\\n", {"c": null}], "n": 1234567890123456}', ' [ ] ', '"1234567890123456"', '1234567890123456789'])('agrees with JSON.parse on %s', (text) => {
    const exact = JSON.parse(stringifyJson(parseJson(text))) as unknown
    expect(exact).toEqual(JSON.parse(text))
  })

  it('makes no prototype of a key', () => {
    const value = parseJson('{"__proto__": {"x": 1}, "n": 1234567890123456}') as object
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
    expect(Object.keys(value)).toContain('__proto__')
  })

  it.each(['{"a":1234567890123456', '[1234567890123456,]', '1234567890123456 x', '{"a" 1234567890123456}'])('refuses %s', (text) => {
    expect(() => parseJson(text)).toThrow(SyntaxError)
  })

  it('indents as JSON.stringify does', () => {
    const value = { a: [1, { b: 'x' }], c: {}, d: undefined }
    expect(stringifyJson(value, 2)).toBe(JSON.stringify(value, null, 2))
  })
})

describe('state in the address', () => {
  it('removes what is empty and repeats arrays', () => {
    expect(patchSearch('?q=a&tag=x&sort=name', { q: '', tag: ['x', 'y'], page: 2, sort: undefined })).toBe('tag=x&tag=y&page=2')
    expect(withSearch('/jobs', { q: 'a b&c' })).toBe('/jobs?q=a+b%26c')
    expect(withSearch('/jobs', { q: null })).toBe('/jobs')
    expect(oneOf('z', ['a', 'b'])).toBe('a')
  })

  it('makes paths', () => {
    expect(jobPath({ name: 'new', id: 'i' })).toBe('/jobs/i')
    expect(explainPath('report', '2026-01-01T00:00:00Z')).toBe('/jobs/report/explain?at=2026-01-01T00%3A00%3A00Z')
  })

  it.each([null, '//evil.example', '/\\evil.example', 'https://evil.example', '/login?next=/', 'javascript:alert(1)'])('does not follow %s after a login', (next) => {
    expect(safeNext(next)).toBe('/')
  })

  it('follows a path after a login', () => expect(safeNext('/jobs?q=a')).toBe('/jobs?q=a'))
})

describe('rows under the pointer', () => {
  const key = (row: { id: string }) => row.id
  const rows = (text: string, version = 1) => [...text].map((id) => ({ id, version }))

  it('follows the answer while nobody points', () => {
    expect(steady(rows('abc'), rows('ca'), key, false)).toEqual({ rows: rows('ca'), held: 0 })
  })

  it('keeps places and renews content while somebody does', () => {
    const result = steady(rows('abc'), rows('bca', 2), key, true)
    expect(result.rows).toEqual(rows('abc', 2))
    expect(result.held).toBeGreaterThan(0)
  })

  it('keeps rows that are gone, and lets new ones wait', () => {
    const result = steady(rows('abc'), rows('acd', 2), key, true)
    expect(result.rows.map(key)).toEqual(['a', 'b', 'c'])
    expect(result.rows[1]?.version).toBe(1)
    expect(result.held).toBe(2)
  })

  it('shows the first answer at once', () => expect(steady([], rows('a'), key, true).rows).toEqual(rows('a')))
})

describe('keys', () => {
  const shortcuts = ['g j', 'g r', 'j', 'x', '?', 'Ctrl+k', 'Escape']
  const press = (key: string, more = {}) => ({ key, ctrl: false, inField: false, ...more })

  it('matches sequences', () => {
    expect(match(shortcuts, '', press('g'))).toEqual({ found: null, pending: 'g' })
    expect(match(shortcuts, 'g', press('j'))).toEqual({ found: 'g j', pending: '' })
    expect(match(shortcuts, '', press('j'))).toEqual({ found: 'j', pending: '' })
    expect(match(shortcuts, 'g', press('x'))).toEqual({ found: 'x', pending: '' })
  })

  it('leaves fields alone, but for Ctrl and Escape', () => {
    expect(match(shortcuts, '', press('x', { inField: true })).found).toBeNull()
    expect(match(shortcuts, '', press('k', { inField: true, ctrl: true })).found).toBe('Ctrl+k')
    expect(match(shortcuts, '', press('Escape', { inField: true })).found).toBe('Escape')
    expect(match(shortcuts, '', press('j', { ctrl: true })).found).toBeNull()
  })
})

describe('outcomes', () => {
  it('names them', () => {
    expect(fateOf('pending')).toBe('waiting')
    expect(fateOf('succeeded', true)).toBe('late')
    expect(fateOf('something new')).toBe('waiting')
    expect(summarizeFates(['succeeded', 'failed', 'succeeded'])).toBe('3 times: 2 succeeded, 1 failed')
    expect(summarizeFates([])).toBe('no times yet')
    expect(count(1204, 'job')).toBe('1,204 jobs')
  })

  it.each([
    [100, '100 %'],
    [99.97, '99.9 %'],
    [95, '95 %'],
    [0.01, '0.1 %'],
    [0, '0 %'],
  ])('%d is %s', (percent, text) => expect(formatPercent(percent)).toBe(text))
})

it('lets each role do what the ones before it may', () => {
  expect(may('admin', 'operator')).toBe(true)
  expect(may('viewer', 'operator')).toBe(false)
  expect(may(undefined, 'viewer')).toBe(false)
})
