import { useState } from 'react'
import { recall, remember } from '../lib/storage'
import { oneOf } from '../lib/url'

export const THEMES = ['system', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

export function recallTheme(): Theme {
  return oneOf(recall('theme'), THEMES)
}

export function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState(recallTheme)
  return [
    theme,
    (next) => {
      setTheme(next)
      applyTheme(next)
      remember('theme', next)
    },
  ]
}
