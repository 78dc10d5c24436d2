/** Appears only if loading takes a moment, so that fast answers do not flicker. */
export function Loading({ what }: { what: string }) {
  return (
    <div className="hb-loading" role="status">
      Loading {what}…
    </div>
  )
}
