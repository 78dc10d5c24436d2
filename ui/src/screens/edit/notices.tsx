/** Notices above the form and beside it: whose job this is, and what happens to its secrets. */
import type { ReactNode } from 'react'
import type { JobDetail } from '../../api/types'

export function CopyNote({ job }: { job: JobDetail }) {
  const secrets = (job.secrets ?? []).filter(({ valid_until }) => valid_until === null)
  return (
    <>
      A copy of {job.name}.{secrets.length > 0 && ` Secrets are not copied; set them again: ${secrets.map(({ field }) => (field === 'signing' ? 'the signing secret' : `the header ${field.slice(7)}`)).join(', ')}.`}
    </>
  )
}

export function Owned({ job, isTaken, onChange }: { job: JobDetail; isTaken: boolean; onChange: (isTaken: boolean) => void }) {
  const owner: Record<string, ReactNode> = {
    app: (
      <>
        The application <code>{job.source}</code> created this job while it ran. Change it there.
      </>
    ),
    code: (
      <>
        This job is defined by the program <code>{job.source}</code>. Change it there.
      </>
    ),
    file: (
      <>
        This job is defined by a jobs file{job.source && <> (<code>{job.source}</code>)</>}. Change it there.
      </>
    ),
    sql: 'This job is defined by plain SQL. Change it there.',
  }
  const after: Record<string, string> = {
    app: 'the application can no longer change or delete it',
    code: 'the program’s own definition is ignored at its next start, and reported as a conflict, until the job is deleted here',
    file: 'the next apply of the file is refused, unless it takes the job over again and changes it back',
    sql: 'a later statement can change it again',
  }
  return (
    <div className="edit-notice" data-tone="late">
      <p>
        {owner[job.managed_by] ?? 'This job is defined elsewhere.'} If you take it over, {after[job.managed_by] ?? 'its owner may change it back'}.
      </p>
      <label className="edit-check">
        <input type="checkbox" checked={isTaken} onChange={(event) => onChange(event.target.checked)} />
        Take the job over when I save
      </label>
    </div>
  )
}

/** Secret headers belong to the address they were set for. */
export function BoundSecrets({ isDropped, mayAdmin, onChange }: { isDropped: boolean; mayAdmin: boolean; onChange: (isDropped: boolean) => void }) {
  return (
    <div className="edit-notice" data-tone="late">
      <p>
        The secret headers of this job were stored for another origin and are not sent to this one. Type their new values into the headers, or remove them.
        {!mayAdmin && ' Both need the role admin.'}
      </p>
      {mayAdmin && (
        <label className="edit-check">
          <input type="checkbox" checked={isDropped} onChange={(event) => onChange(event.target.checked)} />
          Remove the secret headers when I save
        </label>
      )}
    </div>
  )
}
