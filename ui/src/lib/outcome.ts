/** What became of a scheduled time, as one word; colour, shape and text all follow from it. */
export type Fate =
  | 'succeeded'
  | 'late'
  | 'failed'
  | 'cancelled'
  | 'skipped'
  | 'running'
  | 'retrying'
  | 'waiting'
  | 'planned'
  | 'paused'

export type Tone = 'ok' | 'late' | 'bad' | 'muted' | 'accent'

export const TONES: Record<Fate, Tone> = {
  succeeded: 'ok',
  late: 'late',
  failed: 'bad',
  cancelled: 'muted',
  skipped: 'muted',
  running: 'accent',
  retrying: 'late',
  waiting: 'muted',
  planned: 'accent',
  paused: 'muted',
}

export const FATE_WORDS: Record<Fate, string> = {
  succeeded: 'succeeded',
  late: 'succeeded late',
  failed: 'failed',
  cancelled: 'cancelled',
  skipped: 'skipped',
  running: 'running',
  retrying: 'retrying',
  waiting: 'waiting',
  planned: 'planned',
  paused: 'paused',
}

export const SKIP_WORDS: Record<string, string> = {
  missed: 'missed while no node was running; the catch-up policy did not run all missed times',
  overlap: 'the previous run was unfinished (overlap)',
  paused: 'the job was paused',
  edited: 'the schedule was changed',
  window: 'older than the catch-up window',
  tzdata: 'the rules of the time zone changed',
}

export const REASON_WORDS: Record<string, string> = {
  permanent: 'permanent error, not retried',
  exhausted: 'no attempts left',
  expired: 'it waited longer than max_age',
  poison: 'its nodes crashed while running it',
  lost: 'its node crashed, and at-most-once delivery does not retry',
}

export function fateOf(state: string, isLate = false): Fate {
  if (state === 'pending') return 'waiting'
  if (state === 'succeeded' && isLate) return 'late'
  return state in TONES ? (state as Fate) : 'waiting'
}

/** "20 times: 17 succeeded, 2 failed, 1 skipped" */
export function summarizeFates(fates: readonly Fate[]): string {
  if (!fates.length) return 'no times yet'
  const counts = new Map<Fate, number>()
  for (const fate of fates) counts.set(fate, (counts.get(fate) ?? 0) + 1)
  const parts = (Object.keys(FATE_WORDS) as Fate[]).filter((fate) => counts.has(fate)).map((fate) => `${counts.get(fate)} ${FATE_WORDS[fate]}`)
  return `${count(fates.length, 'time')}: ${parts.join(', ')}`
}

/** "1 job", "1,204 jobs" */
export function count(number: number, noun: string, plural = `${noun}s`): string {
  return `${formatNumber(number)} ${number === 1 ? noun : plural}`
}

export function formatNumber(number: number): string {
  return number.toLocaleString('en-GB')
}

/** "100 %", "99.9 %": never rounded up to 100 nor down to 0. */
export function formatPercent(percent: number): string {
  if (percent === 0 || percent === 100) return `${percent} %`
  return `${Math.min(99.9, Math.max(0.1, Math.round(percent * 10) / 10))} %`
}
