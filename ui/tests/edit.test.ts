import { describe, expect, it } from 'vitest'
import { parseJson, stringifyJson } from '../src/lib/exactJson'
import { build, convert, daysIn, MODES, parseExpression, readTime, type Built, type MonthDay } from '../src/screens/edit/builder'
import { asCurl, asPython, asToml, pythonText, shellQuote, tomlText } from '../src/screens/edit/code'
import { changedFields, changeOf, emptyForm, fromJob, isObject, makeBody, rebase, same, withoutDefaults, type Form, type Json, type JsonObject } from '../src/screens/edit/form'
import { markedLines, markErrors } from '../src/screens/edit/scheduleErrors'
import { compareTimes } from '../src/screens/edit/times'
import { findZones } from '../src/screens/edit/zones'

const CASES = 2_000

/** Numbers that look random and are the same in every run (mulberry32). */
class Random {
  constructor(private state: number) {}

  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  from(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1))
  }

  one<T>(values: readonly T[]): T {
    return values[this.from(0, values.length - 1)] as T
  }

  some(low: number, high: number, least = 1): number[] {
    const all = Array.from({ length: high - low + 1 }, (_, index) => low + index)
    const found = all.filter(() => this.next() < 0.35)
    return found.length >= least ? found : [this.one(all)]
  }
}

const two = (number: number) => String(number).padStart(2, '0')

function anyBuilt(random: Random): Built {
  const minute = two(random.from(0, 59))
  const time = `${two(random.from(0, 23))}:${minute}`
  const precise = random.next() < 0.3 ? `${time}:${two(random.from(1, 59))}` : time
  const moment = { date: `20${two(random.from(20, 60))}-${two(random.from(1, 12))}-${two(random.from(1, 28))}`, time: precise, offset: random.one(['', 'Z', '+05:30', '-08:00']) }
  const month = random.from(1, 12)
  const day = random.from(1, daysIn(month))
  const on: readonly MonthDay[] = [
    { kind: 'days', days: random.some(1, 31) },
    { kind: 'last' },
    { kind: 'last-weekday' },
    { kind: 'nth', nth: random.one([1, 2, 3, 4, 5, 'last'] as const), weekday: random.from(1, 7) },
  ]
  const months = random.next() < 0.5 ? [] : random.some(1, 12)
  return random.one<Built>([
    { mode: 'every', amount: random.from(1, 900), unit: random.one(['s', 'm', 'h', 'd', 'w'] as const), from: random.next() < 0.5 ? null : moment },
    { mode: 'daily', times: random.some(0, 23).map((hour) => `${two(hour)}:${minute}`) },
    { mode: 'weekly', weekdays: random.some(1, 7), time },
    { mode: 'monthly', on: random.one(on), months: months.length === 12 ? [] : months, time },
    { mode: 'once', at: moment },
    { mode: 'yearly', month, day, time: precise, feb29: month === 2 && day === 29 ? random.one(['', 'feb28', 'mar1', 'skip'] as const) : '' },
  ])
}

