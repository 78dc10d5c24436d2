import { useCallback } from 'react'
import { useLocation, useSearch } from 'wouter'
import { patchSearch, type Patch } from '../lib/url'

/**
 * The query of the address as state. `set(patch)` changes some parameters and replaces the history entry;
 * `set(patch, { push: true })` adds one, for what the Back button should undo (opening, paging).
 */
export function useUrlState(): [URLSearchParams, (patch: Patch, options?: { push?: boolean }) => void] {
  const search = useSearch()
  const [path, navigate] = useLocation()
  const set = useCallback(
    (patch: Patch, options: { push?: boolean } = {}) => {
      // The address itself, so that two changes in one event do not undo each other.
      const next = patchSearch(window.location.search, patch)
      navigate(next ? `${path}?${next}` : path, { replace: !options.push })
    },
    [navigate, path],
  )
  return [new URLSearchParams(search), set]
}
