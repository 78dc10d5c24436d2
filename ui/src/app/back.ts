/**
 * Back and Forward, before the router hears of them. Listeners on the window run in the order in which they were added,
 * so `main.tsx` imports this before it renders.
 */
type Guard = (event: PopStateEvent) => void

let guard: Guard | null = null

window.addEventListener('popstate', (event) => guard?.(event))

/** A guard that stops the event keeps the screen. Returns how to remove it. */
export function guardBack(next: Guard): () => void {
  guard = next
  return () => {
    if (guard === next) guard = null
  }
}
