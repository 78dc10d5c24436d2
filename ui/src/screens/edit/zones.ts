/** The zones to choose from. */
import { browserZone } from '../../lib/time'

/** UTC, then every zone that the browser knows. */
export function allZones(): string[] {
  const known = typeof Intl.supportedValuesOf === 'function' ? Intl.supportedValuesOf('timeZone') : [browserZone()]
  return ['UTC', ...known.filter((zone) => zone !== 'UTC')]
}

/** Zones whose name has each of the typed words; those with a part that begins with the text come first. */
export function findZones(zones: readonly string[], text: string): string[] {
  const words = text.toLowerCase().replaceAll('_', ' ').split(/\s+/).filter(Boolean)
  const plain = (zone: string) => zone.toLowerCase().replaceAll('_', ' ')
  const found = zones.filter((zone) => words.every((word) => plain(zone).includes(word)))
  const [first = ''] = words
  const isStart = (zone: string) => plain(zone).split('/').some((part) => part.startsWith(first))
  return [...found.filter(isStart), ...found.filter((zone) => !isStart(zone))]
}