describe('the schedule builder', () => {
  it('reads back everything that it can say', () => {
    const random = new Random(1)
    for (let at = 0; at < CASES; at += 1) {
      const built = anyBuilt(random)
      // All 31 days, like all days of a field, are written as "*", which is said as daily.
      if (built.mode === 'monthly' && built.on.kind === 'days' && built.on.days.length === 31) continue
      expect(parseExpression(build(built)), build(built)).toEqual(built)
    }
  })

  it('writes the same expression again', () => {
    const random = new Random(2)
    for (let at = 0; at < CASES; at += 1) {
      const text = build(anyBuilt(random))
      expect(build(parseExpression(text))).toBe(text)
    }
  })

  it.each([
    ['@daily', '0 0 * * *', 'daily'],
    ['@weekly', '0 0 * * 7', 'weekly'],
    ['@monthly', '0 0 1 * *', 'monthly'],
    ['0 9 * * MON-FRI', '0 9 * * 1-5', 'weekly'],
    ['0 9 * * fri-SUN', '0 9 * * 5-7', 'weekly'],
    ['0 9 * * 0,6', '0 9 * * 6,7', 'weekly'],
    ['00 09 ? * 0-7', '0 9 * * 1-7', 'weekly'],
    ['5 9 1,2,3,15 JAN,jul *', '5 9 1-3,15 1,7 *', 'monthly'],
    ['0 9 * * FRI#2', '0 9 * * 5#2', 'monthly'],
    ['0 9 * * 5#L', '0 9 * * 5L', 'monthly'],
    ['0 9 LW * ?', '0 9 LW * *', 'monthly'],
    ['every 2h30m', 'every 150m', 'every'],
    ['every 90s from 2026-01-01T00:00:00Z', 'every 90s from 2026-01-01T00:00:00Z', 'every'],
    ['at 2026-12-24 18:00', 'at 2026-12-24T18:00:00', 'once'],
    ['yearly 02-29 09:00 feb29=mar1', 'yearly 02-29 09:00 feb29=mar1', 'yearly'],
  ])('reads %s as %s', (text, canonical, mode) => {
    expect([parseExpression(text).mode, build(parseExpression(text))]).toEqual([mode, canonical])
  })

  it.each([
    '*/15 * * * *',
    '* * * * *',
    '0 */2 * * *',
    '30 0 9 * * 1-5',
    '0 9 13 * 5',
    '0 9 13 * +FRI',
    'H H(1-4) * * *',
    '0 9 15W * *',
    '0 9 L-3 * *',
    '0,30 9 * * *',
    '0 9,17 1 * *',
    '0 9 * 5 1',
    '0 9 1-31/2 * *',
    '60 9 * * *',
    '0 24 * * *',
    '0 9 32 * *',
    '0 9 * * 8',
    '0 9 5-1 * *',
    '0 9 * *',
    '',
    'every',
    'every 0s',
    'every 2x',
    'at 2026-02-30T09:00:00',
    'at 2026-02-03T25:00:00',
    'yearly 02-30 09:00',
    'yearly 03-01 09:00 feb29=mar1',
    '@reboot',
    '@DAILY',
  ])('leaves %j in the cron tab', (text) => expect(parseExpression(text)).toEqual({ mode: 'cron', text }))

  it('leaves recurrence rules in their tab', () => {
    const text = 'DTSTART:20260105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR'
    expect(parseExpression(text)).toEqual({ mode: 'rrule', text })
    expect(build(parseExpression('RRULE:FREQ=DAILY'))).toBe('RRULE:FREQ=DAILY')
  })

  it('gives every tab something to start with, and keeps the time of day', () => {
    const random = new Random(3)
    for (let at = 0; at < 500; at += 1) {
      const built = anyBuilt(random)
      for (const [mode] of MODES) {
        const next = convert(built, mode, '2026-11-19')
        expect(next.mode).toBe(mode)
        if (mode !== 'cron' && mode !== 'rrule') expect(parseExpression(build(next)), build(next)).toEqual(next)
      }
    }
    expect(build(convert(parseExpression('30 7 * * 1-5'), 'daily', ''))).toBe('30 7 * * *')
    expect(build(convert(parseExpression('every 15m'), 'cron', ''))).toBe('*/15 * * * *')
    expect(build(convert(parseExpression('every 7m'), 'cron', ''))).toBe('0 9 * * *')
    expect(build(convert(parseExpression('30 7 * * 1,5'), 'rrule', ''))).toBe('RRULE:FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=7;BYMINUTE=30')
  })

  it.each([
    ['9', '09:00'],
    ['930', '09:30'],
    ['0930', '09:30'],
    ['9:30', '09:30'],
    ['24:00', null],
    ['9:60', null],
    ['', null],
    ['09:30:15', null],
  ])('reads the time %j', (text, time) => expect(readTime(text)).toBe(time))

  it('reads seconds where they are allowed', () => expect([readTime('09:30:15', true), readTime('09:30:00', true)]).toEqual(['09:30:15', '09:30']))
})

