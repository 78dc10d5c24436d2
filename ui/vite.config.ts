import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

declare const process: { env: Record<string, string | undefined> }

// Paths in the built page are relative; the server adds the path prefix to those of index.html.
export default defineConfig({
  base: './',
  plugins: [react()],
  build: {
    outDir: '../src/hourbell/page',
    emptyOutDir: true,
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
  test: { include: ['tests/**/*.test.ts'], css: true },
  // The Host header stays as it is: the server compares it with the Origin.
  server: {
    port: 5173,
    proxy: { '/api': process.env.HOURBELL_URL ?? 'http://127.0.0.1:8080' },
  },
})
