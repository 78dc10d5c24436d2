/** Layout of the time line: properties that hold for random windows, zones and jobs. */
import { describe, expect, it } from 'vitest'
import type { TimelineBucket, TimelineRow, TimelineRun } from '../src/api/types'
import { formatClock, offsetMinutes } from '../src/lib/time'
import { pickAttention } from '../src/screens/home/attention'
import { bucketText, describeMark, pathOf, sentence } from '../src/screens/home/describe'
import { keyOf, layoutRow, left, markAt, middle, nextMark, pauseOf, type Mark } from '../src/screens/home/marks'
import { groupByTag, linesOf, rowFate, rowNote } from '../src/screens/home/rows'
import { DAY, HOUR, limitSpan, MAX_SPAN, MIN_SPAN, MINUTE, pan, spanOf, toTime, toX, viewOf, viewPatch, withMargin, zoomAt, type Span } from '../src/screens/home/scale'
import { clockChanges, labelSize, offsetParts, placeLabels, placeTicks, ticks, tickStep } from '../src/screens/home/ticks'

const NOW = Date.parse('2026-11-18T12:00:00Z')
const ZONES = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe', 'Africa/Cairo', 'America/St_Johns', 'Pacific/Auckland']
const iso = (at: number) => new Date(at).toISOString()

/** A small generator, so that a failure can be repeated. */
function seeded(seed: number) {
  let state = seed
  const next = () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296
    return state / 4_294_967_296
  }
  return { next, between: (low: number, high: number) => low + next() * (high - low), pick: <T>(items: readonly T[]) => items[Math.floor(next() * items.length)] as T }
}

const seeds = Array.from({ length: 60 }, (_, index) => index + 1)

function randomSpan(random: ReturnType<typeof seeded>): Span {
  const length = Math.exp(random.between(Math.log(MIN_SPAN), Math.log(MAX_SPAN)))
  const from = NOW + random.between(-200 * DAY, 200 * DAY)
  return { from: Math.round(from), until: Math.round(from + length) }
}

function job(more: Partial<TimelineRow['job']> = {}): TimelineRow['job'] {
  return { id: 'j', name: 'job', schedule: '0 3 * * *', words: 'At 03:00', timezone: 'UTC', state: 'active', tags: [], next_at: null, paused: null, last_state: 'succeeded', attention: null, attention_note: null, streak: 0, retry: null, median_duration_ms: 60_000, ...more }
}

function run(at: number, more: Partial<TimelineRun> = {}): TimelineRun {
  return { id: `r${at}`, kind: 'scheduled', state: 'succeeded', reason: null, scheduled_at: iso(at), started_at: iso(at + 10), finished_at: iso(at + 60_010), attempt: 1, lateness_ms: 10, duration_ms: 60_000, is_late: false, error: null, ...more }
}

function row(more: Partial<TimelineRow> = {}): TimelineRow {
  return { job: job(), runs: [], skips: [], planned: [], buckets: null, is_sampled: false, ...more }
}

function randomRow(random: ReturnType<typeof seeded>, span: Span): TimelineRow {
  const at = () => Math.round(random.between(span.from - DAY, span.until + DAY))
  const runs = Array.from({ length: Math.floor(random.between(0, 60)) }, () => {
    const due = at()
    const began = due + random.between(0, HOUR)
    const state = random.pick(['succeeded', 'failed', 'cancelled', 'running', 'retrying', 'pending'] as const)
    const isEnded = ['succeeded', 'failed', 'cancelled'].includes(state)
    return run(due, { state, is_late: random.next() < 0.3, kind: random.pick(['scheduled', 'manual', 'backfill', 'replay'] as const), started_at: state === 'pending' ? null : iso(began), finished_at: isEnded ? iso(began + random.between(0, DAY)) : null })
  })
  const planned = Array.from({ length: 20 }, () => iso(at()))
  const skips = Array.from({ length: 5 }, () => {
    const first = at()
    return { first_at: iso(first), last_at: iso(first + random.between(0, HOUR)), count: 3, reason: 'overlap' as const }
  })
  return row({ runs, planned, skips })
}

