/** Names for the shapes of the API, generated from docs/openapi.json; below, those that the document does not have yet. */
import type { Fate } from '../lib/outcome'
import type { components } from './schema'

type Schemas = components['schemas']

export type Session = Schemas['SessionAnswer']
export type Job = Schemas['JobListed'] & WithRecent
export type JobDetail = Schemas['JobDetail'] & WithRecent
export type JobBody = Schemas['JobBody']
export type Run = Schemas['RunListed']
export type RunDetail = Schemas['RunDetail']
export type Attempt = Schemas['AttemptAnswer']
export type RunState = Schemas['RunState']
export type Skip = Schemas['SkipAnswer']
export type Stats = Schemas['OverviewAnswer']
export type Timeline = Schemas['TimelineAnswer']
export type TimelineRow = Schemas['TimelineItem']
export type TimelineRun = Schemas['TimelineRun']
export type TimelineBucket = Schemas['TimelineBucket']
export type Outage = Schemas['TimelineOutage']
export type Explanation = Schemas['ExplainAnswer']
export type Preview = Schemas['PreviewAnswer']
export type Forecast = Schemas['ForecastAnswer']
export type Node = Schemas['NodeAnswer']
export type AuditEntry = Schemas['AuditListed']
export type Token = Schemas['TokenAnswer']
export type Intention = Schemas['Intention']
export type Plan = Schemas['Plan']
export type Converted = Schemas['Converted']
export type Occurrence = Schemas['Occurrence']
export type Incident = Schemas['IncidentAnswer']
export type IncidentDetail = Schemas['IncidentDetail']
export type Channel = Schemas['ChannelAnswer']
export type AlertPolicy = Schemas['AlertPolicyAnswer']
export type Problem = Schemas['ProblemAnswer']
export type Version = Schemas['VersionListed']

export interface List<T> {
  items: T[]
  next_cursor: string | null
}

export type Attention = 'failing' | 'retrying' | 'losing' | 'late' | 'paused'

export interface RecentTime {
  run_id: string | null
  at: string
  fate: Fate
  lateness_ms: number | null
  duration_ms: number | null
}

/** In answers to `recent=20`. */
export interface WithRecent {
  recent?: RecentTime[]
  median_duration_ms?: number | null
  p95_duration_ms?: number | null
  streak?: number
}

/** A line of a job's ledger. */
export interface LedgerTime {
  at: string
  local: string
  until: string | null
  count: number
  fate: Fate
  run: {
    id: string
    kind: string
    state: string
    reason: string | null
    attempt: number
    started_at: string | null
    finished_at: string | null
    lateness_ms: number | null
    duration_ms: number | null
    error: string | null
    status_code: number | null
    replay_of: string | null
  } | null
  skip: { reason: string } | null
  version: number
}

export interface Day {
  date: string
  succeeded: number
  failed: number
  late: number
  cancelled: number
  skipped: number
  unfinished: number
}

export interface Series {
  items: { run_id: string; at: string; state: string; duration_ms: number | null; lateness_ms: number | null; attempt: number }[]
  median_duration_ms: number | null
  p95_duration_ms: number | null
  median_lateness_ms: number | null
  p95_lateness_ms: number | null
  duration_slope_ms_per_week: number | null
}

export interface FailureGroup {
  fingerprint: string
  error: string
  reason: string
  lane: string
  count: number
  first_at: string
  last_at: string
  jobs: string[]
  job_count: number
  sample_run_id: string
}

export type JobAction = 'pause' | 'resume' | 'trigger' | 'delete' | 'tag' | 'untag'

export interface JobBulkBody {
  action: JobAction
  jobs?: string[]
  filter?: Record<string, string | string[]>
  expect?: number
  note?: string
  until?: string
  tags?: string[]
  payload?: unknown
}

export interface JobBulkAnswer {
  dry_run: boolean
  matched: number
  done: { id: string; name: string; run_id?: string }[]
  refused: { name: string; message: string }[]
  has_more: boolean
}

