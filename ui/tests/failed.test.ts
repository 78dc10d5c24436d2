import { describe, expect, it } from 'vitest'
import { splitRate } from '../src/screens/failed/rates'

describe('a rate for several groups', () => {
  it.each([
    [60, [9], [60]],
    [60, [10, 20, 30], [10, 20, 30]],
    [100, [1, 999], [1, 99]],
    [1, [5, 5], [1, 1]],
  ])('%d a minute for %j', (rate, counts, rates) => expect(splitRate(rate, counts)).toEqual(rates))
})
