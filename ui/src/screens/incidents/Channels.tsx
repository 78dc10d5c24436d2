/** The tab of channels: where messages go, how the last one went, and a test. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import { ApiError } from '../../api/errors'
import { BASE, getJson, sendJson } from '../../api/client'
import type { Channel, List, Run, RunDetail } from '../../api/types'
import { Button } from '../../components/Button'
import { useConfirm } from '../../components/ConfirmDialog'
import { Empty } from '../../components/Empty'
import { ErrorNotice, errorText } from '../../components/ErrorNotice'
import { Loading } from '../../components/Loading'
import { Outcome } from '../../components/Outcome'
import { Table, type Column } from '../../components/Table'
import { RelativeTime } from '../../components/Time'
import { useToast } from '../../components/Toast'
import { errorLine } from '../../lib/errorLine'
import { runPath } from '../../lib/url'
import { ChannelDialog } from './ChannelDialog'
import { useChannels } from './queries'
import { deliveryOf } from './words'

const TEST_REFRESH_MS = 700
const SYSTEM_JOB = 'hourbell-channel-'

export function Channels() {
  const channels = useChannels()
  const client = useQueryClient()
  const confirm = useConfirm()
  const toast = useToast()
  /** The runs of the tests that this screen has sent, by channel. */
  const [tests, setTests] = useState<ReadonlyMap<string, string>>(new Map())
  const [sending, setSending] = useState<string | null>(null)
  const rows = channels.data?.items ?? []
  const test = async ({ name }: Channel) => {
    setSending(name)
    try {
      const { run_id } = await sendJson<{ run_id: string }>('POST', `/channels/${encodeURIComponent(name)}/test`)
      setTests((known) => new Map(known).set(name, run_id))
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
    setSending(null)
  }
  const remove = async ({ name }: Channel) => {
    const isSure = await confirm({ title: `Delete the channel ${name}?`, body: <p>Its secrets are deleted, and its waiting messages are cancelled. This cannot be undone.</p>, action: `Delete ${name}`, isDanger: true })
    if (!isSure) return
    try {
      await sendJson('DELETE', `/channels/${encodeURIComponent(name)}`)
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 409)) return toast({ text: errorText(error), tone: 'bad' })
      const isOwned = error.code === 'owned_by_another'
      const title = isOwned ? `Delete ${name} although a jobs file manages it?` : `Delete ${name} although it is in use?`
      if (!(await confirm({ title, body: <p>{errorText(error)}</p>, action: `Delete ${name}`, isDanger: true }))) return
      try {
        await sendJson('DELETE', `/channels/${encodeURIComponent(name)}`, undefined, isOwned ? { take_over: true } : { force: true })
      } catch (error) {
        return toast({ text: errorText(error), tone: 'bad' })
      }
    }
    toast({ text: `The channel ${name} is deleted` })
    await client.invalidateQueries({ queryKey: ['channels'] })
  }
  const columns: Column<Channel>[] = [
    {
      id: 'name',
      header: 'Channel',
      cell: ({ name, type }) => (
        <div className="incidents-pair">
          <strong>{name}</strong>
          <span className="hb-muted hb-small">{type}</span>
        </div>
      ),
    },
    { id: 'origin', header: 'Sends to', cell: ({ origin }) => origin ?? <span className="hb-muted">—</span> },
    { id: 'state', header: 'Last message', cell: ({ name }) => (tests.has(name) ? <Delivery runId={tests.get(name) ?? ''} isTest /> : <LastMessage name={name} />) },
    {
      id: 'changed',
      header: 'Changed',
      hide: 'medium',
      cell: (channel) => (
        <span className="hb-muted">
          <RelativeTime at={channel.updated_at} />
          {channel.updated_by && ` by ${channel.updated_by}`}
        </span>
      ),
    },
    {
      id: 'actions',
      header: 'Actions',
      isHeaderHidden: true,
      align: 'end',
      cell: (channel) => (
        <div className="incidents-actions">
          <Button size="small" needs="operator" isBusy={sending === channel.name} onClick={() => void test(channel)} aria-label={`Test ${channel.name}`}>
            Test
          </Button>
          <EditChannel channel={channel} />
          <Button size="small" needs="editor" onClick={() => void remove(channel)} aria-label={`Delete ${channel.name}`}>
            Delete…
          </Button>
        </div>
      ),
    },
  ]
  return (
    <>
      {channels.error && <ErrorNotice error={channels.error} what="The channels could not be loaded" onRetry={() => void channels.refetch()} />}
      {!channels.data && !channels.error && <Loading what="channels" />}
      {rows.length > 0 && (
        <div className="incidents-list">
          <Table label="Channels" rows={rows} rowKey={({ name }) => name} columns={columns} rowKeys={[{ keys: 't', label: 'Test the channel', run: (channel) => void test(channel) }]} />
        </div>
      )}
      {channels.data && !rows.length && (
        <Empty title="No channels yet" examples={EXAMPLES}>
          <p>A channel is where messages go. Without one, incidents are only listed here.</p>
        </Empty>
      )}
    </>
  )
}

