import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import './app/back'
import { App } from './app/App'
import { applyTheme, recallTheme } from './app/theme'
import { basePath } from './lib/base'
import './styles/base.css'

// Home is fetched while the session is asked for, so that its first data come one request earlier.
if (window.location.pathname === `${basePath()}/`) void import('./screens/home')

applyTheme(recallTheme())
const root = document.getElementById('root')
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  )
}
