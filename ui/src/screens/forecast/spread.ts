/** What spreading does to a minute in which many runs begin. */

/** The largest number of runs in one of the slots that is to be expected when each of `runs` falls into one of them at random. */
export function expectedPeak(runs: number, slots: number): number {
  if (runs <= 0) return 0
  if (slots <= 1) return runs
  const chance = 1 / slots
  // P(X = k) of a binomial distribution, from k = 0 on; in logarithms, as it begins with very small numbers.
  let log = runs * Math.log1p(-chance)
  let sum = 0
  for (let k = 0; k < runs; k++) {
    sum += Math.exp(log)
    // In about half of all cases some slot has more than this.
    if (slots * (1 - sum) < 0.5) return k
    log += Math.log((runs - k) / (k + 1)) + Math.log(chance / (1 - chance))
  }
  return runs
}

const NAMED = new Set(['@hourly', '@daily', '@midnight', '@weekly', '@monthly', '@yearly', '@annually'])

/** Whether the schedule names one minute of the hour, which an `H` in its place would spread. */
export function hasFixedMinute(schedule: string): boolean {
  const text = schedule.trim()
  if (NAMED.has(text)) return true
  const fields = text.split(/\s+/)
  return fields.length === 5 && /^\d{1,2}$/.test(fields[0] ?? '')
}

/** The same schedule with `H` in place of the minute. */
export function withHashedMinute(schedule: string): string | null {
  const text = schedule.trim()
  const named: Record<string, string> = { '@hourly': 'H * * * *', '@daily': 'H 0 * * *', '@midnight': 'H 0 * * *', '@weekly': 'H 0 * * 0', '@monthly': 'H 0 1 * *', '@yearly': 'H 0 1 1 *', '@annually': 'H 0 1 1 *' }
  if (named[text]) return named[text]
  return hasFixedMinute(text) ? text.replace(/^\d{1,2}/, 'H') : null
}
