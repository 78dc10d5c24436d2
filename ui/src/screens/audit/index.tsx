import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import { getJson } from '../../api/client'
import { useMay, useSession } from '../../api/queries'
import type { AuditEntry, List } from '../../api/types'
import { useUrlState } from '../../app/urlState'
import { Button } from '../../components/Button'
import { Chip } from '../../components/Chip'
import { Empty } from '../../components/Empty'
import { ErrorNotice } from '../../components/ErrorNotice'
import { Loading } from '../../components/Loading'
import { Pager } from '../../components/Pager'
import { Screen } from '../../components/Screen'
import { Time } from '../../components/Time'
import { stringifyJson } from '../../lib/exactJson'
import { jobPath, runPath } from '../../lib/url'
import { actionText, diff, type FieldDiff } from './diff'
import './audit.css'

const PAGE = 50

export default function Audit() {
  const [query, set] = useUrlState()
  const isAdmin = useMay('admin')
  const session = useSession().data
  const subject = query.get('subject')
  const cursor = query.get('cursor')
  const asked = { subject, cursor, limit: PAGE }
  const audit = useQuery({
    queryKey: ['audit', asked],
    queryFn: ({ signal }) => getJson<List<AuditEntry>>('/audit', asked, signal),
    placeholderData: keepPreviousData,
    enabled: isAdmin,
  })
  const rows = audit.data?.items ?? []
  return (
    <Screen title="Audit" lead="Every change, newest first: who made it, when, from where, and what changed." beside={subject && <Chip onRemove={() => set({ subject: null, cursor: null })}>{`only ${subject}`}</Chip>}>
      {session && !isAdmin && <ErrorNotice error={new Error(`You are ${session.name} (${session.role}). Only admins see the audit.`)} what="The audit is for admins" />}
      {audit.error && <ErrorNotice error={audit.error} what="The audit could not be loaded" onRetry={() => void audit.refetch()} />}
      {isAdmin && !audit.data && !audit.error && <Loading what="the audit" />}
      {rows.length > 0 && (
        <>
          <ol className="audit-list hb-card">
            {rows.map((entry) => (
              <Entry key={entry.id} entry={entry} isAlone={!!subject} onOnly={() => set({ subject: entry.subject, cursor: null }, { push: true })} />
            ))}
          </ol>
          <Pager shown={`${rows.length} changes`} hasPrevious={!!cursor} nextCursor={audit.data?.next_cursor} onFirst={() => set({ cursor: null }, { push: true })} onNext={(next) => set({ cursor: next }, { push: true })} note="hourbell audit verify checks that none is missing" />
        </>
      )}
      {audit.data && !rows.length && (
        <Empty title={subject ? 'No changes recorded for this' : 'No changes yet'}>
          <p>Every change of a job, token or secret is recorded here, and every run that somebody starts, also from the command line and SQL.</p>
        </Empty>
      )}
    </Screen>
  )
}

function Entry({ entry, isAlone, onOnly }: { entry: AuditEntry; isAlone: boolean; onOnly: () => void }) {
  const [isOpen, setOpen] = useState(false)
  const details = `audit-${entry.id}`
  return (
    <li className="audit-entry">
      <div className="audit-line">
        <button type="button" className="audit-toggle" aria-expanded={isOpen} aria-controls={details} onClick={() => setOpen(!isOpen)}>
          <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
          <span className="hb-hidden">Show what changed</span>
        </button>
        <Time at={entry.at} seconds />
        <span className="audit-what">
          <strong>{entry.actor}</strong> {actionText(entry.action)} <Subject entry={entry} />
        </span>
        <span className="audit-where hb-muted hb-small">{entry.ip ?? ''}</span>
      </div>
      {isOpen && (
        <div id={details} className="audit-details">
          <Details entry={entry} />
          <div className="hb-actions">
            {!isAlone && (
              <Button size="small" onClick={onOnly}>
                All changes to this
              </Button>
            )}
            <span className="hb-muted hb-small">
              entry {entry.id}
              {entry.request_id && ` · request ${entry.request_id}`}
              {entry.chain_position !== null && entry.chain_position !== undefined && ` · position ${entry.chain_position} in the chain`}
            </span>
          </div>
        </div>
      )}
    </li>
  )
}

/** The name of what was changed, as a link where a screen shows it. */
function Subject({ entry }: { entry: AuditEntry }) {
  const kind = entry.action.split('.')[0]
  const value = (entry.after ?? entry.before) as { name?: unknown } | null | undefined
  const name = value && typeof value === 'object' && typeof value.name === 'string' ? value.name : entry.subject
  if (kind === 'job' || kind === 'secret') return <Link href={jobPath({ name: name.includes('/') ? entry.subject : name, id: entry.subject })}>{name}</Link>
  if (kind === 'run') return <Link href={runPath(entry.subject)}>{entry.subject.slice(-12)}</Link>
  return <span>{name}</span>
}

function Details({ entry }: { entry: AuditEntry }) {
  const isCut = !!entry.omitted?.length
  const whole = useQuery({ queryKey: ['audit', 'entry', entry.id], queryFn: ({ signal }) => getJson<AuditEntry>(`/audit/${entry.id}`, {}, signal), enabled: isCut, staleTime: Infinity })
  if (isCut && whole.error) return <ErrorNotice error={whole.error} what="The entry could not be loaded" onRetry={() => void whole.refetch()} />
  if (isCut && !whole.data) return <Loading what="the entry" />
  const { before, after } = whole.data ?? entry
  const changes = diff(before ?? undefined, after ?? undefined)
  if (!changes.length) return <p className="hb-muted">The record itself did not change.</p>
  return (
    <table className="audit-diff">
      <thead>
        <tr>
          <th scope="col">Field</th>
          <th scope="col">Before</th>
          <th scope="col">After</th>
        </tr>
      </thead>
      <tbody>
        {changes.map((change) => (
          <tr key={change.field}>
            <th scope="row">{change.field || 'the whole value'}</th>
            <Value change={change} side="before" />
            <Value change={change} side="after" />
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Value({ change, side }: { change: FieldDiff; side: 'before' | 'after' }) {
  const value = change[side]
  return <td data-side={side}>{value === undefined ? <span className="hb-muted">—</span> : <code>{typeof value === 'string' ? value || '""' : stringifyJson(value)}</code>}</td>
}
