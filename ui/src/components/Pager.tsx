import { Button } from './Button'

/** Pages of a list by cursor: the first page, and the next one while there is one. */
export function Pager({ shown, hasPrevious, nextCursor, onFirst, onNext, note }: { shown: string; hasPrevious: boolean; nextCursor: string | null | undefined; onFirst: () => void; onNext: (cursor: string) => void; note?: string }) {
  return (
    <nav className="hb-pager" aria-label="Pages">
      <span className="hb-muted">
        {shown}
        {note && ` · ${note}`}
      </span>
      {(hasPrevious || nextCursor) && (
        <div className="hb-actions">
          <Button size="small" disabled={!hasPrevious} onClick={onFirst}>
            First
          </Button>
          <Button size="small" disabled={!nextCursor} onClick={() => nextCursor && onNext(nextCursor)}>
            Next
          </Button>
        </div>
      )}
    </nav>
  )
}