describe('errors of a schedule', () => {
  it('puts carets below the part that is wrong', () => {
    const [one, two, three] = markErrors('60 5/15 * * FRI-MON', [
      { message: 'minute field, column 1: 60 is outside 0-59', hint: null },
      { message: "hour field, column 4: a step needs '*' or a range", hint: 'write 5-23/15' },
      { message: 'day-of-week field, column 13: range FRI-MON runs backwards' },
    ])
    expect(one?.shown).toEqual({ line: '60 5/15 * * FRI-MON', carets: '^^' })
    expect(two).toMatchObject({ hint: 'write 5-23/15', shown: { carets: '   ^^^^' } })
    expect(three?.shown?.carets).toBe('            ^^^^^^^')
  })

  it('shows the carets of all errors in one line', () => {
    const problems = markErrors('60 9 * * 8', [{ message: 'minute field, column 1: a' }, { message: 'day-of-week field, column 10: b' }, { message: 'c' }])
    expect(markedLines(problems)).toEqual([{ line: '60 9 * * 8', carets: '^^       ^' }])
  })

  it('shows the line of a rule, and nothing without a column', () => {
    expect(markErrors('DTSTART:1\nRRULE:X', [{ message: 'rule field, column 17: no' }])[0]?.shown).toEqual({ line: 'RRULE:X', carets: '      ^' })
    expect(markErrors('0 9 * *', [{ message: 'a cron schedule has 5 fields' }])[0]?.shown).toBeNull()
    expect(markErrors('a', [{ message: 'column 9: x' }])[0]?.shown).toBeNull()
    expect(markErrors('a b', [{ message: 'column 4: missing' }])[0]?.shown).toEqual({ line: 'a b', carets: '   ^' })
  })
})

const TEXTS = ['', 'a', "it's", '"quoted"', '\\', '$HOME `x` !!', 'line\nbreak', 'tab\t', 'é 漢字 🙂', '\u2028', '\u007f\u0001', "''' \"\"\"", '%s {x}', '<script>', '\r\n']

function anyJson(random: Random, depth = 0): Json {
  const kind = random.from(0, depth > 2 ? 5 : 7)
  if (kind === 0) return null
  if (kind === 1) return random.next() < 0.5
  if (kind === 2) return random.from(-1000, 1000)
  if (kind === 3) return random.from(-1000, 1000) / 8
  if (kind === 4) return BigInt(random.from(1, 9)) * 10n ** 17n + 1n
  if (kind === 5) return random.one(TEXTS)
  if (kind === 6) return Array.from({ length: random.from(0, 3) }, () => anyJson(random, depth + 1))
  return Object.fromEntries(Array.from({ length: random.from(0, 3) }, () => [random.one(['a', 'b', 'x y', "q'", ...TEXTS]), anyJson(random, depth + 1)]))
}

function anyObject(random: Random): JsonObject {
  return Object.fromEntries(Array.from({ length: random.from(0, 3) }, (_, index) => [`k${index}${random.one(TEXTS)}`, anyJson(random)]))
}

