/** Rates of a replay of several groups at once. */

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}

/** Share a rate out by the size of the groups, so that together they keep it and end together; each gets at least 1. */
export function splitRate(perMinute: number, counts: readonly number[]): number[] {
  const total = sum(counts)
  return counts.map((count) => Math.max(1, Math.floor((perMinute * count) / total)))
}
