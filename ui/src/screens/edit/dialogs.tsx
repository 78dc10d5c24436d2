/** What a save may answer with: a secret that is shown once, or another version of the job. */
import type { JobDetail } from '../../api/types'
import { Button } from '../../components/Button'
import { CodeBlock } from '../../components/CodeBlock'
import { Dialog } from '../../components/Dialog'
import { Time } from '../../components/Time'
import { showValue } from '../import/text'
import { changedFields, fromJob, makeBody, type JsonObject } from './form'

export function SecretDialog({ secret, onClose }: { secret: { value: string; until?: string | null }; onClose: () => void }) {
  return (
    <Dialog
      title="The signing secret"
      onClose={onClose}
      onSubmit={onClose}
      footer={
        <Button type="submit" look="primary">
          I have stored it
        </Button>
      }
    >
      <p>It is shown only now. Give it to the receiver, which verifies requests with it.</p>
      <CodeBlock code={secret.value} name="the signing secret" />
      {secret.until && (
        <p className="hb-muted">
          The old secret signs as well until <Time at={secret.until} offset />.
        </p>
      )}
    </Dialog>
  )
}

export function OutdatedDialog({ base, found, by, onClose, onReload }: { base: JobDetail; found: JobDetail; by: string | null; onClose: () => void; onReload: (keep: boolean) => void }) {
  const [old, now] = [base, found].map((job) => makeBody(fromJob(job as unknown as JsonObject)).body) as [JsonObject, JsonObject]
  const fields = changedFields(old, now)
  const read = (body: JsonObject, field: string) => {
    const [key = '', part] = field.split('.')
    return showValue(part === undefined ? body[key] : (body[key] as JsonObject | undefined)?.[part])
  }
  return (
    <Dialog
      title={`${by ?? 'Somebody'} changed this job in the meantime`}
      size="wide"
      onClose={onClose}
      onSubmit={() => onReload(true)}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button onClick={() => onReload(false)}>Discard my changes and reload</Button>
          <Button type="submit" look="primary" autoFocus>
            Reload and keep my changes
          </Button>
        </>
      }
    >
      <p>
        You began with version {base.version}; the job is at version {found.version} now. Nothing was saved.
      </p>
      {fields.length ? (
        <table className="hb-table edit-compare">
          <thead>
            <tr>
              <th>Field</th>
              <th>Version {base.version}</th>
              <th>Version {found.version}</th>
            </tr>
          </thead>
          <tbody>
            {fields.map((field) => (
              <tr key={field}>
                <td>{field}</td>
                <td>
                  <code>{read(old, field)}</code>
                </td>
                <td>
                  <code>{read(now, field)}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p className="hb-muted">The definition is the same: the job was paused, resumed, or changed and changed back.</p>
      )}
    </Dialog>
  )
}
