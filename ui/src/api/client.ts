/**
 * The typed client. `call(api.GET('/api/v1/jobs', …))` returns the data or throws an `ApiError`.
 *
 * `getJson` and `sendJson` are for endpoints that docs/openapi.json does not have yet; prefer `api`.
 */
import createClient from 'openapi-fetch'
import { basePath } from '../lib/base'
import { observe } from '../lib/clock'
import { parseJson, stringifyJson } from '../lib/exactJson'
import { ApiError, problemError, unreachable } from './errors'
import type { paths } from './schema'

/** The address of the page without a slash at its end; the API is below it. */
export const BASE = window.location.origin + basePath()

let csrfToken: string | null = null

/** Set by the session; every change sends it. */
export function setCsrfToken(token: string | null | undefined): void {
  csrfToken = token ?? null
}

/** Fetch, observe the server's clock, and answer JSON with exact integers. */
async function send(request: Request): Promise<Response> {
  if (csrfToken && !['GET', 'HEAD'].includes(request.method)) request.headers.set('X-CSRF-Token', csrfToken)
  const sentAt = Date.now()
  let response: Response
  let text: string
  try {
    response = await fetch(request, { credentials: 'same-origin', cache: 'no-store' })
    text = await response.text()
  } catch (error) {
    if (request.signal.aborted) throw error
    throw unreachable()
  }
  const date = Date.parse(response.headers.get('Date') ?? '')
  observe(date, sentAt, Date.now(), 1000)
  const headers = new Headers(response.headers)
  headers.set('Content-Length', String(text.length))
  const copy = new Response([204, 205, 304].includes(response.status) ? null : text, { status: response.status, headers })
  Object.defineProperty(copy, 'json', { value: () => Promise.resolve(parseJson(text)) })
  return copy
}

export const api = createClient<paths>({ baseUrl: BASE, fetch: send, bodySerializer: (body) => stringifyJson(body) })

interface Answer<T> {
  data?: T
  error?: unknown
  response: Response
}

/** The data of an answer, or an `ApiError`. */
export async function call<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer
  if (!response.ok) throw problemError(response, error)
  return data as T
}

export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>

/** GET below /api/v1. Empty parameters are left out, arrays are repeated. */
export function getJson<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return request<T>('GET', path, query, undefined, signal)
}

export function sendJson<T>(method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown, query: Query = {}, headers: Record<string, string> = {}): Promise<T> {
  return request<T>(method, path, query, body, undefined, headers)
}

async function request<T>(method: string, path: string, query: Query, body?: unknown, signal?: AbortSignal, headers: Record<string, string> = {}): Promise<T> {
  const url = new URL(`${BASE}/api/v1${path}`)
  for (const [key, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const item of value as readonly string[]) url.searchParams.append(key, item)
    else if (value !== null && value !== undefined && value !== '' && value !== false) url.searchParams.set(key, String(value))
  }
  const init: RequestInit = { method, headers: body === undefined ? headers : { 'Content-Type': 'application/json', ...headers } }
  if (body !== undefined) init.body = typeof body === 'string' ? body : stringifyJson(body)
  if (signal) init.signal = signal
  const response = await send(new Request(url, init))
  const text = await response.text()
  let data: unknown = undefined
  try {
    data = text ? parseJson(text) : undefined
  } catch {
    data = text
  }
  if (!response.ok) throw problemError(response, data)
  return data as T
}

export { ApiError }
