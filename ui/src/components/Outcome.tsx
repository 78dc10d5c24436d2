import { FATE_WORDS, TONES, type Fate } from '../lib/outcome'

/** The mark of an outcome: shape and colour. Beside a text it is hidden from screen readers; alone it needs `label`. */
export function OutcomeMark({ fate, label, size = 12 }: { fate: Fate; label?: string; size?: number }) {
  return (
    <svg className="hb-mark" data-tone={TONES[fate]} viewBox="0 0 12 12" width={size} height={size} role={label ? 'img' : undefined} aria-label={label} aria-hidden={label ? undefined : true}>
      {SHAPES[fate]}
    </svg>
  )
}

/** Mark and text; `text` replaces the plain word ("failed 9 times in a row"). */
export function Outcome({ fate, text, title }: { fate: Fate; text?: string; title?: string }) {
  return (
    <span className="hb-outcome" data-tone={TONES[fate]} title={title}>
      <OutcomeMark fate={fate} />
      {text ?? FATE_WORDS[fate]}
    </span>
  )
}

const stroke = { fill: 'none', stroke: 'currentColor', strokeWidth: 1.4 }

const SHAPES: Record<Fate, React.ReactNode> = {
  succeeded: <rect x="1" y="2" width="10" height="8" rx="2" fill="currentColor" />,
  late: (
    <>
      <path d="M0 6h4" {...stroke} strokeDasharray="1.5 1" />
      <rect x="5" y="2" width="7" height="8" rx="2" fill="currentColor" />
    </>
  ),
  failed: <path d="M6 0.5 11.5 6 6 11.5 0.5 6Z" fill="currentColor" />,
  cancelled: (
    <>
      <rect x="1.2" y="2.2" width="9.6" height="7.6" rx="2" {...stroke} />
      <path d="M2.5 9.5 9.5 2.5" {...stroke} />
    </>
  ),
  skipped: <circle cx="6" cy="6" r="4.3" {...stroke} />,
  running: (
    <>
      <rect x="1.2" y="2.2" width="9.6" height="7.6" rx="2" {...stroke} />
      <rect x="1" y="2" width="5.5" height="8" rx="2" fill="currentColor" />
    </>
  ),
  retrying: (
    <>
      <path d="M6 1.2 10.8 6 6 10.8 1.2 6Z" {...stroke} />
      <circle cx="6" cy="6" r="1.4" fill="currentColor" />
    </>
  ),
  waiting: <path d="M2 6h1.6M5.2 6h1.6M8.4 6H10" {...stroke} strokeWidth="2" />,
  planned: <rect x="1.2" y="2.2" width="9.6" height="7.6" rx="2" {...stroke} />,
  paused: <path d="M4 1.5v9M8 1.5v9" {...stroke} strokeWidth="1.8" />,
}
