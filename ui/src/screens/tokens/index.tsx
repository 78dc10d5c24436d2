import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError } from '../../api/errors'
import { getJson, sendJson } from '../../api/client'
import { useMay, useSession } from '../../api/queries'
import type { List, Token } from '../../api/types'
import { Button } from '../../components/Button'
import { CodeBlock } from '../../components/CodeBlock'
import { useConfirm } from '../../components/ConfirmDialog'
import { Dialog } from '../../components/Dialog'
import { Empty } from '../../components/Empty'
import { ErrorNotice, errorText } from '../../components/ErrorNotice'
import { Field, Select } from '../../components/Field'
import { Loading } from '../../components/Loading'
import { Outcome } from '../../components/Outcome'
import { Screen } from '../../components/Screen'
import { Table, type Column } from '../../components/Table'
import { RelativeTime, Time } from '../../components/Time'
import { useToast } from '../../components/Toast'
import { useUrlState } from '../../app/urlState'
import { useNow } from '../../app/now'
import { count } from '../../lib/outcome'
import { toMs } from '../../lib/time'

const ROLES = [
  ['viewer', 'viewer: read'],
  ['operator', 'operator: also run, pause, replay'],
  ['editor', 'editor: also define webhook jobs'],
  ['admin', 'admin: everything, also tokens'],
] as const
const SPANS = [
  ['90d', '90 days'],
  ['30d', '30 days'],
  ['365d', 'a year'],
  ['never', 'never'],
] as const

type State = 'active' | 'revoked' | 'expired'

function stateOf(token: Token, now: number): State {
  if (token.revoked_at) return 'revoked'
  return token.expires_at && toMs(token.expires_at) <= now ? 'expired' : 'active'
}

