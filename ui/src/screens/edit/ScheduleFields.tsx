/** The schedule: builder tabs, the expression below them, what it says in words, and its errors with carets. */
import { useState, type ReactNode } from 'react'
import type { Preview } from '../../api/types'
import { Button } from '../../components/Button'
import { Field, Select } from '../../components/Field'
import { Tabs } from '../../components/Tabs'
import { serverNow } from '../../lib/clock'
import { isoDate, isZone } from '../../lib/time'
import { build, convert, daysIn, MODES, MONTHS, parseExpression, readTime, WEEKDAYS, type Built, type Mode, type MonthDay, type Unit } from './builder'
import { markedLines, markErrors } from './scheduleErrors'

interface Props {
  schedule: string
  /** The stored expression, to go back to. */
  stored: string | null
  zone: string
  onChange: (schedule: string) => void
  preview: Preview | undefined
  errors: readonly { message: string; hint?: string | null | undefined }[]
}

const UNITS: readonly (readonly [Unit, string])[] = [
  ['s', 'seconds'],
  ['m', 'minutes'],
  ['h', 'hours'],
  ['d', 'days'],
  ['w', 'weeks'],
]

export function ScheduleFields({ schedule, stored, zone, onChange, preview, errors }: Props) {
  const parsed = parseExpression(schedule)
  const [chosen, setChosen] = useState<Mode | null>(null)
  // A free text stays in the tab where it is typed, also when a builder could say it.
  const mode: Mode = chosen === 'cron' ? (parsed.mode === 'rrule' ? 'rrule' : 'cron') : chosen === 'rrule' && parsed.mode === 'cron' && !schedule.trim() ? 'rrule' : parsed.mode
  const today = isoDate(serverNow(), isZone(zone) ? zone : 'UTC')
  const pick = (next: Mode) => {
    setChosen(next)
    if (next === 'cron' && parsed.mode !== 'rrule') {
      const converted = convert(parsed, 'cron', today)
      if (parsed.mode !== 'cron') onChange(build(converted))
    } else if (next !== parsed.mode) onChange(build(convert(parsed, next, isoDate(serverNow() + 86_400_000, isZone(zone) ? zone : 'UTC'))))
  }
  const change = (built: Built) => onChange(build(built))
  const problems = markErrors(schedule, errors)
  return (
    <>
      <Tabs label="Schedule type" tabs={MODES} value={mode} onChange={pick} />
      <div className="edit-builder">
        {mode === parsed.mode && parsed.mode === 'every' && <Every built={parsed} onChange={change} zone={zone} />}
        {mode === parsed.mode && parsed.mode === 'daily' && <Daily built={parsed} onChange={change} />}
        {mode === parsed.mode && parsed.mode === 'weekly' && <Weekly built={parsed} onChange={change} />}
        {mode === parsed.mode && parsed.mode === 'monthly' && <Monthly built={parsed} onChange={change} />}
        {mode === parsed.mode && parsed.mode === 'once' && <Once built={parsed} onChange={change} zone={zone} />}
        {mode === parsed.mode && parsed.mode === 'yearly' && <Yearly built={parsed} onChange={change} />}
        {mode === 'cron' && <CronHelp />}
        {mode === 'rrule' && <RruleHelp />}
      </div>
      <Expression value={schedule} isLong={mode === 'rrule'} isInvalid={problems.length > 0} onChange={onChange} />
      <div className="edit-words" id="edit-schedule-note" aria-live="polite">
        {markedLines(problems).map(({ line, carets }) => (
          <pre key={line} className="edit-marked" aria-hidden="true">
            {line}
            {'\n'}
            <span>{carets}</span>
          </pre>
        ))}
        {problems.map((problem, index) => (
          <p key={index} className="hb-field-error hb-mono">
            {problem.message}
            {problem.hint && `; ${problem.hint}`}
          </p>
        ))}
        {!problems.length && preview && (
          <p>
            <strong>{preview.description}</strong>
            <span className="hb-muted"> in {preview.timezone}</span>
            {preview.resolved !== preview.schedule && (
              <span className="hb-muted">
                {' '}
                · <code>{preview.resolved}</code> for this name
              </span>
            )}
          </p>
        )}
        {stored !== null && stored !== schedule && (
          <p className="hb-field-hint">
            Stored: <code>{stored}</code>{' '}
            <button type="button" className="edit-text-button" onClick={() => onChange(stored)}>
              Restore
            </button>
          </p>
        )}
      </div>
    </>
  )
}