describe('the window', () => {
  it.each(seeds)('maps times to pixels and back (%d)', (seed) => {
    const random = seeded(seed)
    const span = randomSpan(random)
    const width = random.between(200, 2000)
    const x = random.between(-100, width + 100)
    expect(toX(toTime(x, span, width), span, width)).toBeCloseTo(x, 4)
    expect(toX(span.from, span, width)).toBe(0)
    expect(toX(span.until, span, width)).toBe(width)
  })

  it.each(seeds)('zooms around the pointer and keeps its limits (%d)', (seed) => {
    const random = seeded(seed)
    const span = randomSpan(random)
    const anchor = random.between(span.from, span.until)
    const zoomed = zoomAt(span, Math.exp(random.between(-3, 3)), anchor, NOW)
    const length = zoomed.until - zoomed.from
    expect(length).toBeGreaterThanOrEqual(MIN_SPAN - 2)
    expect(length).toBeLessThanOrEqual(MAX_SPAN + 2)
    expect(Math.abs(toX(anchor, zoomed, 1000) - toX(anchor, span, 1000))).toBeLessThan(0.01 + 2000 / length)
  })

  it('zooms in and out to where it was', () => {
    const span = { from: NOW - DAY, until: NOW + DAY }
    expect(zoomAt(zoomAt(span, 0.5, NOW, NOW), 2, NOW, NOW)).toEqual(span)
    expect(pan(pan(span, 0.25, NOW), -0.25, NOW)).toEqual(span)
  })

  it('does not go years away', () => {
    let span: Span = { from: NOW - DAY, until: NOW + DAY }
    for (let step = 0; step < 2000; step++) span = pan(span, 1, NOW)
    expect(span.from).toBeLessThan(NOW + 401 * DAY)
    expect(span.until - span.from).toBe(2 * DAY)
    expect(limitSpan({ from: NOW, until: NOW + 1 }, NOW).until - NOW).toBeGreaterThan(1)
  })

  it('asks for less than the 62 days of the API', () => {
    for (const span of [spanOf({ zoom: '30d', span: null }, NOW), limitSpan({ from: 0, until: 4 * NOW }, NOW)]) {
      const { from, until } = withMargin(span)
      expect(until - from).toBeLessThanOrEqual(62 * DAY)
      expect(from).toBeLessThanOrEqual(span.from)
      expect(until).toBeGreaterThanOrEqual(span.until)
    }
  })

  it('is in the address', () => {
    const read = (text: string) => viewOf(new URLSearchParams(text), NOW)
    expect(read('')).toEqual({ zoom: '24h', span: null })
    expect(read('zoom=7d')).toEqual({ zoom: '7d', span: null })
    expect(read('zoom=x&from=y')).toEqual({ zoom: '24h', span: null })
    expect(read('from=2026-11-18T10:00:00Z&until=2026-11-18T09:00:00Z').span).toBeNull()
    const view = { zoom: null, span: { from: NOW - HOUR, until: NOW + DAY } } as const
    const patch = viewPatch(view)
    expect(viewOf(new URLSearchParams({ from: patch.from ?? '', until: patch.until ?? '' }), NOW)).toEqual(view)
  })
})

