import { QueryClientProvider } from '@tanstack/react-query'
import { useState } from 'react'
import { Router } from 'wouter'
import { createQueryClient } from '../api/queries'
import { ConfirmProvider } from '../components/ConfirmDialog'
import { ToastProvider } from '../components/Toast'
import { basePath } from '../lib/base'
import { LiveProvider } from './live'
import { Routes } from './routes'
import { Shell } from './Shell'
import { ShortcutProvider } from './shortcuts'
import { ZoneProvider } from './zone'

export function App() {
  const [client] = useState(createQueryClient)
  return (
    <QueryClientProvider client={client}>
      <Router base={basePath()}>
        <ZoneProvider>
          <ShortcutProvider>
            <ToastProvider>
              <ConfirmProvider>
                <LiveProvider client={client}>
                  <Shell>
                    <Routes />
                  </Shell>
                </LiveProvider>
              </ConfirmProvider>
            </ToastProvider>
          </ShortcutProvider>
        </ZoneProvider>
      </Router>
    </QueryClientProvider>
  )
}