function Expression({ value, isLong, isInvalid, onChange }: { value: string; isLong: boolean; isInvalid: boolean; onChange: (value: string) => void }) {
  const shared = { className: 'hb-mono edit-expression', value, spellCheck: false, autoComplete: 'off', 'aria-describedby': 'edit-schedule-note', 'aria-invalid': isInvalid || undefined }
  return (
    <Field label="Expression">
      {isLong ? <LongText {...shared} onChange={onChange} /> : <input {...shared} maxLength={4096} onChange={(event) => onChange(event.target.value)} />}
    </Field>
  )
}

function LongText({ onChange, ...rest }: { value: string; onChange: (value: string) => void; className: string }) {
  return <textarea {...rest} rows={3} maxLength={4096} onChange={(event) => onChange(event.target.value)} />
}

type Props1<M extends Mode> = { built: Extract<Built, { mode: M }>; onChange: (built: Built) => void }

function Every({ built, onChange, zone }: Props1<'every'> & { zone: string }) {
  const { from } = built
  return (
    <>
      <Row>
        <span>Every</span>
        <NumberInput label="Amount" value={built.amount} min={1} max={999_999_999} onChange={(amount) => onChange({ ...built, amount })} />
        <Select aria-label="Unit" value={built.unit} options={UNITS} onChange={(unit) => onChange({ ...built, unit })} />
        <label className="edit-check">
          <input type="checkbox" checked={from !== null} onChange={(event) => onChange({ ...built, from: event.target.checked ? { date: isoDate(serverNow(), 'UTC'), time: '00:00', offset: 'Z' } : null })} />
          counted from
        </label>
        {from && (
          <>
            <DateInput value={from.date} onChange={(date) => onChange({ ...built, from: { ...from, date } })} />
            <TimeInput value={from.time} onChange={(time) => onChange({ ...built, from: { ...from, time } })} />
            <OffsetSelect offset={from.offset} zone={zone} onChange={(offset) => onChange({ ...built, from: { ...from, offset } })} />
          </>
        )}
      </Row>
      <p className="hb-field-hint">Elapsed time: a day is 24 hours, also when clocks change. Without a start it is counted from 1970-01-01 UTC, so restarts and edits do not shift it.</p>
    </>
  )
}

function Daily({ built, onChange }: Props1<'daily'>) {
  const [first = '09:00'] = built.times
  const minute = first.slice(3, 5)
  const hours = built.times.map((time) => Number(time.slice(0, 2)))
  return (
    <>
      <Row>
        <span>Every day at</span>
        {built.times.length === 1 ? (
          <TimeInput value={first} onChange={(time) => onChange({ ...built, times: [time.slice(0, 5)] })} />
        ) : (
          <NumberInput label="Minute" value={Number(minute)} min={0} max={59} before="minute" onChange={(next) => onChange({ ...built, times: hours.map((hour) => `${two(hour)}:${two(next)}`) })} />
        )}
      </Row>
      <Choices
        label="Hours"
        size="small"
        options={Array.from({ length: 24 }, (_, hour) => [hour, two(hour)] as const)}
        chosen={hours}
        onChange={(next) => next.length && onChange({ ...built, times: next.map((hour) => `${two(hour)}:${minute}`) })}
      />
      <p className="hb-field-hint">Choose more hours for several times a day.</p>
    </>
  )
}

function Weekly({ built, onChange }: Props1<'weekly'>) {
  const set = (weekdays: number[]) => onChange({ ...built, weekdays })
  return (
    <>
      <Choices label="Weekdays" options={WEEKDAYS.map((name, index) => [index + 1, name.slice(0, 3)] as const)} chosen={built.weekdays} onChange={(next) => next.length && set(next)} />
      <Row>
        <span>at</span>
        <TimeInput value={built.time} onChange={(time) => onChange({ ...built, time: time.slice(0, 5) })} />
        <Button size="small" onClick={() => set([1, 2, 3, 4, 5])}>
          Weekdays
        </Button>
        <Button size="small" onClick={() => set([6, 7])}>
          Weekend
        </Button>
      </Row>
    </>
  )
}

