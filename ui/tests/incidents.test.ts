import { describe, expect, it } from 'vitest'
import type { Channel, Incident, IncidentDetail } from '../src/api/types'
import { channelBody, channelPatch, channelValues, isComplete, objectPatch, readObject } from '../src/screens/incidents/channelForm'
import { deliveryOf, hostOf, isMuted, lineOf, listed, mutedUntil, openFirst, ordinal, policyBody, policySentences, stateText, storyOf, titleOf, type Notification } from '../src/screens/incidents/words'

const NOW = Date.parse('2026-11-18T12:00:00Z')
const incident = (fields: Partial<Incident> = {}) => ({ id: '1', kind: 'failed', state: 'open', job_name: 'report', lane: null, count: 1, group_size: 1, opened_at: '2026-11-18T11:00:00Z', last_at: '2026-11-18T11:00:00Z', ...fields }) as Incident
const message = (fields: Partial<Notification>) => ({ run_id: 'r', channel: 'ops', event: 'incident.opened', step: 0, planned_at: '2026-11-18T11:00:10Z', ...fields }) as Notification

describe('the title of an incident', () => {
  it('counts failures', () => {
    expect(titleOf(incident())).toBe('report failed')
    expect(titleOf(incident({ count: 2 }))).toBe('report failed twice')
    expect(titleOf(incident({ count: 1204 }))).toBe('report failed 1,204 times')
  })
  it('counts the jobs of a host', () => expect(titleOf(incident({ group_size: 12, lane: 'https://billing.example:443' }))).toBe('12 jobs of billing.example fail'))
  it('names the lane that nobody serves', () => expect(titleOf(incident({ kind: 'unserved', lane: 'gpu', job_name: null }))).toBe('No node serves gpu'))
  it('does without a job', () => expect(titleOf(incident({ kind: 'late', job_name: null }))).toBe('A job has not begun in time'))
})

describe('the host of a lane', () => {
  it('leaves out usual ports only', () => {
    expect(hostOf('https://a.example:443')).toBe('a.example')
    expect(hostOf('http://a.example:8080')).toBe('a.example:8080')
    expect(hostOf('gpu')).toBe('gpu')
  })
})

describe('the state', () => {
  it('says who', () => {
    expect(stateText(incident({ state: 'acknowledged', acknowledged_by: 'ann' }))).toBe('acknowledged by ann')
    expect(stateText(incident({ state: 'resolved', resolved_by: null }))).toBe('over by itself')
  })
  it('is muted until a time, and never once resolved', () => {
    expect(isMuted(incident({ muted_until: '2026-11-18T12:00:01Z' }), NOW)).toBe(true)
    expect(isMuted(incident({ muted_until: '2026-11-18T12:00:00Z' }), NOW)).toBe(false)
    expect(isMuted(incident({ state: 'resolved', muted_until: '2026-11-19T12:00:00Z' }), NOW)).toBe(false)
  })
  it('puts what nobody takes care of first, then the newest', () => {
    const all = [incident({ id: 'a', state: 'acknowledged', opened_at: '2026-11-18T11:30:00Z' }), incident({ id: 'b', opened_at: '2026-11-18T09:00:00Z' }), incident({ id: 'c', opened_at: '2026-11-18T10:00:00Z' })]
    expect(openFirst(all).map(({ id }) => id)).toEqual(['c', 'b', 'a'])
  })
})

describe('a message', () => {
  it.each([
    ['succeeded', 'delivered'],
    ['failed', 'not delivered'],
    ['pending', 'waits'],
    [null, 'no longer stored'],
  ])('%s', (state, text) => expect(deliveryOf({ state, attempt: 0, error: null }).text).toBe(text))
  it('is tried again after an error', () => expect(deliveryOf({ state: 'retrying', attempt: 1, error: 'HTTP 500' }).fate).toBe('retrying'))
})

