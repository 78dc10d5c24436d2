import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import './app/back'
import { App } from './app/App'
import { applyTheme, recallTheme } from './app/theme'
import './styles/base.css'

applyTheme(recallTheme())
const root = document.getElementById('root')
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  )
}
