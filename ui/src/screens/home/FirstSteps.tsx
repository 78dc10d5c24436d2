import { BASE } from '../../api/client'
import { LinkButton } from '../../components/Button'
import { Empty } from '../../components/Empty'
import { CreateDemo } from './actions'

/** What a new installation shows: how a first job is made. */
export function FirstSteps() {
  const examples = [
    {
      label: 'curl',
      code: `curl -X PUT ${BASE}/api/v1/jobs/hello \\
  -H 'Content-Type: application/json' \\
  -d '{"schedule": "*/5 * * * *", "timezone": "Europe/Berlin",
       "target": {"type": "http", "url": "https://example.com/hook"}}'`,
    },
    {
      label: 'Python',
      code: `from hourbell import Scheduler

scheduler = Scheduler()

@scheduler.job("*/5 * * * *", name="hello", timezone="Europe/Berlin")
def hello(run):
    print("scheduled for", run.scheduled_at)

# hourbell serve --app jobs:scheduler`,
    },
    {
      label: 'jobs.toml',
      code: `# hourbell apply -f jobs.toml
[[job]]
name = "hello"
schedule = "*/5 * * * *"
timezone = "Europe/Berlin"
target = { type = "http", url = "https://example.com/hook" }`,
    },
  ]
  return (
    <Empty title="No jobs yet" examples={examples}>
      <p>
        A job has a schedule and a target. This screen then shows every scheduled time of every job: what ran, what was skipped and why, and what is planned.
      </p>
      <div className="hb-actions">
        <LinkButton href="/jobs/new" look="primary" needs="editor">
          New job
        </LinkButton>
        <LinkButton href="/import" needs="editor">
          Import a crontab
        </LinkButton>
        <CreateDemo />
      </div>
      <p className="hb-muted hb-small">The demo is three harmless jobs that end after an hour: one succeeds, one fails, one skips scheduled times.</p>
    </Empty>
  )
}