describe('the axis', () => {
  it.each(seeds)('labels round times of the wall clock, in order (%d)', (seed) => {
    const random = seeded(seed)
    const span = randomSpan(random)
    const zone = random.pick(ZONES)
    const most = Math.floor(random.between(2, 20))
    const step = tickStep(span.until - span.from, most)
    const found = ticks(span, zone, most)
    expect(found.length).toBeLessThanOrEqual(most + 3)
    found.forEach(({ at, isDay, label }, index) => {
      expect(at).toBeGreaterThanOrEqual(span.from)
      expect(at).toBeLessThan(span.until)
      expect((at + offsetMinutes(at, zone) * MINUTE) % step).toBe(0)
      expect(isDay).toBe(formatClock(at, zone) === '00:00')
      expect(label).not.toBe('')
      if (index) expect(at - (found[index - 1]?.at ?? at)).toBeGreaterThanOrEqual(step * 0.6)
    })
  })

  it.each(seeds)('places labels inside, apart from each other and from what is taken (%d)', (seed) => {
    const random = seeded(seed)
    const width = random.between(200, 1600)
    const items = Array.from({ length: 40 }, (_, item) => ({ item, x: random.between(-50, width + 50), size: random.between(10, 90) }))
    const taken = [{ x: random.between(0, width), size: 44 }]
    const shown = placeLabels(items, width, 6, taken).map(({ item }) => items[item] as (typeof items)[number])
    for (const [index, one] of shown.entries()) {
      expect(one.x - one.size / 2).toBeGreaterThanOrEqual(0)
      expect(one.x + one.size / 2).toBeLessThanOrEqual(width)
      for (const other of [...shown.slice(index + 1), ...taken]) expect(Math.abs(one.x - other.x)).toBeGreaterThanOrEqual((one.size + other.size) / 2 + 6 - 1e-9)
    }
  })

  it.each(ZONES)('covers the window with parts of one offset each (%s)', (zone) => {
    const span = { from: Date.parse('2026-01-01T00:00:00Z'), until: Date.parse('2027-01-01T00:00:00Z') }
    const parts = offsetParts(span, zone)
    expect(parts[0]?.from).toBe(span.from)
    expect(parts.at(-1)?.until).toBe(span.until)
    for (const part of parts) expect(offsetMinutes(part.until - MINUTE, zone)).toBe(part.offset)
  })

  it('shows both hours of the night that is longer, and skips the one that does not exist', () => {
    const night = (day: string) => ({ from: Date.parse(`${day}T22:00:00Z`), until: Date.parse(`${day}T22:00:00Z`) + 7 * HOUR })
    const labels = (day: string) => ticks(night(day), 'Europe/Berlin', 10).map(({ label }) => label)
    expect(labels('2026-10-24')).toEqual(['Sun 25 Oct', '01:00', '02:00', '02:00', '03:00', '04:00', '05:00'])
    expect(labels('2026-03-28').slice(1)).toEqual(['Sun 29 Mar', '01:00', '03:00', '04:00', '05:00', '06:00'])
    expect(clockChanges(night('2026-10-24'), 'Europe/Berlin')).toEqual([{ at: Date.parse('2026-10-25T01:00:00Z'), minutes: -60, label: 'clocks back 1 h' }])
    expect(clockChanges({ from: Date.parse('2026-10-01T00:00:00Z'), until: Date.parse('2026-10-10T00:00:00Z') }, 'Australia/Lord_Howe')[0]?.label).toBe('clocks forward 30 min')
  })

  it('prefers days, and leaves room for now', () => {
    const span = { from: NOW - DAY, until: NOW + DAY }
    const placed = placeTicks(ticks(span, 'UTC', 40), span, 500, [{ x: 250, size: 44 }])
    expect(placed.filter(({ item }) => item.isDay)).toHaveLength(2)
    for (const { item, x } of placed) expect(Math.abs(x - 250)).toBeGreaterThan(22 + labelSize(item.label) / 2)
    const night = { from: Date.parse('2026-11-18T00:00:00Z') - DAY + HOUR, until: Date.parse('2026-11-18T00:00:00Z') + DAY - HOUR }
    const labels = placeTicks(ticks(night, 'UTC', 12), night, 900, [{ x: 450, size: 44 }]).map(({ item }) => item.label)
    expect(labels).toContain('Wed 04:00')
    expect(labels).not.toContain('Wed 18 Nov')
  })
})

