/** A webhook of a run as a curl command. */
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

export interface HttpTarget {
  url: string
  method?: string
  headers?: Record<string, unknown>
  body?: unknown
}

/** Secrets are not known here: their values are marks to fill in. Without a body of its own, the envelope's payload is sent. */
export function asCurl(target: HttpTarget, payload: unknown, write: (value: unknown) => string): string {
  const method = target.method ?? 'POST'
  const lines = [`curl -X ${method} ${quote(target.url)}`]
  for (const [name, value] of Object.entries(target.headers ?? {})) lines.push(`-H ${quote(`${name}: ${typeof value === 'string' ? value : 'SECRET'}`)}`)
  if (!['GET', 'HEAD'].includes(method)) {
    const body = target.body ?? { payload }
    const hasType = Object.keys(target.headers ?? {}).some((name) => name.toLowerCase() === 'content-type')
    if (!hasType) lines.push(`-H ${quote('Content-Type: application/json')}`)
    lines.push(`--data ${quote(typeof body === 'string' ? body : write(body))}`)
  }
  return lines.join(' \\\n  ')
}
