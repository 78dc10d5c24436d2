import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useLocation, useSearch } from 'wouter'
import { api, call, setCsrfToken } from '../../api/client'
import { ApiError } from '../../api/errors'
import { keys, useSession } from '../../api/queries'
import { Button, LinkButton } from '../../components/Button'
import { CodeBlock } from '../../components/CodeBlock'
import { errorText } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { safeNext } from '../../lib/url'
import './login.css'

const NOT_STORED =
  'The token is valid, but the browser did not store the session. It stores sessions only over HTTPS, or at localhost. Open this page over HTTPS.'

/** Exchange a token for a session, then go where the caller wanted to go. */
export default function Login() {
  const [token, setToken] = useState('')
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const [isShown, setShown] = useState(false)
  const session = useSession()
  const client = useQueryClient()
  const [, navigate] = useLocation()
  const next = safeNext(new URLSearchParams(useSearch()).get('next'))

  const logIn = async () => {
    setBusy(true)
    setError(undefined)
    try {
      const made = await call(api.POST('/api/v1/session', { body: { token: token.trim() } }))
      setCsrfToken(made.csrf_token)
      const found = await call(api.GET('/api/v1/session')).catch((error: unknown) => {
        throw error instanceof ApiError && error.status === 401 ? new Error(NOT_STORED) : error
      })
      client.removeQueries({ predicate: (query) => query.queryKey[0] !== keys.session[0] })
      client.setQueryData(keys.session, found)
      navigate(next, { replace: true })
    } catch (error) {
      const isRefused = error instanceof ApiError && error.status === 401
      setError(isRefused ? 'This token is not valid: check for typing errors; it may have expired or been revoked.' : errorText(error))
      setBusy(false)
    }
  }

  return (
    <div className="login-screen">
      <title>Log in · Hourbell</title>
      <form
        className="hb-card login-card"
        onSubmit={(event) => {
          event.preventDefault()
          void logIn()
        }}
      >
        <h1>Hourbell</h1>
        {session.data && (
          <div className="login-known">
            <p>
              {session.data.kind === 'open' ? 'This server has no tokens: every caller on its machine has all permissions.' : `You are logged in as ${session.data.name} (${session.data.role}).`}
            </p>
            <LinkButton href={next} look="primary">
              Continue
            </LinkButton>
          </div>
        )}
        {session.data?.kind !== 'open' && (
          <>
            <Field label="Token" error={error} hint="It begins with hb_. A session lasts at most 12 hours.">
              <input
                type={isShown ? 'text' : 'password'}
                name="token"
                value={token}
                onChange={(event) => setToken(event.target.value)}
                autoComplete="current-password"
                autoCapitalize="off"
                spellCheck={false}
                autoFocus
                required
              />
            </Field>
            <div className="hb-actions">
              <Button type="submit" look={session.data ? 'plain' : 'primary'} isBusy={isBusy} disabled={!token.trim()}>
                {isBusy ? 'Logging in…' : 'Log in'}
              </Button>
              <Button onClick={() => setShown(!isShown)} aria-pressed={isShown}>
                Show the token
              </Button>
            </div>
            <details>
              <summary>I have no token</summary>
              <p>Somebody with access to the server can create one with the role viewer, operator, editor or admin:</p>
              <CodeBlock code="hourbell token create me --role operator" label="On the server" />
            </details>
          </>
        )}
      </form>
    </div>
  )
}
