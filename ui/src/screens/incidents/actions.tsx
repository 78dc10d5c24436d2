/** What can be done about an incident: acknowledge, mute, resolve. */
import { useQueryClient, type QueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError } from '../../api/errors'
import { sendJson } from '../../api/client'
import { useMay } from '../../api/queries'
import type { Incident } from '../../api/types'
import { useZone } from '../../app/zone'
import { Button } from '../../components/Button'
import { useConfirm } from '../../components/ConfirmDialog'
import { Dialog } from '../../components/Dialog'
import { ErrorNotice, errorText } from '../../components/ErrorNotice'
import { Field } from '../../components/Field'
import { useToast } from '../../components/Toast'
import { serverNow } from '../../lib/clock'
import { formatTime, fromLocal, offsetMinutes } from '../../lib/time'
import { MUTE_SPANS, mutedUntil, titleOf } from './words'

async function refreshIncidents(client: QueryClient): Promise<void> {
  await Promise.all([client.invalidateQueries({ queryKey: ['incidents'] }), client.invalidateQueries({ queryKey: ['incident'] })])
}

export function useIncidentActions() {
  const client = useQueryClient()
  const toast = useToast()
  const confirm = useConfirm()
  const mayAct = useMay('operator')
  const [muting, setMuting] = useState<Incident | null>(null)
  const act = async (incident: Incident, action: 'acknowledge' | 'resolve', done: string) => {
    try {
      await sendJson('POST', `/incidents/${incident.id}/${action}`)
      toast({ text: done })
    } catch (error) {
      toast({ text: errorText(error), tone: 'bad' })
    }
    await refreshIncidents(client)
  }
  const acknowledge = (incident: Incident) => {
    if (mayAct && incident.state === 'open') void act(incident, 'acknowledge', `Acknowledged: ${titleOf(incident)}`)
  }
  const resolve = async (incident: Incident) => {
    if (!mayAct || incident.state === 'resolved') return
    const isSure = await confirm({
      title: 'Resolve 1 incident?',
      body: (
        <>
          <p>{titleOf(incident)}.</p>
          <p className="hb-muted">Nobody is notified. The next failure opens a new incident.</p>
        </>
      ),
      action: 'Resolve 1 incident',
    })
    if (isSure) await act(incident, 'resolve', `Resolved: ${titleOf(incident)}`)
  }
  const mute = (incident: Incident) => {
    if (mayAct && incident.state !== 'resolved') setMuting(incident)
  }
  const dialog = muting && <Mute incident={muting} onClose={() => setMuting(null)} />
  return { mayAct, acknowledge, mute, resolve: (incident: Incident) => void resolve(incident), dialog }
}

export type IncidentActions = ReturnType<typeof useIncidentActions>

/** The buttons of an incident; large on a small screen. */
export function ActionButtons({ incident, actions, size = 'small' }: { incident: Incident; actions: IncidentActions; size?: 'small' | 'normal' }) {
  if (incident.state === 'resolved' || !actions.mayAct) return null
  const title = titleOf(incident)
  return (
    <div className="incidents-actions">
      {incident.state === 'open' && (
        <Button size={size} look={size === 'normal' ? 'primary' : 'plain'} needs="operator" onClick={() => actions.acknowledge(incident)} aria-label={`Acknowledge: ${title}`}>
          Acknowledge
        </Button>
      )}
      <Button size={size} needs="operator" onClick={() => actions.mute(incident)} aria-label={`Mute: ${title}`}>
        Mute…
      </Button>
      <Button size={size} needs="operator" onClick={() => actions.resolve(incident)} aria-label={`Resolve: ${title}`}>
        Resolve…
      </Button>
    </div>
  )
}

function Mute({ incident, onClose }: { incident: Incident; onClose: () => void }) {
  const zone = useZone()
  const client = useQueryClient()
  const toast = useToast()
  const [local, setLocal] = useState('')
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const mute = async (until: string) => {
    setBusy(true)
    setError(undefined)
    try {
      await sendJson('POST', `/incidents/${incident.id}/mute`, { until })
      toast({ text: `Muted until ${formatTime(until, zone, { now: serverNow(), shortToday: true, offset: true })}` })
      onClose()
      await refreshIncidents(client)
    } catch (error) {
      setError(error)
      setBusy(false)
    }
  }
  const fieldError = error instanceof ApiError ? error.fieldError('/until') : undefined
  const soonest = new Date(serverNow() + offsetMinutes(serverNow(), zone) * 60_000).toISOString().slice(0, 16)
  const isPast = !!local && fromLocal(local, zone) <= serverNow()
  return (
    <Dialog
      title="Mute the incident"
      onClose={onClose}
      onSubmit={() => local && !isPast && void mute(new Date(fromLocal(local, zone)).toISOString())}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look={local ? 'primary' : 'plain'} isBusy={isBusy} disabled={!local || isPast}>
            Mute until then
          </Button>
        </>
      }
    >
      <p>{titleOf(incident)}. Nobody gets a message about it until the time you choose.</p>
      {error !== undefined && !fieldError && <ErrorNotice error={error} what="The incident was not muted" />}
      <div className="incidents-spans" role="group" aria-label="Mute for">
        {MUTE_SPANS.map(([label, span], index) => (
          <Button key={label} autoFocus={index === 0} disabled={isBusy} onClick={() => void mute(mutedUntil(span, serverNow()))} aria-label={`Mute for ${label}`}>
            {label}
          </Button>
        ))}
      </div>
      <Field label="Or until" hint={`Time zone ${zone}`} error={fieldError ?? (isPast ? 'This time is in the past; choose a later one.' : undefined)}>
        <input type="datetime-local" value={local} min={soonest} onChange={(event) => setLocal(event.target.value)} />
      </Field>
    </Dialog>
  )
}
