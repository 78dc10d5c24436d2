import { describe, expect, it } from 'vitest'
import { sinceOf } from '../src/screens/runs/filter'

describe('since', () => {
  const now = Date.parse('2026-11-18T12:00:00Z')

  it('counts a span back from now', () => expect(sinceOf('24h', now)).toBe('2026-11-17T12:00:00.000Z'))
  it('passes a time on', () => expect(sinceOf('2026-11-01T00:00:00Z', now)).toBe('2026-11-01T00:00:00Z'))
})