const KINDS: readonly (readonly [MonthDay['kind'], string])[] = [
  ['days', 'days of the month'],
  ['last', 'the last day'],
  ['last-weekday', 'the last Monday to Friday'],
  ['nth', 'a weekday of the month'],
]
const NTH = [
  ['1', 'first'],
  ['2', 'second'],
  ['3', 'third'],
  ['4', 'fourth'],
  ['5', 'fifth'],
  ['last', 'last'],
] as const

function Monthly({ built, onChange }: Props1<'monthly'>) {
  const { on } = built
  const setOn = (next: MonthDay) => onChange({ ...built, on: next })
  const kind = (next: MonthDay['kind']) => setOn(next === 'days' ? { kind: next, days: [1] } : next === 'nth' ? { kind: next, nth: 1, weekday: 1 } : { kind: next })
  return (
    <>
      <Row>
        <span>On</span>
        <Select aria-label="Which day" value={on.kind} options={KINDS} onChange={kind} />
        {on.kind === 'nth' && (
          <>
            <Select aria-label="Which week" value={String(on.nth) as (typeof NTH)[number][0]} options={NTH} onChange={(nth) => setOn({ ...on, nth: nth === 'last' ? nth : (Number(nth) as 1) })} />
            <Select aria-label="Weekday" value={String(on.weekday)} options={WEEKDAYS.map((name, index) => [String(index + 1), name] as const)} onChange={(day) => setOn({ ...on, weekday: Number(day) })} />
          </>
        )}
        <span>at</span>
        <TimeInput value={built.time} onChange={(time) => onChange({ ...built, time: time.slice(0, 5) })} />
      </Row>
      {on.kind === 'days' && (
        <Choices label="Days of the month" size="small" options={Array.from({ length: 31 }, (_, index) => [index + 1, String(index + 1)] as const)} chosen={on.days} onChange={(days) => days.length && setOn({ kind: 'days', days })} />
      )}
      <Choices label="Months; none chosen means every month" options={MONTHS.map((name, index) => [index + 1, name.slice(0, 3)] as const)} chosen={built.months} onChange={(months) => onChange({ ...built, months: months.length === 12 ? [] : months })} />
      <p className="hb-field-hint">{built.months.length ? 'In the chosen months.' : 'Every month. Choose months to run in those only.'}</p>
    </>
  )
}

function Once({ built, onChange, zone }: Props1<'once'> & { zone: string }) {
  const { at } = built
  return (
    <>
      <Row>
        <span>At</span>
        <DateInput value={at.date} onChange={(date) => onChange({ ...built, at: { ...at, date } })} />
        <TimeInput value={at.time} hasSeconds onChange={(time) => onChange({ ...built, at: { ...at, time } })} />
        <OffsetSelect offset={at.offset} zone={zone} onChange={(offset) => onChange({ ...built, at: { ...at, offset } })} />
      </Row>
      <p className="hb-field-hint">It runs once, even if late, and the job is done afterwards.</p>
    </>
  )
}

function Yearly({ built, onChange }: Props1<'yearly'>) {
  return (
    <>
      <Row>
        <span>Every year on</span>
        <NumberInput label="Day" value={built.day} min={1} max={daysIn(built.month)} onChange={(day) => onChange({ ...built, day })} />
        <Select
          aria-label="Month"
          value={String(built.month)}
          options={MONTHS.map((name, index) => [String(index + 1), name] as const)}
          onChange={(month) => onChange({ ...built, month: Number(month), day: Math.min(built.day, daysIn(Number(month))) })}
        />
        <span>at</span>
        <TimeInput value={built.time} hasSeconds onChange={(time) => onChange({ ...built, time })} />
      </Row>
      {built.month === 2 && built.day === 29 && (
        <Row>
          <span>In years without it</span>
          <Select
            aria-label="In years without 29 February"
            value={built.feb29 || 'feb28'}
            options={[
              ['feb28', 'on 28 February (default)'],
              ['mar1', 'on 1 March'],
              ['skip', 'not at all'],
            ]}
            onChange={(feb29) => onChange({ ...built, feb29: feb29 === 'feb28' ? '' : feb29 })}
          />
        </Row>
      )}
      <p className="hb-field-hint">All missed times run later: catch-up defaults to “all” here.</p>
    </>
  )
}

