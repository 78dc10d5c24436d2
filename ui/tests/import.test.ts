import { describe, expect, it } from 'vitest'
import { countPlan, describePlan, guessFormat, nameAt, showValue } from '../src/screens/import/text'

describe('the import', () => {
  it.each([
    ['0 3 * * * /usr/bin/backup', 'crontab'],
    ['# [[job]]\nMAILTO=ops\n@daily x', 'crontab'],
    ['', 'crontab'],
    ['source = "x"\n\n[[job]]\nname = "a"', 'jobs-file'],
    ['[[job]]\nname = "a"', 'jobs-file'],
    ['# jobs\nsource: billing\njob:\n  - name: a', 'jobs-file'],
    ['job:\n  - name: a', 'jobs-file'],
    ['{"job": []}', 'jobs-file'],
  ])('reads %j as a %s', (text, format) => expect(guessFormat(text)).toBe(format))

  it('shows values as text, long ones cut between characters', () => {
    expect([showValue(null), showValue(''), showValue('a'), showValue({ id: 2n ** 64n })]).toEqual(['—', '""', 'a', '{"id":18446744073709551616}'])
    expect(showValue('🙂🙂🙂', 2)).toBe('🙂🙂…')
  })

  it('names the job of an error', () => {
    expect([nameAt('/jobs/1', ['a', 'b']), nameAt('/jobs/0/target/url', ['a']), nameAt('/jobs/9', ['a']), nameAt('/source', ['a'])]).toEqual(['b', 'a, target.url', '/jobs/9', '/source'])
    expect([nameAt('/channels/ops', []), nameAt('/alert_policies/x/on/1', [])]).toEqual(['channel ops', 'alert policy x, on.1'])
  })

  it('counts what a plan does', () => {
    const counts = countPlan({ jobs: [{ action: 'create' }, { action: 'none' }, { action: 'change' }, { action: 'change' }], deleted: [{}], channels: [], alert_policies: [] })
    expect(counts).toEqual({ create: 1, change: 2, none: 1, delete: 1, hasEntries: false })
    expect(describePlan(counts)).toBe('create 1 job, change 2 jobs, delete 1 job')
    expect(describePlan({ create: 0, change: 0, none: 3, delete: 0 })).toBe('')
    const more = countPlan({ jobs: [{ action: 'create' }], deleted: [{}], channels: [{ action: 'create' }, { action: 'none' }], alert_policies: [{ action: 'delete' }] })
    expect(more).toEqual({ create: 2, change: 0, none: 1, delete: 2, hasEntries: true })
    expect(describePlan(more)).toBe('create 2 entries, delete 2 entries')
  })
})