/** A job as the API shows it. */
function anyJob(random: Random): JsonObject {
  const text = () => random.one(TEXTS).trim()
  const targets: readonly JsonObject[] = [
    { type: 'http', url: 'https://example.com/a', headers: random.next() < 0.5 ? {} : { 'X-A': random.one(TEXTS), 'x-b': '1' }, method: random.one(['GET', 'POST']), body: random.one([null, 'text', { a: anyJson(random) }, [1, null]]), timeout: random.one(['30s', '5s']) },
    { type: 'sql', function: 'public.f', args: anyObject(random), database: random.one(['default', 'other']), timeout: '30s', lock_timeout: random.one([null, '5s']), search_path: random.one([['public'], ['a', 'b']]) },
    { type: 'task', name: 'reports.send', args: anyObject(random), timeout: '10m' },
    { type: 'queue', queue: 'high' },
  ]
  return {
    name: 'report',
    schedule: '0 9 * * *',
    timezone: random.one(['UTC', 'Europe/Paris']),
    dst: random.one(['once', 'wall', 'skip']),
    target: random.one(targets),
    payload: anyJson(random),
    description: text(),
    catch_up: random.one(['latest', 'all', 'none']),
    catch_up_window: random.one([null, '1h']),
    overlap: random.one(['allow', 'skip']),
    retry: random.one<Json>(['default', 'none', { attempts: 5, backoff: ['10s', 60], spread: 0.5 }]),
    delivery: 'at_least_once',
    max_age: random.one(['1d', '2h']),
    late_after: random.one(['5m', '10m']),
    priority: 'normal',
    jitter: random.one(['0s', '1m']),
    starts_at: random.one([null, '2026-12-01T00:00:00Z']),
    ends_at: null,
    tags: random.one([[], ['a', 'b']]),
    subject: text(),
  }
}

describe('the form', () => {
  it('makes the body of the job that it was filled from', () => {
    const random = new Random(4)
    for (let at = 0; at < 500; at += 1) {
      const job = anyJob(random)
      const { body, errors } = makeBody(fromJob(job))
      expect(errors).toEqual({})
      expect(withoutDefaults(body)).toEqual(withoutDefaults(job))
      expect(stringifyJson(body.payload)).toBe(stringifyJson(job.payload))
    }
  })

  it('keeps integers exact', () => {
    const { body } = makeBody({ ...emptyForm(), payload: '{"id": 12345678901234567890}' })
    expect(stringifyJson(body.payload)).toBe('{"id":12345678901234567890}')
  })

  it('keeps fields of a target that it does not show', () => {
    const job = { target: { type: 'task', name: 'a', args: {}, timeout: '10m', isolate: true } }
    expect(makeBody(fromJob(job)).body.target).toMatchObject({ isolate: true })
  })

  it('sends secret headers apart, and stored ones only with a new value', () => {
    const form = fromJob({ target: { type: 'http', url: 'https://a', headers: { A: '1' } } }, ['header:Authorization', 'header:X-Key', 'signing'])
    const [, first, ...rest] = form.headers
    const { body, secretHeaders, errors } = makeBody({ ...form, headers: [...form.headers.slice(0, 1), { ...first!, value: 'new' }, ...rest] })
    expect([secretHeaders, errors, (body.target as JsonObject).headers]).toEqual([{ Authorization: 'new' }, {}, { A: '1' }])
  })

  it.each<[Partial<Form>, string]>([
    [{ payload: '{' }, '/payload'],
    [{ type: 'task', args: '[1]' }, '/target/args'],
    [{ bodyKind: 'json', body: '{,}' }, '/target/body'],
    [{ retry: 'custom', attempts: '0' }, '/retry/attempts'],
    [{ retry: 'custom', backoff: ' ' }, '/retry/backoff'],
    [{ retry: 'custom', spread: '2' }, '/retry/spread'],
    [{ headers: [{ name: 'A', value: '', isSecret: true, isStored: false }] }, '/headers/0'],
    [{ headers: ['a', 'A'].map((name) => ({ name, value: '1', isSecret: false, isStored: false })) }, '/headers/1'],
  ])('says what cannot be sent: %o', (patch, pointer) => {
    expect(Object.keys(makeBody({ ...emptyForm(), ...patch }).errors)).toEqual([pointer])
  })
})

/** As the server merges a patch (RFC 7396), and restores defaults. */
function mergePatch(before: Json, patch: Json): Json {
  if (!isObject(patch)) return patch
  const made: JsonObject = isObject(before) ? { ...before } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete made[key]
    else made[key] = mergePatch(made[key] ?? null, value)
  }
  return made
}

