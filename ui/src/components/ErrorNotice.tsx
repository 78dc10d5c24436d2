import { ApiError } from '../api/errors'
import { Button } from './Button'

/** An error in words: what failed, why, what to do. Keeps what was loaded before beside it. */
export function ErrorNotice({ error, what, onRetry, retryLabel = 'Try again' }: { error: unknown; what?: string; onRetry?: () => void; retryLabel?: string }) {
  const problem = error instanceof ApiError ? error : null
  const detail = error instanceof Error ? error.message : String(error)
  return (
    <div className="hb-error" role="alert">
      <strong>{what ?? problem?.title ?? 'Something went wrong'}</strong>
      <p>{detail}</p>
      {!!problem?.errors?.length && (
        <ul>
          {problem.errors.map((one, index) => (
            <li key={index}>
              {one.pointer && <code>{one.pointer}</code>} {one.message}
              {one.hint && <span className="hb-muted"> {one.hint}</span>}
            </li>
          ))}
        </ul>
      )}
      {problem?.requestId && <p className="hb-muted">Request {problem.requestId}</p>}
      {onRetry && (
        <Button size="small" onClick={onRetry}>
          {retryLabel}
        </Button>
      )}
    </div>
  )
}

/** The text of an error, for a toast. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
