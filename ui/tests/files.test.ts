/** Checks of the sources that no type can make. */
import { describe, expect, it } from 'vitest'
import colours from '../src/styles/colours.css?raw'
import lock from '../package-lock.json?raw'

const sources = import.meta.glob<string>('../src/**/*.{ts,tsx,css}', { query: '?raw', import: 'default', eager: true })

it('names no host in the lock file', () => {
  expect(lock).not.toMatch(/:\/\//)
  expect(lock).not.toContain('"resolved"')
})

describe.each(Object.entries(sources).filter(([path]) => !path.endsWith('schema.d.ts')))('%s', (path, text) => {
  it('sets no HTML from text', () => expect(text).not.toMatch(/dangerouslySetInnerHTML|innerHTML|insertAdjacentHTML|\beval\(/))
  it('links to no other host', () => expect(text.replaceAll('http://localhost', '')).not.toMatch(/(src|href|url)\(?[=(]["']https?:/))
  if (path.includes('/screens/') || path.includes('/components/')) it('links with <Link>, which knows the path prefix', () => expect(text).not.toMatch(/<a\s[^>]*href="\//))
})

describe('contrast', () => {
  const found = new Map([...colours.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map(([, name, light, dark]) => [name ?? '', [light ?? '', dark ?? '']]))
  const luminance = (hex: string) => {
    const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
      const part = parseInt(hex.slice(at, at + 2), 16) / 255
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
  }
  const contrast = (one: string, other: string) => {
    const [high = 0, low = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a)
    return (high + 0.05) / (low + 0.05)
  }
  const texts = ['text', 'text-2', 'accent', 'ok-text', 'late-text', 'bad-text']
  const grounds = ['page', 'card', 'raised', 'hover', 'sunken', 'accent-soft']
  const pairs = texts.flatMap((text) => grounds.map((ground) => [text, ground] as const))
  const buttons = [
    ['on-accent', 'accent'],
    ['on-accent', 'accent-hover'],
    ['on-bad', 'bad'],
    ['on-bad', 'bad-text'],
    ['late-text', 'late-soft'],
    ['bad-text', 'bad-soft'],
  ] as const
  it.each([...pairs, ...buttons])('%s on %s', (text, ground) => {
    for (const theme of [0, 1]) {
      const one = found.get(text)?.[theme] ?? ''
      const other = found.get(ground)?.[theme] ?? ''
      expect(contrast(one, other), `${one} on ${other}`).toBeGreaterThanOrEqual(4.5)
    }
  })
})