describe('a change', () => {
  it('turns one job into the other', () => {
    const random = new Random(5)
    const methods = new Set<string>()
    for (let at = 0; at < CASES; at += 1) {
      const [before, after] = [anyJob(random), anyJob(random)].map((job) => makeBody(fromJob(job)).body) as [JsonObject, JsonObject]
      const { method, body } = changeOf(before, after)
      methods.add(method)
      const result = (method === 'PUT' ? body : mergePatch(before, body)) as JsonObject
      expect(withoutDefaults(result), stringifyJson(body)).toEqual(withoutDefaults(after))
    }
    expect([...methods].sort()).toEqual(['PATCH', 'PUT'])
  })

  it('names only what changed', () => {
    const before = makeBody({ ...emptyForm(), name: 'a', url: 'https://a' }).body
    const after = makeBody({ ...emptyForm(), name: 'a', url: 'https://b', overlap: 'skip' }).body
    expect(changeOf(before, after)).toEqual({ method: 'PATCH', body: { target: { url: 'https://b' }, overlap: 'skip' } })
    expect(changedFields(before, after)).toEqual(['target.url', 'overlap'])
    expect(changeOf(before, before)).toEqual({ method: 'PATCH', body: {} })
  })

  it('replaces the job where a merge patch would remove a null of the payload', () => {
    const [before, after] = ['{"a": 1}', '{"a": null}'].map((payload) => makeBody({ ...emptyForm(), payload }).body) as [JsonObject, JsonObject]
    expect(changeOf(before, after).method).toBe('PUT')
  })

  it('keeps what I typed on top of what somebody else saved', () => {
    const base = { ...emptyForm(), name: 'a', overlap: 'allow' }
    expect(rebase(base, { ...base, overlap: 'skip' }, { ...base, name: 'b', overlap: 'queue_one', tags: ['x'] })).toEqual({ ...base, name: 'b', overlap: 'skip', tags: ['x'] })
  })

  it('compares JSON whatever the order of keys', () => {
    expect(same({ a: 1, b: [null] }, { b: [null], a: 1 })).toBe(true)
    expect(same({ a: null }, {})).toBe(false)
    expect(same([1], [1, null])).toBe(false)
  })
})

describe('the next times', () => {
  const at = (...hours: number[]) => hours.map((hour) => ({ at: `2026-11-19T${two(hour)}:00:00Z` })) as unknown as Parameters<typeof compareTimes>[0]
  const marks = (...lists: Parameters<typeof compareTimes>) => compareTimes(...lists).map(({ at, mark }) => `${at.slice(11, 13)} ${mark}`)

  it('marks new times and times that are left out', () => expect(marks(at(9, 12), at(9, 10))).toEqual(['09 same', '10 added', '12 removed']))
  it('claims nothing beyond the end of a full list', () => {
    expect(marks(at(1, 2), at(1, 3, 5), 2)).toEqual(['01 same', '02 removed', '03 later', '05 later'])
    expect(marks(at(1, 9), at(1, 2), 2)).toEqual(['01 same', '02 added'])
  })
})

/** The words of a POSIX shell command, with variables as they stand. */
function shellWords(text: string): string[] {
  const words: string[] = []
  let word: string | null = null
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at] ?? ''
    if (character === "'") {
      const end = text.indexOf("'", at + 1)
      word = (word ?? '') + text.slice(at + 1, end)
      at = end
    } else if (character === '"') {
      const end = text.indexOf('"', at + 1)
      word = (word ?? '') + text.slice(at + 1, end)
      at = end
    } else if (character === '\\') {
      at += 1
      if (text[at] !== '\n') word = (word ?? '') + text[at]
    } else if (/\s/.test(character)) {
      if (word !== null) words.push(word)
      word = null
    } else word = (word ?? '') + character
  }
  return word === null ? words : [...words, word]
}

