/** State in the query of the address: everything a screen shows can be linked to. */
export type Patch = Record<string, string | number | boolean | readonly string[] | null | undefined>

/** Change some parameters. null, undefined, "", false and [] remove one; an array repeats it. */
export function patchSearch(search: string, patch: Patch): string {
  const found = new URLSearchParams(search)
  for (const [key, value] of Object.entries(patch)) {
    found.delete(key)
    if (Array.isArray(value)) for (const item of value as readonly string[]) found.append(key, item)
    else if (value !== null && value !== undefined && value !== '' && value !== false) found.set(key, String(value))
  }
  return found.toString()
}

/** The value if it is one of these, else the first. */
export function oneOf<T extends string>(value: string | null, allowed: readonly [T, ...T[]]): T {
  return allowed.includes(value as T) ? (value as T) : allowed[0]
}

export function withSearch(path: string, patch: Patch): string {
  const search = patchSearch('', patch)
  return search ? `${path}?${search}` : path
}

/** Path of a job. A name that is also a screen's is replaced by the id. */
export function jobPath(job: { name: string; id?: string } | string): string {
  const { name, id } = typeof job === 'string' ? { name: job, id: undefined } : job
  return `/jobs/${encodeURIComponent(name === 'new' && id ? id : name)}`
}

export function runPath(id: string): string {
  return `/runs/${encodeURIComponent(id)}`
}

export function explainPath(job: string, at?: string | null): string {
  return withSearch(`${jobPath(job)}/explain`, { at })
}

/** Only a path of this page may follow a login: "//host", "/\host" and addresses would leave it. */
export function safeNext(next: string | null): string {
  return next && /^\/(?![/\\])/.test(next) && !next.startsWith('/login') ? next : '/'
}
