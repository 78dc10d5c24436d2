import type { Problem } from './types'

/** A refusal by the server, as it describes it (RFC 9457), or the failure to reach it (status 0). */
export class ApiError extends Error {
  override readonly name = 'ApiError'

  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly errors: Problem['errors'] = [],
    readonly requestId: string | null = null,
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(detail || title)
  }

  /** What is wrong with one field of the body, by its JSON pointer ("/schedule"). */
  fieldError(pointer: string): string | undefined {
    const found = (this.errors ?? []).filter((error) => error.pointer === pointer || error.pointer.startsWith(`${pointer}/`))
    return found.length ? found.map((error) => [error.message, error.hint].filter(Boolean).join('; ')).join(' ') : undefined
  }
}

export function unreachable(): ApiError {
  return new ApiError(0, 'unreachable', 'The server does not answer', 'Check that Hourbell is running and reachable from this machine; the page keeps trying.')
}

export function problemError(response: Response, body: unknown): ApiError {
  const problem = (typeof body === 'object' && body !== null ? body : {}) as Partial<Problem>
  const wait = Number(response.headers.get('Retry-After') ?? NaN)
  return new ApiError(
    response.status,
    problem.code ?? `http_${response.status}`,
    problem.title ?? `HTTP ${response.status}`,
    problem.detail ?? (typeof body === 'string' && body.length < 300 ? body : `The server answered HTTP ${response.status}.`),
    problem.errors ?? [],
    problem.request_id ?? null,
    Number.isFinite(wait) ? wait : null,
  )
}

/** Errors that the next try may not have. */
export function isPassing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 502)
}

/** The caller has no session, or it has ended. */
export function isLoginNeeded(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401
}