describe('the job as code', () => {
  it.each(TEXTS)('quotes %j for the shell, TOML and Python', (text) => {
    expect(shellWords(shellQuote(text))).toEqual(text === '' ? [''] : [text])
    // Both use JSON's escapes for what they escape.
    expect(JSON.parse(tomlText(text))).toBe(text)
    expect(JSON.parse(pythonText(text))).toBe(text)
    expect(tomlText(text)).not.toMatch(/[\u0000-\u001f\u007f]/)
  })

  it('writes a curl command that sends the body', () => {
    const random = new Random(6)
    for (let at = 0; at < 300; at += 1) {
      const body = withoutDefaults(makeBody(fromJob(anyJob(random))).body)
      const words = shellWords(asCurl('https://h.example/x', body, []))
      expect(words.slice(0, 4)).toEqual(['curl', '-X', 'POST', 'https://h.example/x/api/v1/jobs'])
      expect(same(parseJson(words.at(-1) ?? '') as Json, body)).toBe(true)
    }
  })

  it('names the version in a change', () => {
    const words = shellWords(asCurl('https://h', {}, ['Authorization'], { name: 'a', version: 3, change: { method: 'PATCH', body: { overlap: 'skip' } } }))
    expect(words).toContain('If-Match: "3"')
    expect(JSON.parse(words.at(-1) ?? '')).toEqual({ overlap: 'skip', secret_headers: { Authorization: 'FILL IN' } })
  })

  it('writes TOML, with JSON for what TOML cannot hold', () => {
    const body: JsonObject = { name: 'a', schedule: '0 9 * * *', target: { type: 'http', url: 'https://a', headers: { 'X A': "it's" } }, payload: { since: null, id: 2n ** 70n }, starts_at: '2026-12-01T00:00:00Z', tags: ['x'] }
    expect(asToml(body, ['Authorization']).split('\n')).toEqual([
      '[[job]]',
      'name = "a"',
      'schedule = "0 9 * * *"',
      `target = { type = "http", url = "https://a", headers = { "X A" = "it's", Authorization = "env:AUTHORIZATION" } }`,
      'payload_json = "{\\"since\\":null,\\"id\\":1180591620717411303424}"',
      'starts_at = 2026-12-01T00:00:00Z',
      'tags = ["x"]',
    ])
  })

  it('writes Python: a client call, or a decorated function for a task', () => {
    const job: JsonObject = { name: 'a', schedule: '@daily', target: { type: 'http', url: 'https://a' }, payload: { on: true, none: null, id: 12345678901234567890n } }
    expect(asPython(job, ['X-Key'])).toBe(
      [
        'import os',
        '',
        'from hourbell.client import Client',
        '',
        'client = Client()',
        'client.jobs.create({',
        '    "name": "a",',
        '    "schedule": "@daily",',
        '    "target": {"type": "http", "url": "https://a"},',
        '    "payload": {"on": True, "none": None, "id": 12345678901234567890},',
        '    "secret_headers": {',
        '        "X-Key": os.environ["X_KEY"],',
        '    },',
        '})',
      ].join('\n'),
    )
    expect(asPython({ name: 'a', schedule: '@daily', target: { type: 'task', name: 'shop.class', args: { days: 30 } }, overlap: 'skip' }, [])).toContain('def my_task(run, days):')
    expect(asPython({ name: 'a', schedule: '@daily', target: { type: 'task', name: 'shop.report' } }, [])).toContain('@scheduler.job(\n    "@daily",\n    name="a",\n)\ndef report(run):')
  })
})

describe('the zone search', () => {
  const zones = ['UTC', 'America/New_York', 'America/Argentina/San_Juan', 'Europe/Berlin', 'Asia/Hebron']
  it.each([
    ['new york', ['America/New_York']],
    ['ber', ['Europe/Berlin']],
    ['america', ['America/New_York', 'America/Argentina/San_Juan']],
    ['juan', ['America/Argentina/San_Juan']],
    ['utc', ['UTC']],
    ['nowhere', []],
  ])('finds %s', (text, found) => expect(findZones(zones, text)).toEqual(found))
  it('lists all without a text', () => expect(findZones(zones, '')).toHaveLength(zones.length))
})
