// Check the weight of the first load: the script of index.html with all it imports at once, and every style sheet.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const page = fileURLToPath(new URL('../../src/hourbell/page/', import.meta.url))
const MAX_SCRIPT_BYTES = 120 * 1024
const MAX_STYLE_BYTES = 20 * 1024

if (!existsSync(join(page, 'index.html'))) throw new Error('build the page first: npm run build')
const html = readFileSync(join(page, 'index.html'), 'utf8')
if (/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=/.test(html)) throw new Error('index.html has an inline script or style')
const weigh = (path) => gzipSync(readFileSync(join(page, path)), { level: 9 }).length

const first = new Set()
const visit = (path) => {
  if (first.has(path)) return
  first.add(path)
  const text = readFileSync(join(page, path), 'utf8')
  for (const [, name] of text.matchAll(/(?:from|import)\s*["']\.\/([\w.-]+\.js)["']/g)) visit(`assets/${name}`)
}
for (const [, path] of html.matchAll(/(?:src|href)="\.\/([^"]+\.js)"/g)) visit(path)

const assets = readdirSync(join(page, 'assets')).map((name) => `assets/${name}`)
const sum = (paths) => paths.reduce((total, path) => total + weigh(path), 0)
const script = sum([...first])
const style = sum(assets.filter((path) => path.endsWith('.css')))
const kib = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`
console.log(`first load: ${kib(script)} of scripts, limit ${kib(MAX_SCRIPT_BYTES)}; all styles: ${kib(style)}, limit ${kib(MAX_STYLE_BYTES)} (gzip)`)
for (const path of assets.filter((path) => path.endsWith('.js') && !first.has(path))) console.log(`  later: ${path} ${kib(weigh(path))}`)
if (script > MAX_SCRIPT_BYTES || style > MAX_STYLE_BYTES) process.exit(1)