describe('marks', () => {
  it.each(seeds)('are on the screen, in order, and found where they are (%d)', (seed) => {
    const random = seeded(seed)
    const span = randomSpan(random)
    const found = randomRow(random, span)
    const marks = layoutRow(found, 60, span, 1000, NOW)
    for (const [index, mark] of marks.entries()) {
      expect(mark.end).toBeGreaterThan(mark.x)
      expect(mark.end).toBeGreaterThanOrEqual(-1)
      expect(left(mark)).toBeLessThanOrEqual(1001)
      if (index) expect(middle(mark)).toBeGreaterThanOrEqual(middle(marks[index - 1] as Mark))
      const hit = markAt(marks, middle(mark))
      expect(hit).not.toBeNull()
      if (hit) expect(hit.end - left(hit)).toBeLessThanOrEqual(mark.end - left(mark) + 1e-6)
    }
  })

  it.each(seeds)('can each be reached by arrow keys (%d)', (seed) => {
    const random = seeded(seed)
    const span = randomSpan(random)
    const marks = layoutRow(randomRow(random, span), 60, span, 1000, NOW)
    const seen = new Set<string>()
    let current = nextMark(marks, null, 1, -1e9)
    for (let step = 0; current && step < marks.length; step++) {
      seen.add(keyOf(current))
      current = nextMark(marks, keyOf(current), 1, 0)
    }
    expect(seen.size).toBe(new Set(marks.map(keyOf)).size)
  })

  const span = { from: NOW - HOUR, until: NOW + HOUR }
  const x = (at: number) => toX(at, span, 1200)
  const one = (more: Partial<TimelineRow>) => layoutRow(row(more), 60, span, 1200, NOW)[0]

  it('draws a run from its start to its end, with a lead-in if it began late', () => {
    const at = NOW - 30 * MINUTE
    expect(one({ runs: [run(at)] })).toMatchObject({ fate: 'succeeded', lead: null, x: x(at + 10), end: x(at + 60_010) })
    const late = run(at, { started_at: iso(at + 10 * MINUTE), finished_at: iso(at + 20 * MINUTE), is_late: true })
    expect(one({ runs: [late] })).toMatchObject({ fate: 'late', lead: x(at), x: x(at + 10 * MINUTE), end: x(at + 20 * MINUTE) })
    expect(one({ runs: [{ ...late, kind: 'replay', is_late: false }] })).toMatchObject({ lead: null })
    expect(one({ runs: [run(at, { attempt: 3 })] })).toMatchObject({ isRetried: true })
  })

  it('draws what is unfinished up to now', () => {
    const at = NOW - 30 * MINUTE
    expect(one({ runs: [run(at, { state: 'running', finished_at: null })] })).toMatchObject({ fate: 'running', end: x(NOW) })
    expect(one({ runs: [run(at, { state: 'pending', started_at: null, finished_at: null })] })).toMatchObject({ fate: 'waiting', x: x(at), end: x(NOW) })
  })

  it('draws planned times as wide as the usual duration', () => {
    const at = NOW + 10 * MINUTE
    expect(one({ planned: [iso(at)], job: job({ median_duration_ms: 5 * MINUTE }) })).toMatchObject({ kind: 'plan', x: x(at), end: x(at + 5 * MINUTE) })
  })

  const bucket = (at: number, more: Partial<TimelineBucket>): TimelineBucket => ({ at: iso(at), succeeded: 0, failed: 0, late: 0, cancelled: 0, unfinished: 0, skipped: 0, planned: 0, ...more })

  it('draws counts instead of marks above the density limit', () => {
    const marks = layoutRow(row({ buckets: [bucket(NOW - HOUR, { succeeded: 9, failed: 1 }), bucket(NOW - HOUR + MINUTE, { succeeded: 5 })], skips: [{ first_at: iso(NOW), last_at: iso(NOW), count: 1, reason: 'overlap' }] }), 60, span, 1200, NOW)
    expect(marks.map((mark) => mark.kind === 'bucket' && [mark.total, mark.share])).toEqual([[10, 1], [5, 0.5]])
    expect(bucketText(bucket(NOW, { succeeded: 1204, failed: 1 }))).toBe('1 failed, 1,204 succeeded')
  })

  it('hatches a pause as far as it is known', () => {
    const paused = (more: object) => pauseOf(row({ job: job({ state: 'paused', paused: { note: null, by: null, since: null, until: null, ...more } }) }), span, 1200, NOW)
    expect(paused({})).toMatchObject({ x: 600, end: 1200 })
    expect(paused({ since: iso(NOW - 2 * HOUR), until: iso(NOW + HOUR / 2) })).toMatchObject({ x: 0, end: 900 })
    expect(paused({ until: iso(NOW - 2 * HOUR) })).toBeNull()
    expect(pauseOf(row(), span, 1200, NOW)).toBeNull()
  })

  it('says what happened, when, how late and why', () => {
    const at = NOW - 30 * MINUTE
    const found = row({ runs: [run(at, { state: 'failed', attempt: 4, lateness_ms: 38_000, error: 'HTTP 503', reason: 'exhausted' })], skips: [{ first_at: iso(at), last_at: iso(at + MINUTE), count: 7, reason: 'overlap' }], planned: [iso(NOW + MINUTE)] })
    const marks = layoutRow(found, 60, span, 1200, NOW)
    const failed = marks.find((mark) => mark.kind === 'run') as Mark
    expect(describeMark(failed, found, 'Europe/Berlin', NOW)).toMatchObject({ fate: 'failed', title: 'failed after 4 attempts' })
    const retry = { run_id: `r${at}`, attempt: 1, next_at: iso(NOW + MINUTE), error: 'HTTP 503' }
    const again = row({ runs: [run(at, { state: 'retrying', attempt: 1, finished_at: null, error: 'HTTP 503' })], job: job({ attention: 'retrying', retry }) })
    const described = describeMark(layoutRow(again, 60, span, 1200, NOW)[0] as Mark, again, 'UTC', NOW)
    expect(described.title).toBe('attempt 1 failed, another one follows')
    expect(described.facts).toContainEqual(['Next attempt', 'Wed 18 Nov 12:01 +00:00'])
    expect(sentence(failed, found, 'Europe/Berlin', NOW)).toBe('job: failed after 4 attempts. Scheduled Wed 18 Nov 12:30 +01:00. Began 12:30:00.010. Late by 38 s. Took 1 min. Why HTTP 503; no attempts left. Europe/Berlin. Enter: open the run.')
    expect(pathOf(failed, found)).toBe(`/runs/r${at}`)
    const skipped = marks.find((mark) => mark.kind === 'skip') as Mark
    expect(describeMark(skipped, found, 'UTC', NOW).title).toBe('skipped 7 times')
    expect(pathOf(skipped, found)).toBe(`/jobs/job/explain?at=${encodeURIComponent(iso(at))}`)
    expect(pathOf(marks.find((mark) => mark.kind === 'plan') as Mark, found)).toMatch(/explain/)
  })
})

