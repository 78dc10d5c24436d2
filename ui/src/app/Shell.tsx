import { lazy, Suspense, useEffect, useRef, useState, type ReactNode } from 'react'
import { Link, useLocation, useSearch } from 'wouter'
import { api, BASE, call, setCsrfToken } from '../api/client'
import { isLoginNeeded } from '../api/errors'
import { useSession } from '../api/queries'
import { Button } from '../components/Button'
import { ErrorNotice } from '../components/ErrorNotice'
import { Loading } from '../components/Loading'
import { Menu, MenuItem } from '../components/Menu'
import { may } from '../lib/roles'
import { browserZone } from '../lib/time'
import { withSearch } from '../lib/url'
import { Help } from './Help'
import { LiveDot } from './live'
import { useShortcuts } from './shortcuts'
import { THEMES, useTheme } from './theme'
import { useZoneMode, type ZoneMode } from './zone'
import './shell.css'

const Palette = lazy(() => import('./Palette'))

const NAV = [
  { path: '/', label: 'Home', keys: 'g h' },
  { path: '/jobs', label: 'Jobs', keys: 'g j' },
  { path: '/runs', label: 'Runs', keys: 'g r' },
  { path: '/forecast', label: 'Forecast', keys: 'g f' },
  { path: '/incidents', label: 'Incidents', keys: 'g i' },
  { path: '/nodes', label: 'Nodes', keys: 'g n' },
  { path: '/audit', label: 'Audit', keys: 'g a', needs: 'admin' as const },
]

export function Shell({ children }: { children: ReactNode }) {
  const session = useSession()
  const [path, navigate] = useLocation()
  const search = useSearch()
  const [isSearching, setSearching] = useState(false)
  const [isHelping, setHelping] = useState(false)
  const main = useRef<HTMLElement>(null)
  const nav = NAV.filter(({ needs }) => !needs || may(session.data?.role, needs))
  const isLogin = path === '/login'
  const needsLogin = isLoginNeeded(session.error)

  useEffect(() => {
    if (needsLogin && !isLogin) navigate(withSearch('/login', { next: search ? `${path}?${search}` : path }), { replace: true })
  }, [needsLogin, isLogin, navigate, path, search])

  useEffect(() => {
    // On a phone the screens are wider than the bar.
    document.querySelector('.hb-nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [path, nav.length])

  useShortcuts([
    ...(isLogin
      ? []
      : [
          { keys: 'Ctrl+k', label: 'Search jobs, runs, screens and actions', run: () => setSearching(true) },
          { keys: '/', label: 'Search', run: () => setSearching(true) },
          ...nav.map(({ path, label, keys }) => ({ keys, label: `Go to ${label.toLowerCase()}`, run: () => navigate(path) })),
        ]),
    { keys: '?', label: 'Show this help', run: () => setHelping(true) },
  ])

  if (isLogin) return <main id="main">{children}</main>
  return (
    <>
      <button type="button" className="hb-skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <header className="hb-top">
        <Link href="/" className="hb-brand">
          <svg viewBox="0 0 16 16" width="13" height="13" aria-hidden="true">
            <circle cx="8" cy="8" r="6.75" fill="none" stroke="currentColor" strokeWidth="1.5" />
            <path d="M8 1.5V8H1.5" fill="none" stroke="currentColor" strokeWidth="1.5" />
          </svg>
          <span>Hourbell</span>
        </Link>
        <nav aria-label="Screens" className="hb-nav">
          {nav.map(({ path: to, label }) => (
            <Link key={to} href={to} aria-current={isWithin(path, to) ? 'page' : undefined}>
              {label}
            </Link>
          ))}
        </nav>
        <button type="button" className="hb-find" onClick={() => setSearching(true)} aria-keyshortcuts="Control+K /">
          <span>Find a job or run…</span>
          <kbd>Ctrl K</kbd>
        </button>
        <ZoneSelect />
        <LiveDot />
        <UserMenu onHelp={() => setHelping(true)} />
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {session.data && !needsLogin ? (
          children
        ) : session.isError && !needsLogin ? (
          <div className="hb-screen">
            <ErrorNotice error={session.error} what="The server cannot be used yet" onRetry={() => void session.refetch()} />
          </div>
        ) : (
          <Loading what="Hourbell" />
        )}
      </main>
      {isSearching && (
        <Suspense>
          <Palette onClose={() => setSearching(false)} onHelp={() => setHelping(true)} />
        </Suspense>
      )}
      {isHelping && <Help onClose={() => setHelping(false)} />}
    </>
  )
}

function isWithin(path: string, to: string): boolean {
  if (to === '/runs' && path === '/failed') return true
  return path === to || (to !== '/' && path.startsWith(`${to}/`))
}

function ZoneSelect() {
  const { mode, setMode } = useZoneMode()
  const zone = browserZone()
  return (
    <select className="hb-zone" aria-label="Time zone of all times" value={zone === 'UTC' && mode === 'utc' ? 'browser' : mode} onChange={(event) => setMode(event.target.value as ZoneMode)}>
      <option value="browser">{zone}</option>
      {zone !== 'UTC' && <option value="utc">UTC</option>}
      <option value="job">each job's zone</option>
    </select>
  )
}

function UserMenu({ onHelp }: { onHelp: () => void }) {
  const session = useSession().data
  const [theme, setTheme] = useTheme()
  const [, navigate] = useLocation()
  const logOut = async () => {
    await call(api.DELETE('/api/v1/session'))
    setCsrfToken(null)
    // A full load, so that nothing of the session stays in memory.
    window.location.assign(`${BASE}/login`)
  }
  return (
    <Menu label="Menu" header={session && `${session.name} · ${session.role}`}>
      <MenuItem onSelect={() => navigate('/failed')}>Failed runs</MenuItem>
      <MenuItem onSelect={() => navigate('/jobs/new')} needs="editor">
        New job
      </MenuItem>
      <MenuItem onSelect={() => navigate('/import')} needs="editor">
        Import a crontab or jobs file
      </MenuItem>
      <MenuItem onSelect={() => navigate('/tokens')} needs="admin">
        Tokens
      </MenuItem>
      <div className="hb-menu-part" role="group" aria-label="Theme">
        <span className="hb-muted hb-small">Theme</span>
        {THEMES.map((name) => (
          <Button key={name} size="small" aria-pressed={theme === name} onClick={() => setTheme(name)}>
            {name}
          </Button>
        ))}
      </div>
      <MenuItem onSelect={onHelp} keys="?">
        Keyboard
      </MenuItem>
      {session?.kind === 'session' && <MenuItem onSelect={() => void logOut()}>Log out</MenuItem>}
    </Menu>
  )
}