function CronHelp() {
  return (
    <dl className="edit-cheats">
      <dt>fields</dt>
      <dd>minute, hour, day of month, month, day of week; with six, seconds come first</dd>
      <dt>
        <code>*/15</code> <code>9-17</code> <code>1,15</code>
      </dt>
      <dd>steps, ranges, lists</dd>
      <dt>
        <code>L</code> <code>LW</code> <code>15W</code> <code>FRI#2</code> <code>FRIL</code>
      </dt>
      <dd>last day, last Monday to Friday, nearest to the 15th, second Friday, last Friday</dd>
      <dt>
        <code>H</code> <code>H(0-29)</code>
      </dt>
      <dd>a fixed value made from the job’s name, to spread load</dd>
      <dt>
        <code>0 0 13 * +FRI</code>
      </dt>
      <dd>both days must match: Friday the 13th</dd>
    </dl>
  )
}

function RruleHelp() {
  return (
    <dl className="edit-cheats">
      <dt>
        <code>RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17</code>
      </dt>
      <dd>RFC 5545; DAILY, WEEKLY, MONTHLY or YEARLY</dd>
      <dt>
        <code>DTSTART:20260105T090000</code>
      </dt>
      <dd>needed with INTERVAL above 1, COUNT and BYSETPOS</dd>
      <dt>
        <code>EXDATE:20260119T090000</code>
      </dt>
      <dd>leaves a time out; RDATE adds one; a line or a space between the parts</dd>
    </dl>
  )
}

function Row({ children }: { children: ReactNode }) {
  return <div className="edit-row">{children}</div>
}

/** Buttons of which any number can be pressed. */
function Choices({ label, options, chosen, onChange, size = 'normal' }: { label: string; options: readonly (readonly [number, string])[]; chosen: readonly number[]; onChange: (chosen: number[]) => void; size?: 'small' | 'normal' }) {
  return (
    <div className="edit-choices" data-size={size} role="group" aria-label={label}>
      {options.map(([value, text]) => {
        const isOn = chosen.includes(value)
        return (
          <button key={value} type="button" aria-pressed={isOn} onClick={() => onChange(isOn ? chosen.filter((each) => each !== value) : [...chosen, value].sort((a, b) => a - b))}>
            {text}
          </button>
        )
      })}
    </div>
  )
}

function NumberInput({ label, value, min, max, before, onChange }: { label: string; value: number; min: number; max: number; before?: string; onChange: (value: number) => void }) {
  const [text, setText] = useState<string | null>(null)
  return (
    <label className="edit-inline">
      {before ? <span>{before}</span> : <span className="hb-hidden">{label}</span>}
      <input
        type="number"
        className="hb-input edit-number"
        min={min}
        max={max}
        value={text ?? value}
        onChange={(event) => {
          setText(event.target.value)
          const next = Number(event.target.value)
          if (event.target.value && Number.isInteger(next) && next >= min && next <= max) onChange(next)
        }}
        onBlur={() => setText(null)}
      />
    </label>
  )
}

/** A time of day on a clock of 24 hours, whatever the browser's language. */
function TimeInput({ value, hasSeconds = false, onChange }: { value: string; hasSeconds?: boolean; onChange: (value: string) => void }) {
  const [text, setText] = useState<string | null>(null)
  return (
    <input
      aria-label={hasSeconds ? 'Time of day, as 09:00 or 09:00:30' : 'Time of day, as 09:00'}
      className="hb-input edit-time"
      inputMode="numeric"
      autoComplete="off"
      maxLength={hasSeconds ? 8 : 5}
      value={text ?? value}
      aria-invalid={text !== null && !readTime(text, hasSeconds) ? true : undefined}
      onFocus={(event) => event.target.select()}
      onChange={(event) => {
        setText(event.target.value)
        const time = readTime(event.target.value, hasSeconds)
        if (time && event.target.value.length >= 4) onChange(time)
      }}
      onBlur={() => {
        const time = text === null ? null : readTime(text, hasSeconds)
        if (time) onChange(time)
        setText(null)
      }}
    />
  )
}

function DateInput({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return <input type="date" aria-label="Date" className="hb-input" value={value} onChange={(event) => event.target.value && onChange(event.target.value)} />
}

function OffsetSelect({ offset, zone, onChange }: { offset: string; zone: string; onChange: (offset: string) => void }) {
  const options: (readonly [string, string])[] = [
    ['', zone],
    ['Z', 'UTC'],
  ]
  if (offset && offset !== 'Z') options.push([offset, `UTC${offset}`])
  return <Select aria-label="Zone of this time" value={offset} options={options} onChange={onChange} />
}

const two = (number: number) => String(number).padStart(2, '0')