describe('rows', () => {
  const of = (name: string, tags: string[], more: Partial<TimelineRow['job']> = {}) => row({ job: job({ id: name, name, tags, ...more }) })

  it('are grouped by their first tag, those without one last', () => {
    const rows = [of('a', ['z', 'b']), of('b', []), of('c', ['a']), of('d', ['b'])]
    expect(groupByTag(rows).map((group) => [group.tag, group.rows.map((found) => found.job.name)])).toEqual([['a', ['c']], ['b', ['a', 'd']], [null, ['b']]])
    expect(linesOf(rows, false)).toHaveLength(4)
    expect(linesOf(rows, true)).toHaveLength(7)
  })

  it('say what needs attention, else the schedule', () => {
    expect(rowNote(of('a', []), 'UTC', NOW)).toBe('At 03:00')
    expect(rowNote(of('a', [], { words: null }), 'UTC', NOW)).toBe('0 3 * * *')
    expect(rowNote(of('a', [], { attention: 'paused', state: 'paused', paused: { note: 'migration', by: 'ops', since: null, until: iso(NOW + HOUR) } }), 'UTC', NOW)).toBe('paused by ops until 13:00 · migration')
    expect(rowNote(of('a', [], { attention: 'late', attention_note: 'a run has waited 12 min, since 2026-11-18T11:48:00Z' }), 'UTC', NOW)).toBe('a run has waited 12 min')
    expect(rowFate(of('a', [], { attention: 'losing' }))).toBe('skipped')
    const retry = { run_id: 'r', attempt: 1, next_at: iso(NOW + 38_000), error: 'HTTP 503\nbody' }
    expect(rowFate(of('a', [], { attention: 'retrying', retry }))).toBe('retrying')
    expect(rowNote(of('a', [], { attention: 'retrying', retry }), 'UTC', NOW)).toBe('attempt 1 failed, attempt 2 at 12:00:38 · HTTP 503')
    expect(rowNote(of('a', [], { attention: 'retrying', retry: { ...retry, attempt: 2, next_at: null, error: null } }), 'UTC', NOW)).toBe('attempt 2 failed, attempt 3 is running')
    expect(rowNote(of('a', [], { attention: 'retrying', retry: { ...retry, next_at: iso(NOW - 1), error: null } }), 'UTC', NOW)).toBe('attempt 1 failed, attempt 2 is due')
  })

  it('that need attention are shown with one of each kind', () => {
    const rows = [...Array.from({ length: 6 }, (_, index) => of(`f${index}`, [], { attention: 'failing' })), of('l', [], { attention: 'losing' }), of('p', [], { attention: 'paused' }), of('x', [])]
    expect(pickAttention(rows, 4).map((found) => found.job.name)).toEqual(['f0', 'f1', 'l', 'p'])
    expect(pickAttention(rows, 2).map((found) => found.job.name)).toEqual(['f0', 'l'])
    expect(pickAttention(rows, 50)).toHaveLength(8)
    expect(pickAttention([], 4)).toEqual([])
    const lost = (name: string, count: number) => ({ ...of(name, [], { attention: 'losing' }), skips: [{ first_at: iso(NOW), last_at: iso(NOW), count, reason: 'overlap' as const }] })
    expect(pickAttention([lost('a', 1), lost('b', 74), lost('c', 3), of('p', [], { attention: 'paused' })], 3).map((found) => found.job.name)).toEqual(['b', 'c', 'p'])
  })
})
