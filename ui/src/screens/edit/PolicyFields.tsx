/** Every policy with what it means and its default. */
import { Field, Select } from '../../components/Field'
import { fromLocal, isZone, partsOf, isoDate } from '../../lib/time'
import { defaultCatchUp, type Form } from './form'

interface Props {
  form: Form
  set: (patch: Partial<Form>) => void
  error: (...pointers: string[]) => string | undefined
}

type Choice = readonly [value: string, meaning: string]

const CATCH_UP: readonly Choice[] = [
  ['latest', 'After an outage, only the newest missed time runs; the others are skipped.'],
  ['earliest', 'After an outage, only the oldest missed time runs; the others are skipped.'],
  ['all', 'After an outage, every missed time runs, oldest first.'],
  ['none', 'A time later than “late after” is skipped.'],
]
const OVERLAP: readonly Choice[] = [
  ['allow', 'A new run starts while another one is unfinished.'],
  ['queue_all', 'New runs wait their turn, one at a time.'],
  ['queue_one', 'One run waits; further times are skipped.'],
  ['skip', 'A time is skipped while a run is unfinished.'],
  ['cancel_running', 'The new run starts; waiting runs are cancelled, and the running one is asked to stop.'],
]
const RETRY: readonly Choice[] = [
  ['default', '4 attempts, with 30 s, 2 min and 10 min in between.'],
  ['fixed', '3 attempts, a minute apart.'],
  ['exponential', '8 attempts with exponential backoff.'],
  ['none', 'One attempt.'],
  ['custom', 'A custom number of attempts and delays.'],
]
const DELIVERY: readonly Choice[] = [
  ['at_least_once', 'An attempt with unknown outcome is repeated; the target must be idempotent.'],
  ['at_most_once', 'An attempt with unknown outcome is never repeated; the run fails as lost.'],
]
const PRIORITY: readonly Choice[] = [
  ['high', 'Runs start before others when slots are scarce.'],
  ['normal', 'Runs of the same priority start oldest first when slots are scarce.'],
  ['low', 'Runs start after others when slots are scarce; one slot in eight is reserved for the oldest run.'],
]
const DST: readonly Choice[] = [
  ['once', 'A fixed time runs once a day: right after the gap if the clock skips it, the first time if it repeats.'],
  ['wall', 'Runs whenever the clock shows the time: not in a gap, twice in a repeated hour.'],
  ['skip', 'A fixed time that the clock skips does not run.'],
]

