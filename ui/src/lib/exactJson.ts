/**
 * JSON that keeps integers exact. `JSON.parse` rounds integers above 2^53; here they become `bigint`, and
 * `stringifyJson` writes them back as they were.
 */
export function parseJson(text: string): unknown {
  return /\d{16}/.test(text) ? new Parser(text).document() : (JSON.parse(text) as unknown)
}

export function stringifyJson(value: unknown, indent = 0): string {
  return write(value, indent, '') ?? 'null'
}

function write(value: unknown, indent: number, pad: string): string | undefined {
  if (typeof value === 'bigint') return value.toString()
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (value instanceof Date) return JSON.stringify(value)
  const inner = indent ? pad + ' '.repeat(indent) : ''
  const parts = Array.isArray(value)
    ? value.map((item) => write(item, indent, inner) ?? 'null')
    : Object.entries(value).flatMap(([key, item]) => {
        const written = write(item, indent, inner)
        return written === undefined ? [] : [`${JSON.stringify(key)}:${indent ? ' ' : ''}${written}`]
      })
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  if (!parts.length) return `${open}${close}`
  return indent ? `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${pad}${close}` : `${open}${parts.join(',')}${close}`
}

const SPACE = /[ \t\n\r]*/y
const STRING = /"(?:[^"\\]|\\.)*"/y
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const WORD = /true|false|null/y

class Parser {
  private at = 0

  constructor(private readonly text: string) {}

  document(): unknown {
    const value = this.value()
    this.match(SPACE)
    if (this.at !== this.text.length) this.fail()
    return value
  }

  private value(): unknown {
    this.match(SPACE)
    if (this.take('{')) return this.object()
    if (this.take('[')) return this.array()
    const string = this.match(STRING)
    if (string) return JSON.parse(string) as string
    const number = this.match(NUMBER)
    if (number) return toNumber(number)
    const word = this.match(WORD)
    return word ? (JSON.parse(word) as unknown) : this.fail()
  }

  private object(): Record<string, unknown> {
    const found: [string, unknown][] = []
    if (this.take('}')) return {}
    do {
      this.match(SPACE)
      const key = this.match(STRING) ?? this.fail()
      if (!this.take(':')) this.fail()
      found.push([JSON.parse(key) as string, this.value()])
    } while (this.take(','))
    if (!this.take('}')) this.fail()
    return Object.fromEntries(found)
  }

  private array(): unknown[] {
    const found: unknown[] = []
    if (this.take(']')) return found
    do found.push(this.value())
    while (this.take(','))
    if (!this.take(']')) this.fail()
    return found
  }

  private take(character: string): boolean {
    this.match(SPACE)
    if (this.text[this.at] !== character) return false
    this.at += 1
    return true
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)?.[0]
    if (found !== undefined) this.at += found.length
    return found
  }

  private fail(): never {
    throw new SyntaxError(`invalid JSON at character ${this.at + 1}`)
  }
}

function toNumber(text: string): number | bigint {
  const number = Number(text)
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(number) ? BigInt(text) : number
}