const EXAMPLES = [
  { label: 'Command line', code: 'hourbell channel create ops --type webhook --url https://example.com/alerts\nhourbell channel test ops' },
  {
    label: 'curl',
    code: `curl -X PUT ${BASE}/api/v1/channels/ops \\
  -H 'Content-Type: application/json' \\
  -d '{"type": "webhook", "url": "https://example.com/alerts"}'
curl -X POST ${BASE}/api/v1/channels/ops/test`,
  },
]

/** How the channel's newest message went. */
function LastMessage({ name }: { name: string }) {
  const last = useQuery({ queryKey: ['channels', 'last', name], queryFn: ({ signal }) => getJson<List<Run>>('/runs', { job: SYSTEM_JOB + name, limit: 1 }, signal) })
  const run = last.data?.items[0]
  if (last.error) return <span className="hb-muted">unknown</span>
  if (!last.data) return null
  return run ? <Delivery runId={run.id} /> : <span className="hb-muted">none yet; send a test</span>
}

/** What became of a message, followed until it has ended. */
function Delivery({ runId, isTest = false }: { runId: string; isTest?: boolean }) {
  const found = useQuery({
    queryKey: ['channels', 'run', runId],
    queryFn: ({ signal }) => getJson<RunDetail>(`/runs/${runId}`, {}, signal),
    refetchInterval: (query) => (isTest && !query.state.data?.finished_at ? TEST_REFRESH_MS : false),
  })
  const run = found.data
  if (found.error) return <span className="hb-muted">{errorText(found.error)}</span>
  if (!run) return isTest ? <Outcome fate="waiting" text="sending the test" /> : null
  const error = run.attempts.findLast((attempt) => attempt.error)?.error ?? null
  const { fate, text } = deliveryOf({ state: run.state, attempt: run.attempt, error })
  return (
    <div className="incidents-delivery" role={isTest ? 'status' : undefined}>
      <Link href={runPath(runId)}>
        <Outcome fate={fate} text={isTest ? `test ${text}` : text} />
      </Link>
      <span className="hb-muted hb-small">
        <RelativeTime at={run.finished_at ?? run.scheduled_at} />
      </span>
      {error && run.state !== 'succeeded' && <span className="incidents-error">{errorLine(error)}</span>}
    </div>
  )
}

export function NewChannelButton() {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button look="primary" needs="editor" onClick={() => setOpen(true)}>
        New channel
      </Button>
      {isOpen && <ChannelDialog onClose={() => setOpen(false)} />}
    </>
  )
}

function EditChannel({ channel }: { channel: Channel }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button size="small" needs="editor" onClick={() => setOpen(true)} aria-label={`Edit ${channel.name}`}>
        Edit…
      </Button>
      {isOpen && <ChannelDialog channel={channel} onClose={() => setOpen(false)} />}
    </>
  )
}