export function PolicyFields({ form, set, error }: Props) {
  const catchUpDefault = defaultCatchUp(form.schedule)
  return (
    <div className="edit-policies">
      <Chosen label="Missed times" name="catch_up" value={form.catchUp || catchUpDefault} fallback={catchUpDefault} choices={CATCH_UP} onChange={(value) => set({ catchUp: value })} error={error('/catch_up')} />
      <Text label="Catch-up window" value={form.catchUpWindow} placeholder="no limit" onChange={(catchUpWindow) => set({ catchUpWindow })} error={error('/catch_up_window')} hint="Missed times older than this are skipped. Default: no limit." />
      <Chosen label="Overlap" name="overlap" value={form.overlap} fallback="allow" choices={OVERLAP} onChange={(overlap) => set({ overlap })} error={error('/overlap')} />
      <Chosen label="Delivery" name="delivery" value={form.delivery} fallback="at_least_once" choices={DELIVERY} onChange={(delivery) => set({ delivery })} error={error('/delivery')} />
      <Chosen label="Retry" name="retry" value={form.retry} fallback="default" choices={RETRY} onChange={(retry) => set({ retry })} error={form.retry === 'custom' ? undefined : error('/retry')} />
      {form.retry === 'custom' && (
        <div className="edit-retry">
          <Text label="Attempts" value={form.attempts} onChange={(attempts) => set({ attempts })} error={error('/retry/attempts')} hint="1 to 100, with the first." />
          <Text label="Delays between attempts" value={form.backoff} onChange={(backoff) => set({ backoff })} error={error('/retry/backoff')} hint="Separated by commas; the last one repeats." />
          <Text label="Spread" value={form.spread} placeholder="0" onChange={(spread) => set({ spread })} error={error('/retry/spread')} hint="0 to 1: how much of a wait is random. Default: 0." />
        </div>
      )}
      <Chosen label="Priority" name="priority" value={form.priority} fallback="normal" choices={PRIORITY} onChange={(priority) => set({ priority })} error={error('/priority')} />
      <Text label="Late after" value={form.lateAfter} placeholder="5m" onChange={(lateAfter) => set({ lateAfter })} error={error('/late_after')} hint="A run that starts later than this counts as late. Default: 5m." />
      <Text label="Give up after" value={form.maxAge} placeholder="1d" onChange={(maxAge) => set({ maxAge })} error={error('/max_age')} hint="A run older than this is not attempted again. Default: 1d." />
      <Text label="Jitter" value={form.jitter} placeholder="0s" onChange={(jitter) => set({ jitter })} error={error('/jitter')} hint="Spreads runs over this long after their scheduled times. Default: 0s." />
      <Chosen label="Clock changes" name="dst" value={form.dst} fallback="once" choices={DST} onChange={(dst) => set({ dst })} error={error('/dst')} />
      <LocalTime label="Starts" value={form.startsAt} zone={form.timezone} onChange={(startsAt) => set({ startsAt })} error={error('/starts_at')} hint="Nothing runs before this time. Default: no start." />
      <LocalTime label="Ends" value={form.endsAt} zone={form.timezone} onChange={(endsAt) => set({ endsAt })} error={error('/ends_at')} hint="Nothing runs after this time. Default: no end." />
    </div>
  )
}

function Chosen({ label, name, value, fallback, choices, onChange, error }: { label: string; name: string; value: string; fallback: string; choices: readonly Choice[]; onChange: (value: string) => void; error: string | undefined }) {
  const options = choices.map(([each]) => [each, each === fallback ? `${each} (default)` : each] as const)
  return (
    <Field label={label} error={error} hint={choices.find(([each]) => each === value)?.[1] ?? name}>
      <Picked value={value} options={options} onChange={onChange} isSet={value !== fallback} />
    </Field>
  )
}

function Picked({ value, options, onChange, isSet, ...rest }: { value: string; options: readonly (readonly [string, string])[]; onChange: (value: string) => void; isSet: boolean }) {
  return <Select {...rest} value={value} options={options} onChange={onChange} isSet={isSet} />
}

function Text({ label, value, placeholder, hint, error, onChange }: { label: string; value: string; placeholder?: string; hint: string; error: string | undefined; onChange: (value: string) => void }) {
  return (
    <Field label={label} hint={hint} error={error}>
      <input value={value} placeholder={placeholder} onChange={(event) => onChange(event.target.value)} spellCheck={false} autoComplete="off" />
    </Field>
  )
}

/** A time of the job's zone; stored with its offset. */
function LocalTime({ label, value, zone, hint, error, onChange }: { label: string; value: string; zone: string; hint: string; error: string | undefined; onChange: (value: string) => void }) {
  const shown = isZone(zone) ? zone : 'UTC'
  return (
    <Field label={`${label} (${shown})`} hint={hint} error={error}>
      <input type="datetime-local" value={localOf(value, shown)} onChange={(event) => onChange(instantOf(event.target.value, shown))} />
    </Field>
  )
}

function localOf(value: string, zone: string): string {
  const at = Date.parse(value)
  if (!value || Number.isNaN(at)) return ''
  const parts = partsOf(at, zone)
  return `${isoDate(at, zone)}T${parts.hour}:${parts.minute}${parts.second === '00' ? '' : `:${parts.second}`}`
}

function instantOf(local: string, zone: string): string {
  const at = local ? fromLocal(local, zone) : NaN
  return Number.isNaN(at) ? '' : new Date(at).toISOString().replace('.000Z', 'Z')
}