export default function Tokens() {
  const [query, set] = useUrlState()
  const [isNew, setNew] = useState(false)
  const confirm = useConfirm()
  const toast = useToast()
  const client = useQueryClient()
  const session = useSession().data
  const isAdmin = useMay('admin')
  const now = useNow(60)
  const showsAll = query.get('all') === '1'
  const tokens = useQuery({ queryKey: ['tokens'], queryFn: ({ signal }) => getJson<List<Token>>('/tokens', {}, signal), enabled: isAdmin })
  const all = tokens.data?.items ?? []
  const rows = showsAll ? all : all.filter((token) => stateOf(token, now) === 'active')

  const revoke = async (token: Token) => {
    const isLast = all.filter((other) => stateOf(other, now) === 'active').length === 1
    const isSure = await confirm({
      title: `Revoke the token ${token.name}?`,
      body: (
        <p>
          Requests with it are refused at once, and its sessions end. This cannot be undone.
          {isLast && ' It is the last active token: nobody can log in until somebody with access to the server creates another one.'}
        </p>
      ),
      action: `Revoke ${token.name}`,
      isDanger: true,
    })
    if (!isSure) return
    try {
      await sendJson('DELETE', `/tokens/${token.id}`)
      toast({ text: `The token ${token.name} is revoked` })
      await client.invalidateQueries({ queryKey: ['tokens'] })
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
  }

  const columns: Column<Token>[] = [
    { id: 'name', header: 'Name', cell: (token) => <strong>{token.name}</strong> },
    { id: 'role', header: 'Role', cell: (token) => token.role },
    {
      id: 'state',
      header: 'State',
      cell: (token) => {
        const state = stateOf(token, now)
        return <Outcome fate={state === 'active' ? 'succeeded' : 'cancelled'} text={state} />
      },
    },
    { id: 'used', header: 'Last used', cell: (token) => (token.last_used_at ? <RelativeTime at={token.last_used_at} /> : <span className="hb-muted">never</span>) },
    { id: 'expires', header: 'Expires', hide: 'narrow', cell: (token) => (token.expires_at ? <Time at={token.expires_at} /> : <span className="hb-muted">never</span>) },
    { id: 'created', header: 'Created', hide: 'medium', cell: (token) => <Time at={token.created_at} /> },
    {
      id: 'actions',
      header: 'Actions',
      isHeaderHidden: true,
      align: 'end',
      cell: (token) =>
        stateOf(token, now) === 'active' ? (
          <Button size="small" onClick={() => void revoke(token)} aria-label={`Revoke ${token.name}`}>
            Revoke
          </Button>
        ) : null,
    },
  ]
  return (
    <Screen
      title="Tokens"
      beside={tokens.data && <span className="hb-muted">{count(rows.length, 'token')}</span>}
      lead="A token authenticates a program or a person to the API and to this page. Its role says what it may do."
      actions={
        <>
          {all.length > 0 && (
            <Button aria-pressed={showsAll} onClick={() => set({ all: showsAll ? null : '1' })}>
              Show revoked and expired
            </Button>
          )}
          <Button look="primary" needs="admin" onClick={() => setNew(true)}>
            New token
          </Button>
        </>
      }
    >
      {session && !isAdmin && <ErrorNotice error={new Error(`You are ${session.name} (${session.role}). Only admins see tokens.`)} what="Tokens are for admins" />}
      {tokens.error && <ErrorNotice error={tokens.error} what="The tokens could not be loaded" onRetry={() => void tokens.refetch()} />}
      {isAdmin && !tokens.data && !tokens.error && <Loading what="tokens" />}
      {rows.length > 0 && <Table label="Tokens" rows={rows} rowKey={(token) => token.id} columns={columns} />}
      {tokens.data && !rows.length && (
        <Empty title={all.length ? 'No token is active' : 'No tokens yet'} examples={[{ label: 'On the server', code: 'hourbell token create admin --role admin' }]}>
          <p>{session?.kind === 'open' ? 'Without tokens, this server answers only callers on its own machine, who have all permissions. After the first token every caller needs one: create an admin token first.' : 'Create one here or on the server.'}</p>
        </Empty>
      )}
      {isNew && <NewToken isFirst={session?.kind === 'open'} onClose={() => setNew(false)} />}
    </Screen>
  )
}

/** Ask for name, role and span; then show the token once. */
function NewToken({ isFirst, onClose }: { isFirst: boolean; onClose: () => void }) {
  const [name, setName] = useState('')
  const [role, setRole] = useState<(typeof ROLES)[number][0]>(isFirst ? 'admin' : 'viewer')
  const [span, setSpan] = useState<(typeof SPANS)[number][0]>('90d')
  const [error, setError] = useState<unknown>()
  const [made, setMade] = useState<Token & { token: string }>()
  const [isBusy, setBusy] = useState(false)
  const client = useQueryClient()
  const create = async () => {
    setBusy(true)
    setError(undefined)
    try {
      setMade(await sendJson<Token & { token: string }>('POST', '/tokens', { name: name.trim(), role, expires_in: span === 'never' ? null : span }))
      if (!isFirst) await client.invalidateQueries({ queryKey: ['tokens'] })
    } catch (error) {
      setError(error)
    }
    setBusy(false)
  }
  const close = () => {
    onClose()
    // After the first token the server asks for one.
    if (made && isFirst) void client.invalidateQueries()
  }
  if (made) {
    return (
      <Dialog
        title={`The token ${made.name}`}
        onClose={close}
        footer={
          <Button look="primary" onClick={close}>
            I have stored it
          </Button>
        }
      >
        <p>Copy it now: it is not stored and is shown only once.</p>
        <CodeBlock code={made.token} label="Token" />
        {isFirst && <p>From now on every caller needs a token, and so does this page.</p>}
      </Dialog>
    )
  }
  const field = (pointer: string) => (error instanceof ApiError ? error.fieldError(pointer) : undefined)
  const isElsewhere = error !== undefined && !field('/name') && !field('/role') && !field('/expires_in')
  return (
    <Dialog
      title="New token"
      onClose={onClose}
      onSubmit={() => void create()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" isBusy={isBusy} disabled={!name.trim()}>
            Create the token
          </Button>
        </>
      }
    >
      {isElsewhere && <ErrorNotice error={error} what="The token was not created" />}
      <Field label="Name" hint="Who or what uses it." error={field('/name')}>
        <input value={name} onChange={(event) => setName(event.target.value)} autoFocus required maxLength={100} autoComplete="off" spellCheck={false} />
      </Field>
      <Field label="Role" error={field('/role')}>
        <Select value={role} options={ROLES} onChange={setRole} />
      </Field>
      <Field label="Expires after" error={field('/expires_in')}>
        <Select value={span} options={SPANS} onChange={setSpan} />
      </Field>
      {isFirst && role !== 'admin' && <p>After the first token every caller needs one. Only an admin can create more tokens here.</p>}
    </Dialog>
  )
}
