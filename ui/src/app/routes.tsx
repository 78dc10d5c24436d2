/** Every screen, loaded when it is opened. Order matters: the first path that matches wins. */
import { Component, type ComponentType, type ReactNode } from 'react'
import { Route, Switch, useLocation } from 'wouter'
import { ErrorNotice } from '../components/ErrorNotice'
import { lazyScreen as lazy } from './lazyScreen'
import { NotFound } from './NotFound'

const SCREENS: readonly [path: string, screen: ComponentType][] = [
  ['/', lazy(() => import('../screens/home'))],
  ['/jobs', lazy(() => import('../screens/jobs'))],
  ['/jobs/new', lazy(() => import('../screens/edit'))],
  ['/jobs/:job/edit', lazy(() => import('../screens/edit'))],
  ['/jobs/:job/explain', lazy(() => import('../screens/explain'))],
  ['/jobs/:job', lazy(() => import('../screens/job'))],
  ['/runs', lazy(() => import('../screens/runs'))],
  ['/runs/:run', lazy(() => import('../screens/run'))],
  ['/failed', lazy(() => import('../screens/failed'))],
  ['/forecast', lazy(() => import('../screens/forecast'))],
  ['/incidents', lazy(() => import('../screens/incidents'))],
  ['/incidents/:incident', lazy(() => import('../screens/incidents/Incident'))],
  ['/nodes', lazy(() => import('../screens/nodes'))],
  ['/audit', lazy(() => import('../screens/audit'))],
  ['/tokens', lazy(() => import('../screens/tokens'))],
  ['/import', lazy(() => import('../screens/import'))],
  ['/login', lazy(() => import('../screens/login'))],
]

export function Routes() {
  const [path] = useLocation()
  return (
    <ScreenErrors key={path}>
      <Switch>
        {SCREENS.map(([path, screen]) => (
          <Route key={path} path={path} component={screen} />
        ))}
        <Route component={NotFound} />
      </Switch>
    </ScreenErrors>
  )
}

/** An error of one screen leaves the others usable. A screen of an older build that is gone needs a reload. */
class ScreenErrors extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null }

  static getDerivedStateFromError(error: Error) {
    return { error }
  }

  override render() {
    const { error } = this.state
    if (!error) return this.props.children
    return <ErrorNotice error={error} what="This screen failed" onRetry={() => location.reload()} retryLabel="Reload the page" />
  }
}