describe('the story', () => {
  it('tells in order who was notified, who acknowledged it and when it was over', () => {
    const detail = {
      ...incident({ state: 'resolved', count: 3, last_at: '2026-11-18T11:20:00Z', acknowledged_at: '2026-11-18T11:10:00Z', acknowledged_by: 'ann', resolved_at: '2026-11-18T11:40:00Z' }),
      notifications: [message({ run_id: '1' }), message({ run_id: '2', channel: 'pager' }), message({ run_id: '3', event: 'incident.resolved', step: 1, planned_at: '2026-11-18T11:40:00Z' })],
    } as IncidentDetail
    expect(storyOf(detail, NOW).map(({ text }) => text)).toEqual(['It began', 'Notified ops and pager', 'Acknowledged by ann', 'Happened for the 3rd time', 'Notified ops', 'Resolved automatically'])
  })
  it('ends with a mute that lasts', () => {
    const detail = { ...incident({ muted_until: '2026-11-18T13:00:00Z' }), notifications: [] } as unknown as IncidentDetail
    expect(storyOf(detail, NOW).at(-1)).toEqual({ at: '2026-11-18T13:00:00Z', text: 'Muted until then', isPlanned: true })
  })
  it('spells numbers and names', () => {
    expect([1, 2, 3, 4, 11, 12, 21, 111].map(ordinal)).toEqual(['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '111th'])
    expect([listed([]), listed(['a']), listed(['a', 'b', 'a']), listed(['a', 'b', 'c'])]).toEqual(['nobody', 'a', 'a and b', 'a, b and c'])
  })
})

describe('a policy in sentences', () => {
  it('says what the defaults do', () =>
    expect(policySentences({})).toEqual([
      'Alerts when a job fails twice in a row (once if it is rare or never began), misses scheduled times or has not begun in time, or when runs wait in a lane that no node serves.',
      'Notifies every channel.',
      'Sends a message when it is resolved.',
      'Failing jobs of one host share an incident.',
    ]))
  it('says what is set', () =>
    expect(
      policySentences({ on: ['failed', 'no_success'], after: 3, rate: '3 of 10', no_success_for: '26h', notify: ['ops'], repeat: '4h', escalate: [{ after: '30m', notify: ['pager', 'boss'] }], resolve: false, group: 'none', quiet_hours: { from: '22:00', until: '07:00', timezone: 'Europe/Berlin' } }),
    ).toEqual([
      'Alerts when a job fails 3 times in a row, or 3 of its last 10 runs fail or has no success for 1 d 2 h.',
      'Notifies ops; again every 4 h; after 30 min without acknowledgement also pager and boss.',
      'Sends nothing when it is resolved.',
      'Quiet from 22:00 to 07:00 (Europe/Berlin): messages wait.',
      'One incident for each job.',
    ]))
  it('may open nothing, or notify nobody', () => {
    expect(policySentences({ on: [] })).toEqual(['Opens no incidents.'])
    expect(policySentences({ on: ['late'], notify: [] })).toContain('Notifies nobody.')
  })
  it('is written without what is not set', () => expect(policyBody({ on: ['late'], after: null, notify: [], escalate: [], resolve: true })).toEqual({ on: ['late'], notify: [], resolve: true }))
})

describe('JSON', () => {
  const text = '{\n  "on": [\n    "failed"\n  ],\n  "escalate": [\n    {\n      "after": "1x"\n    }\n  ]\n}'
  it('finds the line of a pointer', () => {
    expect(lineOf(text, '/escalate/0/after')).toBe(7)
    expect(lineOf(text, '/on/0')).toBe(2)
    expect(lineOf(text, '/missing')).toBeNull()
    expect(lineOf(text, '')).toBeNull()
  })
  it('reads objects only', () => {
    expect(readObject('{"a": 1}')).toEqual({ body: { a: 1 } })
    expect(readObject('[]')).toHaveProperty('error')
    expect(readObject('{')).toHaveProperty('error')
  })
})

describe('a change of a channel', () => {
  const ntfy = { name: 'ops', type: 'ntfy', config: { url: 'https://ntfy.sh', priority: 4 }, origin: 'https://ntfy.sh' } as unknown as Channel
  const email = { ...ntfy, type: 'email', config: { to: ['a@b.example', 'c@d.example'] } } as unknown as Channel

  it('begins with what is stored, without secrets', () => {
    expect(channelValues(ntfy)).toEqual({ url: 'https://ntfy.sh', priority: '4' })
    expect(channelValues(email)).toEqual({ to: 'a@b.example, c@d.example' })
    expect(channelPatch(ntfy, channelValues(ntfy))).toEqual({})
    expect(channelPatch(email, channelValues(email))).toEqual({})
  })
  it('has only what differs', () => {
    expect(channelPatch(ntfy, { ...channelValues(ntfy), priority: '5' })).toEqual({ priority: 5 })
    expect(channelPatch(ntfy, { ...channelValues(ntfy), url: ' ' })).toEqual({ url: null })
    expect(channelPatch(ntfy, { ...channelValues(ntfy), topic: ' new ', token: '' })).toEqual({ topic: 'new' })
  })
  it('of another type is the difference of its JSON', () => {
    expect(objectPatch({ a: 1, b: [1], c: 'x' }, { a: 1, b: [2], d: true })).toEqual({ b: [2], c: null, d: true })
  })
})

describe('a channel', () => {
  it('leaves out what is empty', () => expect(channelBody('webhook', { url: ' https://a.example ', secret: '' })).toEqual({ type: 'webhook', url: 'https://a.example' }))
  it('sends numbers as numbers, and leaves it to the server to refuse others', () => {
    expect(channelBody('ntfy', { topic: 't', priority: '5' })).toEqual({ type: 'ntfy', topic: 't', priority: 5 })
    expect(channelBody('telegram', { token: 't', chat_id: '-100123', thread_id: 'x' })).toEqual({ type: 'telegram', token: 't', chat_id: '-100123', thread_id: 'x' })
  })
  it('needs what is not optional', () => {
    expect(isComplete('webhook', { secret: 'x' })).toBe(false)
    expect(isComplete('webhook', { url: 'https://a.example' })).toBe(true)
  })
})

it('mutes for a span', () => expect(mutedUntil(3_600_000, NOW)).toBe('2026-11-18T13:00:00.000Z'))
