import { useEffect, useState } from 'react'
import { COLOURS, type Colours } from './draw'

/** The colours of the theme as the canvas takes them, read anew when the theme changes. */
export function useColours(): Colours | null {
  const [colours, setColours] = useState<Colours | null>(null)
  useEffect(() => {
    const read = () => setColours(readColours())
    read()
    const observer = new MutationObserver(read)
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] })
    const dark = window.matchMedia('(prefers-color-scheme: dark)')
    dark.addEventListener('change', read)
    return () => {
      observer.disconnect()
      dark.removeEventListener('change', read)
    }
  }, [])
  return colours
}

function readColours(): Colours {
  const probe = document.createElement('span')
  probe.hidden = true
  document.body.append(probe)
  const found = Object.fromEntries(
    COLOURS.map((name) => {
      probe.style.color = `var(--${name})`
      return [name, getComputedStyle(probe).color]
    }),
  ) as Colours
  probe.remove()
  return found
}
